/**
 * Making room before a model call (K15, K16): results shrink from the oldest on, then a summary takes the place of the oldest units, then
 * a new sprint begins with little more than the task. Pure.
 *
 * Invariants
 * 1. Units are whole: a user's card, or what the model said with all results of its calls and the notes before it. A summary begins and ends between units.
 * 2. The task, what users said since, and the newest units stay; only a sprint, or a last resort, touches the newest results.
 * 3. What comes out fits the window, or the turn ends `context_overflow`.
 */
import { estimatedTokens, handleTokens, type Marks, pressure, promptLimit, unitTokens } from './pressure.ts';
import type { BoxExtent, Handle, HandleRole, KernelState, MemoryUnit } from './state.ts';

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

/** What a summary takes the place of: memory units from the front, and cards of this turn. */
export interface Departure {
  readonly mode: 'summary' | 'sprint';
  readonly units: number;
  readonly seqs: readonly number[];
}

export type Room =
  | { readonly kind: 'fits'; readonly state: KernelState }
  | { readonly kind: 'depart'; readonly state: KernelState; readonly departure: Departure }
  | { readonly kind: 'overflow'; readonly state: KernelState };

/** `forced` after the provider called a prompt too long: everything that may go goes. */
export function makeRoom(state: KernelState, nowMs: number, forced = false): Room {
  const idle = nowMs - state.context.activityAt >= IDLE_MS;
  const rho = forced ? Number.POSITIVE_INFINITY : pressure(state);
  const last = shrinkable(state);
  let next = idle ? marked(state, { preview: last }) : state;
  if (rho > LEVELS.snip) next = marked(next, { snipped: last });
  if (rho > LEVELS.preview && pressure(next) > LEVELS.target) next = marked(next, { preview: last });
  if (rho > LEVELS.collapse && pressure(next) > LEVELS.target) next = collapse(next, last, forced ? 0 : LEVELS.target);
  if (rho > LEVELS.summarise && (forced || pressure(next) > LEVELS.target)) {
    const departure = summarise(next);
    if (departure) return { kind: 'depart', state: next, departure };
  }
  return renew(next);
}

function renew(state: KernelState): Room {
  if (pressure(state) <= LEVELS.renew) return { kind: 'fits', state };
  const departure = sprint(state);
  if (departure) return { kind: 'depart', state, departure };
  const bare = marked(state, { collapsed: state.handles.at(-1)?.[0] ?? 0 });
  return { kind: pressure(bare) <= 1 ? 'fits' : 'overflow', state: bare };
}

const marked = (state: KernelState, change: Partial<Marks>): KernelState => {
  const { marks } = state.context;
  const moved: Marks = {
    snipped: Math.max(marks.snipped, change.snipped ?? 0),
    preview: Math.max(marks.preview, change.preview ?? 0),
    collapsed: Math.max(marks.collapsed, change.collapsed ?? 0),
  };
  return { ...state, context: { ...state.context, marks: moved } };
};

/** Places where units of the model begin, oldest first. */
const thoughts = ({ handles }: KernelState): readonly number[] =>
  handles.filter(([, role]) => role === 'assistant').map(([seq]) => seq);

/** The place before the newest units. */
function shrinkable(state: KernelState): number {
  const starts = thoughts(state);
  const first = starts[Math.max(0, starts.length - NEWEST_UNITS)];
  return first === undefined ? (state.context.memory.at(-1)?.toSeq ?? 0) : first - 1;
}

/** Oldest first, until the target is reached. */
function collapse(state: KernelState, last: number, target: number): KernelState {
  const { memory, marks, correction } = state.context;
  const window = state.config.context.windowTokens;
  let over = estimatedTokens(state) - (target * promptLimit(state)) / correction;
  let mark = marks.collapsed;
  const all = (seq: number): Marks => ({ ...marks, collapsed: seq });
  for (const unit of memory) {
    if (over <= 0 || unit.toSeq > last) break;
    over -= unitTokens(unit, marks) - unitTokens(unit, all(unit.toSeq));
    mark = Math.max(mark, unit.toSeq);
  }
  for (const handle of state.handles) {
    const [seq] = handle;
    if (over <= 0 || seq > last) break;
    over -= handleTokens(handle, marks, window) - handleTokens(handle, all(seq), window);
    mark = Math.max(mark, seq);
  }
  return marked(state, { collapsed: mark });
}

