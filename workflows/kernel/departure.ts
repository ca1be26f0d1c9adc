/** What leaves the view when a summary takes its place (K15, K16): which places that are, and the view without them. Pure. */
import type { View, ViewState } from './context.ts';
import { type BoxExtent, type Handle, indexAfter } from './handles.ts';
import { handleTokens, snipTokens, unitTokens } from './pressure.ts';

/** What a summary takes the place of, besides the summary before it. */
export interface Departure {
  /** A sprint leaves little more than the task; its summary is written by rule. */
  readonly mode: 'summary' | 'sprint';
  /** How many of the earlier turns go, from the oldest on. */
  readonly units: number;
  /** The places of the cards of this turn that go, in ascending order. */
  readonly seqs: readonly number[];
}

/**
 * The stretches of the output box that leave the view. They are as few as possible: a stretch may cover cards that are never rendered, but
 * none that stays.
 */
export function departingExtents(view: ViewState, { units, seqs }: Departure): readonly BoxExtent[] {
  const { context, outputBoxId: boxId } = view;
  const earlier = context.earlier.slice(0, units);
  const [first] = earlier;
  const last = earlier.at(-1);
  const remembered = first && last ? [{ boxId, fromSeq: first.fromSeq, toSeq: last.toSeq }] : [];
  const summary = context.summary ? [{ boxId, fromSeq: context.summary[0], toSeq: context.summary[0] }] : [];
  return [...summary, ...remembered, ...ownExtents(view, seqs)];
}

function ownExtents({ handles, outputBoxId: boxId }: ViewState, seqs: readonly number[]): readonly BoxExtent[] {
  const goes = membership(seqs);
  const own: BoxExtent[] = [];
  let fromSeq: number | undefined;
  let toSeq = 0;
  const close = () => {
    if (fromSeq !== undefined) own.push({ boxId, fromSeq, toSeq });
    fromSeq = undefined;
  };
  for (const [seq] of handles.slice(0, endOf(handles, seqs))) {
    if (goes(seq)) {
      fromSeq ??= seq;
      toSeq = seq;
    } else close();
  }
  close();
  return own;
}

/** The index behind the newest of these cards. They are mostly old, so that most cards need not be compared. */
const endOf = (handles: readonly Handle[], seqs: readonly number[]): number => indexAfter(handles, seqs.at(-1) ?? 0);

/** Whether a place is in the list, for places asked about in ascending order: building a set would take longer than all the rest. */
function membership(seqs: readonly number[]): (seq: number) => boolean {
  let next = 0;
  return (seq) => {
    if (seqs[next] !== seq) return false;
    next += 1;
    return true;
  };
}

/** The view with the summary in the place of what departs, and how many tokens that saves. */
export function withoutDeparted(
  view: View,
  { units, seqs }: Departure,
  summary: Handle,
): { readonly view: Pick<ViewState, 'handles' | 'context'>; readonly saved: number } {
  const { handles, context, config } = view;
  const { marks } = context;
  const snip = snipTokens(config.context.windowTokens);
  const goes = membership(seqs);
  const end = endOf(handles, seqs);
  const kept: Handle[] = [];
  let saved = (context.summary?.[2] ?? 0) - summary[2];
  for (const unit of context.earlier.slice(0, units)) saved += unitTokens(unit, marks);
  for (const handle of handles.slice(0, end)) {
    if (goes(handle[0])) saved += handleTokens(handle, marks, snip);
    else kept.push(handle);
  }
  return {
    view: {
      handles: kept.concat(handles.slice(end)),
      context: { ...context, earlier: context.earlier.slice(units), summary },
    },
    saved,
  };
}
