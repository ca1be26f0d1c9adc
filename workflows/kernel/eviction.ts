/**
 * Making room before a model call (K15, K16): results shrink from the oldest on, then a summary takes the place of the oldest units, then
 * a new sprint begins with little more than the task. Pure.
 *
 * Invariants
 * 1. Units are whole: a user's card, or what the model said with all results of its calls and the notes before it. A summary begins and ends between units.
 * 2. The task, what users said since, and the newest units stay; only a sprint, or a last resort, touches the newest results.
 * 3. What comes out fits the window, or the turn ends `context_overflow`.
 */
import { type ContextUnit, type Marks, type View, type ViewState, withMarks } from './context.ts';
import { type BoxExtent, type Handle, indexAfter, userMessages } from './handles.ts';
import {
  COLLAPSED_TOKENS,
  estimatedTokens,
  estimates,
  fits,
  handleTokens,
  mostAt,
  pressureOf,
  promptLimit,
  raised,
  snipTokens,
  unitTokens,
} from './pressure.ts';

/** Pressures at which each level begins, and where they stop. */
export const LEVELS = { snip: 0.7, preview: 0.8, collapse: 0.9, summarise: 0.95, renew: 0.98, target: 0.65 } as const;

/** Units at the end that are not touched. */
const NEWEST_UNITS = 2;

/** A summary of the model is at most this long, or this share of the window. */
export const SUMMARY_TOKENS = 1_000;

const IDLE_MS = 60 * 60_000;

const CARRY_OVER_SHARE = 0.05;
const CARRY_OVER_FLOOR = 100;

/** Newest messages of users that are kept like the task. */
const PINNED_USERS = 8;

const pinnedSeqs = ({ handles }: View): ReadonlySet<number> => new Set(userMessages(handles, PINNED_USERS));

/** What a summary takes the place of: earlier units from the front, and cards of this turn. */
export interface Departure {
  readonly mode: 'summary' | 'sprint';
  readonly units: number;
  /** By place. */
  readonly seqs: readonly number[];
}

/** What became of the attempt, and how much results are shortened by it in any case. */
export type Room = { readonly marks: Marks } & (
  | { readonly kind: 'fits'; readonly tokens: number }
  | { readonly kind: 'depart'; readonly departure: Departure }
  | { readonly kind: 'overflow' }
);

/** `forced` after the provider called a prompt too long: everything that may go goes. */
export function makeRoom(view: View, nowMs: number, forced = false): Room {
  const idle = nowMs - view.context.activityAt >= IDLE_MS;
  const last = shrinkable(view);
  const { asIs, snipped, previews } = estimates(view, last);
  let tokens = asIs;
  const rho = forced ? Number.POSITIVE_INFINITY : pressureOf(view, tokens);
  let next = view;
  const become = (shorter: View, estimate: number) => {
    next = shorter;
    tokens = estimate;
  };
  const tooMuch = () => pressureOf(next, tokens) > LEVELS.target;
  if (idle) become(marked(next, { preview: last }), previews);
  if (rho > LEVELS.snip) become(marked(next, { snipped: last }), idle ? previews : snipped);
  if (rho > LEVELS.preview && tooMuch()) become(marked(next, { preview: last }), previews);
  if (rho > LEVELS.collapse && tooMuch()) {
    const { mark, saved } = collapse(next, tokens, last, forced ? 0 : LEVELS.target);
    become(marked(next, { collapsed: mark }), tokens - saved);
  }
  if (rho > LEVELS.summarise && (forced || tooMuch())) {
    const departure = summarise(next, tokens);
    if (departure) return { kind: 'depart', marks: next.context.marks, departure };
  }
  return renew(next, tokens);
}

function renew(view: View, tokens: number): Room {
  if (pressureOf(view, tokens) <= LEVELS.renew) return { kind: 'fits', marks: view.context.marks, tokens };
  const departure = sprint(view);
  if (departure) return { kind: 'depart', marks: view.context.marks, departure };
  const bare = marked(view, { collapsed: view.handles.at(-1)?.[0] ?? 0 });
  const least = estimatedTokens(bare);
  const { marks } = bare.context;
  return fits(bare, least) ? { kind: 'fits', marks, tokens: least } : { kind: 'overflow', marks };
}

