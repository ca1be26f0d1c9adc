/**
 * Making room before a model call (K15, K16): results shrink from the oldest on, then a summary takes the place of the oldest units, then
 * a new sprint begins with little more than the task. Pure.
 *
 * Invariants
 * 1. Units stay whole; a summary begins and ends between units.
 * 2. The task, the newest messages of users and the newest units stay. Only a sprint, or a last resort, touches the newest results.
 * 3. What comes out fits the window, or the turn ends `context_overflow`.
 */
import { type Marks, type View, withMarks } from './context.ts';
import type { Departure } from './departure.ts';
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
import { newestFrom, ownUnits, pinnedSeqs, shrinkable } from './units.ts';

/** How full the window must be for each level to begin, and how full it may be when they are done. */
export const LEVELS = { snip: 0.7, preview: 0.8, collapse: 0.9, summarise: 0.95, renew: 0.98, target: 0.65 } as const;

/** The most tokens of a summary that a model writes, in a window that is large enough. */
export const SUMMARY_TOKENS = 1_000;

/** After so long without an answer of the model the provider has forgotten the prompt, and nothing is lost by changing it. */
const IDLE_MS = 60 * 60_000;

/** The share of the window that the newest units may have which a sprint carries over, and the least they may have in tokens (K16). */
const CARRY_OVER_SHARE = 0.05;
const CARRY_OVER_FLOOR = 100;

/** What came of making room. The marks hold in each case: results that were shortened stay so. */
export type Room = { readonly marks: Marks } /** The prompt fits, with this many tokens by our count. */ & (
  | { readonly kind: 'fits'; readonly tokens: number }
  /** A summary must be made first. */
  | { readonly kind: 'depart'; readonly departure: Departure }
  /** Nothing more can go, and the prompt does not fit. */
  | { readonly kind: 'overflow' }
);

/** Makes room for the next prompt. With `forced`, after the provider found a prompt too long, everything that may go goes (K11). */
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

/** A sprint where the window is still too full; where nothing departs any more, the newest results are collapsed too. */
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

/** Up to which place results must be collapsed, oldest first and none behind `last`, to reach the target, and how many tokens that saves. */
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

/** The oldest units that must go for the rest and a summary to meet the target; null when none may go. */
function summarise(view: View, tokens: number): Departure | null {
  const { context } = view;
  const room = (LEVELS.target * promptLimit(view)) / context.correction;
  let over = tokens + summaryTokens(view) - (context.summary?.[2] ?? 0) - room;
  let units = 0;
  for (const unit of context.earlier) {
    if (over <= 0) break;
    over -= unitTokens(unit, context.marks);
    units += 1;
  }
  const seqs = oldestCards(view, over);
  return units + seqs.length === 0 ? null : { mode: 'summary', units, seqs };
}

/** The places of the oldest cards of the turn that must go to save `over` tokens; only whole units, and none of the newest. */
function oldestCards(view: View, over: number): readonly number[] {
  const { context, config } = view;
  const snip = snipTokens(config.context.windowTokens);
  const pinned = pinnedSeqs(view);
  const newest = newestFrom(view, pinned);
  const seqs: number[] = [];
  let left = over;
  let leadsOn = false;
  for (const handle of view.handles) {
    const [seq, role] = handle;
    if (role === 'user' && pinned.has(seq)) continue;
    // A unit ends only where the next one begins: by then all its results are in. Notes go with the message of the model they lead to.
    const begins = seqs.length === 0 || (!leadsOn && (role === 'assistant' || role === 'note'));
    if (begins && (left <= 0 || seq >= newest)) break;
    leadsOn = role === 'note';
    left -= handleTokens(handle, context.marks, snip);
    seqs.push(seq);
  }
  return seqs;
}

/** The most tokens of a summary, in this window. */
export const summaryTokens = ({ config }: View): number =>
  Math.min(SUMMARY_TOKENS, Math.floor(config.context.windowTokens * CARRY_OVER_SHARE * 2));

/** Everything but the pinned cards and the newest units as far as they are small, the newest in any case; null when that is nothing. */
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
  // Units may overlap: what a user said while calls ran lies among their results.
  const seqs = leaving.sort((a, b) => a - b);
  const { length } = view.context.earlier;
  return length + seqs.length === 0 ? null : { mode: 'sprint', units: length, seqs };
}