/** The oldest units that must go for the rest and a summary to meet the target; null when none may. */
function summarise(state: KernelState): Departure | null {
  const { context, config } = state;
  const room = (LEVELS.target * promptLimit(state)) / context.correction;
  let over = estimatedTokens(state) + summaryTokens(state) - (context.summary?.[2] ?? 0) - room;
  let units = 0;
  for (const unit of context.memory) {
    if (over <= 0) break;
    over -= unitTokens(unit, context.marks);
    units += 1;
  }
  const seqs: number[] = [];
  for (const unit of ownUnits(state).slice(0, -NEWEST_UNITS)) {
    if (over <= 0) break;
    for (const handle of unit) over -= handleTokens(handle, context.marks, config.context.windowTokens);
    seqs.push(...unit.map(([seq]) => seq));
  }
  return units + seqs.length === 0 ? null : { mode: 'summary', units, seqs };
}

export const summaryTokens = ({ config }: KernelState): number =>
  Math.min(SUMMARY_TOKENS, Math.floor(config.context.windowTokens * CARRY_OVER_SHARE * 2));

/** Everything but the task, what users said, and the newest units as far as they are small. */
function sprint(state: KernelState): Departure | null {
  const window = state.config.context.windowTokens;
  let left = Math.max(CARRY_OVER_FLOOR, Math.floor(window * CARRY_OVER_SHARE));
  const units = ownUnits(state);
  let kept = 0;
  for (const unit of [...units].reverse()) {
    left -= unit.reduce((sum, handle) => sum + handleTokens(handle, state.context.marks, window), 0);
    if (left < 0 && kept > 0) break;
    kept += 1;
  }
  const seqs = units.slice(0, units.length - kept).flatMap((unit) => unit.map(([seq]) => seq));
  const { length } = state.context.memory;
  return length + seqs.length === 0 ? null : { mode: 'sprint', units: length, seqs };
}

/** Units of the model and their notes, oldest first; pinned cards are in none. */
export function ownUnits(state: KernelState): readonly (readonly Handle[])[] {
  const pinned = pinnedSeqs(state);
  const units: Handle[][] = [];
  for (const handle of state.handles) {
    const [seq, role] = handle;
    if (pinned.has(seq)) continue;
    const owner = ownerOf(units, role);
    if (owner) owner.push(handle);
    else units.push([handle]);
  }
  return units;
}

/** A result goes with the thought before it, whatever a user said in between; a thought with the notes that led to it. */
function ownerOf(units: readonly Handle[][], role: HandleRole): Handle[] | undefined {
  if (role === 'tool') return units.findLast((unit) => unit.some(([, member]) => member === 'assistant'));
  const last = units.at(-1);
  const notes = last?.every(([, member]) => member === 'note') ?? false;
  return notes && (role === 'assistant' || role === 'note') ? last : undefined;
}

/** The task, and the newest messages of users. */
function pinnedSeqs({ handles }: KernelState): ReadonlySet<number> {
  const users = handles.filter(([, role]) => role === 'user').map(([seq]) => seq);
  return new Set([...users.slice(0, 1), ...users.slice(1).slice(-PINNED_USERS)]);
}

/** The places of the output box that leave the view, as few ranges as it takes: cards that are never rendered lie in between. */
export function departingExtents(state: KernelState, { units, seqs }: Departure): readonly BoxExtent[] {
  const { context, outputBoxId: boxId, handles } = state;
  const gone = new Set(seqs);
  const own: BoxExtent[] = [];
  let open = false;
  for (const [seq] of handles) {
    const last = own.at(-1);
    if (!gone.has(seq)) open = false;
    else if (open && last) own[own.length - 1] = { ...last, toSeq: seq };
    else {
      own.push({ boxId, fromSeq: seq, toSeq: seq });
      open = true;
    }
  }
  const memory = context.memory.slice(0, units);
  const [first] = memory;
  const last = memory.at(-1);
  const remembered = first && last ? [{ boxId, fromSeq: first.fromSeq, toSeq: last.toSeq }] : [];
  const summary = context.summary ? [{ boxId, fromSeq: context.summary[0], toSeq: context.summary[0] }] : [];
  return [...summary, ...remembered, ...own];
}

export const withoutDeparted = (state: KernelState, { units, seqs }: Departure, summary: Handle): KernelState => {
  const gone = new Set(seqs);
  const memory: readonly MemoryUnit[] = state.context.memory.slice(units);
  const handles = state.handles.filter(([seq]) => !gone.has(seq));
  return { ...state, handles, context: { ...state.context, memory, summary } };
};