const marked = (view: View, change: Partial<Marks>): View => withMarks(view, raised(view.context.marks, change));

/** The place before the newest units. */
function shrinkable({ handles, context }: View): number {
  let first: number | undefined;
  let units = 0;
  for (let index = handles.length - 1; index >= 0 && units < NEWEST_UNITS; index -= 1) {
    const handle = handles[index];
    if (handle?.[1] !== 'assistant') continue;
    first = handle[0];
    units += 1;
  }
  return first === undefined ? (context.earlier.at(-1)?.toSeq ?? 0) : first - 1;
}

/** Oldest first, until the target is reached: up to which place, and how many tokens that saves. */
function collapse(view: View, tokens: number, last: number, target: number): { mark: number; saved: number } {
  const { earlier, marks, correction } = view.context;
  const snip = snipTokens(view.config.context.windowTokens);
  const enough = tokens - (target * promptLimit(view)) / correction;
  let saved = 0;
  let mark = marks.collapsed;
  for (const unit of earlier) {
    if (saved >= enough || unit.toSeq > last) break;
    saved += unitTokens(unit, marks) - unitTokens(unit, { ...marks, collapsed: unit.toSeq });
    mark = Math.max(mark, unit.toSeq);
  }
  for (const handle of view.handles) {
    const seq = handle[0];
    if (saved >= enough || seq > last) break;
    if (handle[1] === 'tool' && handle[2] > COLLAPSED_TOKENS)
      saved += Math.min(handle[2], mostAt(marks, seq, snip)) - COLLAPSED_TOKENS;
    mark = Math.max(mark, seq);
  }
  return { mark, saved };
}

/** The oldest units that must go for the rest and a summary to meet the target; null when none may. */
function summarise(view: View, tokens: number): Departure | null {
  const { context, config } = view;
  const snip = snipTokens(config.context.windowTokens);
  const room = (LEVELS.target * promptLimit(view)) / context.correction;
  let over = tokens + summaryTokens(view) - (context.summary?.[2] ?? 0) - room;
  let units = 0;
  for (const unit of context.earlier) {
    if (over <= 0) break;
    over -= unitTokens(unit, context.marks);
    units += 1;
  }
  const seqs: number[] = [];
  const pinned = pinnedSeqs(view);
  const newest = newestFrom(view, pinned);
  let leadsOn = false;
  for (const handle of view.handles) {
    const seq = handle[0];
    const role = handle[1];
    if (role === 'user' && pinned.has(seq)) continue;
    // Only here: by the next thought all results of the one before are in. A thought goes with the notes that led to it.
    const begins = seqs.length === 0 || (!leadsOn && (role === 'assistant' || role === 'note'));
    if (begins && (over <= 0 || seq >= newest)) break;
    leadsOn = role === 'note';
    over -= handleTokens(handle, context.marks, snip);
    seqs.push(seq);
  }
  return units + seqs.length === 0 ? null : { mode: 'summary', units, seqs };
}

export const summaryTokens = ({ config }: View): number =>
  Math.min(SUMMARY_TOKENS, Math.floor(config.context.windowTokens * CARRY_OVER_SHARE * 2));

/** Everything but the task, what users said, and the newest units as far as they are small. */
function sprint(view: View): Departure | null {
  const window = view.config.context.windowTokens;
  const snip = snipTokens(window);
  let left = Math.max(CARRY_OVER_FLOOR, Math.floor(window * CARRY_OVER_SHARE));
  const units = [...ownUnits(view, pinnedSeqs(view))];
  let kept = 0;
  for (const unit of [...units].reverse()) {
    left -= unit.reduce((sum, handle) => sum + handleTokens(handle, view.context.marks, snip), 0);
    if (left < 0 && kept > 0) break;
    kept += 1;
  }
  const leaving = units.slice(0, units.length - kept).flatMap((unit) => unit.map(([seq]) => seq));
  // What a user said while calls ran lies among their results.
  const seqs = leaving.sort((a, b) => a - b);
  const { length } = view.context.earlier;
  return length + seqs.length === 0 ? null : { mode: 'sprint', units: length, seqs };
}

