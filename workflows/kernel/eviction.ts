/**
 * Making room before a model call (K15, K16): results shrink from the oldest on, then a summary takes the place of the oldest units, then
 * a new sprint begins with little more than the task. Pure.
 *
 * Invariants
 * 1. Units are whole: a user's card, or what the model said with all results of its calls and the notes before it. A summary begins and ends between units.
 * 2. The task, what users said since, and the newest units stay; only a sprint, or a last resort, touches the newest results.
 * 3. What comes out fits the window, or the turn ends `context_overflow`.
 */
import { indexAfter, userMessages } from './handles.ts';
import {
  COLLAPSED_TOKENS,
  estimatedTokens,
  estimates,
  fits,
  handleTokens,
  type Marks,
  mostAt,
  pressureOf,
  promptLimit,
  raised,
  snipTokens,
  unitTokens,
} from './pressure.ts';
import type { BoxExtent, ContextUnit, Handle, KernelState } from './state.ts';

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

const pinnedSeqs = ({ handles }: KernelState): ReadonlySet<number> => new Set(userMessages(handles, PINNED_USERS));

/** What a summary takes the place of: earlier units from the front, and cards of this turn. */
export interface Departure {
  readonly mode: 'summary' | 'sprint';
  readonly units: number;
  /** By place. */
  readonly seqs: readonly number[];
}

export type Room =
  | { readonly kind: 'fits'; readonly state: KernelState; readonly tokens: number }
  | { readonly kind: 'depart'; readonly state: KernelState; readonly departure: Departure }
  | { readonly kind: 'overflow'; readonly state: KernelState };

/** `forced` after the provider called a prompt too long: everything that may go goes. */
export function makeRoom(state: KernelState, nowMs: number, forced = false): Room {
  const idle = nowMs - state.context.activityAt >= IDLE_MS;
  const last = shrinkable(state);
  const { asIs, snipped, previews } = estimates(state, last);
  let tokens = asIs;
  const rho = forced ? Number.POSITIVE_INFINITY : pressureOf(state, tokens);
  let next = state;
  const become = (shorter: KernelState, estimate: number) => {
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
    if (departure) return { kind: 'depart', state: next, departure };
  }
  return renew(next, tokens);
}

function renew(state: KernelState, tokens: number): Room {
  if (pressureOf(state, tokens) <= LEVELS.renew) return { kind: 'fits', state, tokens };
  const departure = sprint(state);
  if (departure) return { kind: 'depart', state, departure };
  const bare = marked(state, { collapsed: state.handles.at(-1)?.[0] ?? 0 });
  const least = estimatedTokens(bare);
  return { kind: fits(bare, least) ? 'fits' : 'overflow', state: bare, tokens: least };
}

const marked = (state: KernelState, change: Partial<Marks>): KernelState => ({
  ...state,
  context: { ...state.context, marks: raised(state.context.marks, change) },
});

/** The place before the newest units. */
function shrinkable({ handles, context }: KernelState): number {
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
function collapse(state: KernelState, tokens: number, last: number, target: number): { mark: number; saved: number } {
  const { earlier, marks, correction } = state.context;
  const snip = snipTokens(state.config.context.windowTokens);
  const enough = tokens - (target * promptLimit(state)) / correction;
  let saved = 0;
  let mark = marks.collapsed;
  for (const unit of earlier) {
    if (saved >= enough || unit.toSeq > last) break;
    saved += unitTokens(unit, marks) - unitTokens(unit, { ...marks, collapsed: unit.toSeq });
    mark = Math.max(mark, unit.toSeq);
  }
  for (const handle of state.handles) {
    const seq = handle[0];
    if (saved >= enough || seq > last) break;
    if (handle[1] === 'tool' && handle[2] > COLLAPSED_TOKENS)
      saved += Math.min(handle[2], mostAt(marks, seq, snip)) - COLLAPSED_TOKENS;
    mark = Math.max(mark, seq);
  }
  return { mark, saved };
}

/** The oldest units that must go for the rest and a summary to meet the target; null when none may. */
function summarise(state: KernelState, tokens: number): Departure | null {
  const { context, config } = state;
  const snip = snipTokens(config.context.windowTokens);
  const room = (LEVELS.target * promptLimit(state)) / context.correction;
  let over = tokens + summaryTokens(state) - (context.summary?.[2] ?? 0) - room;
  let units = 0;
  for (const unit of context.earlier) {
    if (over <= 0) break;
    over -= unitTokens(unit, context.marks);
    units += 1;
  }
  const seqs: number[] = [];
  const pinned = pinnedSeqs(state);
  const newest = newestFrom(state, pinned);
  let leadsOn = false;
  for (const handle of state.handles) {
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

export const summaryTokens = ({ config }: KernelState): number =>
  Math.min(SUMMARY_TOKENS, Math.floor(config.context.windowTokens * CARRY_OVER_SHARE * 2));

/** Everything but the task, what users said, and the newest units as far as they are small. */
function sprint(state: KernelState): Departure | null {
  const window = state.config.context.windowTokens;
  const snip = snipTokens(window);
  let left = Math.max(CARRY_OVER_FLOOR, Math.floor(window * CARRY_OVER_SHARE));
  const units = [...ownUnits(state, pinnedSeqs(state))];
  let kept = 0;
  for (const unit of [...units].reverse()) {
    left -= unit.reduce((sum, handle) => sum + handleTokens(handle, state.context.marks, snip), 0);
    if (left < 0 && kept > 0) break;
    kept += 1;
  }
  const leaving = units.slice(0, units.length - kept).flatMap((unit) => unit.map(([seq]) => seq));
  // What a user said while calls ran lies among their results.
  const seqs = leaving.sort((a, b) => a - b);
  const { length } = state.context.earlier;
  return length + seqs.length === 0 ? null : { mode: 'sprint', units: length, seqs };
}

/** Units of the model with the notes that led to them, oldest first; pinned cards are in none. */
function* ownUnits(state: KernelState, pinned: ReadonlySet<number>): Generator<readonly Handle[]> {
  let thought: Handle[] | undefined;
  /** The newest thought, and what began since: a result may still be added. */
  let open: Handle[][] = [];
  for (const handle of state.handles) {
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
function newestFrom({ handles }: KernelState, pinned: ReadonlySet<number>): number {
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
export function departingExtents(state: KernelState, { units, seqs }: Departure): readonly BoxExtent[] {
  const { context, outputBoxId: boxId, handles } = state;
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
  state: KernelState,
  { units, seqs }: Departure,
  summary: Handle,
): { readonly state: KernelState; readonly saved: number } {
  const { handles, context, config } = state;
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
    state: { ...state, handles: kept.concat(handles.slice(end)), context: { ...context, earlier, summary } },
    saved,
  };
}