/** Units of the model with the notes that led to them, oldest first; pinned cards are in none. */
function* ownUnits(view: View, pinned: ReadonlySet<number>): Generator<readonly Handle[]> {
  let thought: Handle[] | undefined;
  /** The newest thought, and what began since: a result may still be added. */
  let open: Handle[][] = [];
  for (const handle of view.handles) {
    const role = handle[1];
    if (role === 'user' && pinned.has(handle[0])) continue;
    // A result goes with the thought before it, whatever a user said in between.
    if (role === 'tool' && thought) {
      thought.push(handle);
      continue;
    }
    const notes = role === 'assistant' || role === 'note' ? trailingNotes(open) : undefined;
    const unit = notes ?? [];
    unit.push(handle);
    if (role === 'assistant') {
      for (const begun of open) if (begun !== unit) yield begun;
      open = [unit];
      thought = unit;
    } else if (!notes) open.push(unit);
  }
  yield* open;
}

/** Notes that wait for the thought they lead to. */
function trailingNotes(open: readonly Handle[][]): Handle[] | undefined {
  const last = open.at(-1);
  return last?.every((handle) => handle[1] === 'note') ? last : undefined;
}

/** The place where the newest units begin; 0 when there are no others. */
function newestFrom({ handles }: View, pinned: ReadonlySet<number>): number {
  let units = 0;
  let from = 0;
  let takesNotes = false;
  for (let index = handles.length - 1; index >= 0; index -= 1) {
    const handle = handles[index];
    if (!handle || handle[1] === 'tool' || pinned.has(handle[0])) continue;
    const role = handle[1];
    if (!(takesNotes && role === 'note')) {
      if (units === NEWEST_UNITS) return from;
      units += 1;
      takesNotes = role === 'assistant' || role === 'note';
    }
    from = handle[0];
  }
  return 0;
}

/** The places of the output box that leave the view, as few ranges as it takes: cards that are never rendered lie in between. */
export function departingExtents(view: View, { units, seqs }: Departure): readonly BoxExtent[] {
  const { context, outputBoxId: boxId, handles } = view;
  const goes = oneOf(seqs);
  const own: BoxExtent[] = [];
  let fromSeq: number | undefined;
  let toSeq = 0;
  const close = () => {
    if (fromSeq !== undefined) own.push({ boxId, fromSeq, toSeq });
    fromSeq = undefined;
  };
  for (const handle of handles.slice(0, endOf(handles, seqs))) {
    const seq = handle[0];
    if (goes(seq)) {
      fromSeq ??= seq;
      toSeq = seq;
    } else close();
  }
  close();
  const earlier = context.earlier.slice(0, units);
  const [first] = earlier;
  const last = earlier.at(-1);
  const remembered = first && last ? [{ boxId, fromSeq: first.fromSeq, toSeq: last.toSeq }] : [];
  const summary = context.summary ? [{ boxId, fromSeq: context.summary[0], toSeq: context.summary[0] }] : [];
  return [...summary, ...remembered, ...own];
}

/** Behind the newest of these cards: mostly old ones, so that the rest need not be looked at. */
const endOf = (handles: readonly Handle[], seqs: readonly number[]): number => indexAfter(handles, seqs.at(-1) ?? 0);

/** For places asked about in ascending order, as both lists are: a set costs more than the rest of a summary. */
function oneOf(seqs: readonly number[]): (seq: number) => boolean {
  let next = 0;
  return (seq) => {
    if (seqs[next] !== seq) return false;
    next += 1;
    return true;
  };
}

/** The view without them, and how many tokens that saves. */
export function withoutDeparted(
  view: View,
  { units, seqs }: Departure,
  summary: Handle,
): { readonly view: Pick<ViewState, 'handles' | 'context'>; readonly saved: number } {
  const { handles, context, config } = view;
  const { marks } = context;
  const snip = snipTokens(config.context.windowTokens);
  const goes = oneOf(seqs);
  const end = endOf(handles, seqs);
  const kept: Handle[] = [];
  let saved = (context.summary?.[2] ?? 0) - summary[2];
  for (const unit of context.earlier.slice(0, units)) saved += unitTokens(unit, marks);
  for (const handle of handles.slice(0, end)) {
    if (goes(handle[0])) saved += handleTokens(handle, marks, snip);
    else kept.push(handle);
  }
  const earlier: readonly ContextUnit[] = context.earlier.slice(units);
  return {
    view: { handles: kept.concat(handles.slice(end)), context: { ...context, earlier, summary } },
    saved,
  };
}
