/**
 * From handles to ranges: what the model activity renders, oldest first, so that the instruction stands behind the earlier turns (T24, K3).
 * Pure.
 */
import type { Plan, PlanRange } from './actions.ts';
import type { Marks, ViewState } from './context.ts';
import { type BoxExtent, type Handle, indexAfter } from './handles.ts';
import { type Residency, residencyAt } from './pressure.ts';

/** The plan of a prompt: the summary, the earlier turns, the context boxes of the request, the cards of this turn. */
export function planOf({ context, handles, outputBoxId }: ViewState): Plan {
  const { summary, earlier, given, marks } = context;
  const ranges = new Ranges(summary === null ? null : { boxId: outputBoxId, seq: summary[0] });
  if (summary) ranges.alone({ boxId: outputBoxId, fromSeq: summary[0], toSeq: summary[0] });
  for (const unit of earlier) ranges.add(unit, residencyAt(marks, unit.toSeq));
  for (const unit of given) ranges.add(unit, 'full');
  for (const own of alike(handles, marks, summary))
    ranges.add({ boxId: outputBoxId, ...own }, residencyAt(marks, own.toSeq));
  return { ranges: ranges.list };
}

/** The first and last card of each stretch whose cards have one residency. No stretch leads across the place of the summary. */
function alike(
  handles: readonly Handle[],
  { snipped, preview, collapsed }: Marks,
  summary: Handle | null,
): readonly Pick<BoxExtent, 'fromSeq' | 'toSeq'>[] {
  const ends = [snipped, preview, collapsed, ...(summary ? [summary[0]] : [])].map((seq) => indexAfter(handles, seq));
  const bounds = [0, ...ends.sort((a, b) => a - b), handles.length];
  return bounds.slice(1).flatMap((end, index) => {
    const first = handles[bounds[index] ?? 0];
    const last = handles[end - 1];
    return first && last && first[0] <= last[0] ? [{ fromSeq: first[0], toSeq: last[0] }] : [];
  });
}

/**
 * Joins neighbours of one box and residency to one range. Cards that lie between them are out of view, or of a kind that is never rendered,
 * so that the range shows nothing more than they do.
 */
class Ranges {
  readonly list: PlanRange[] = [];
  /** The place of the summary, which must be in no other range than its own. */
  readonly #apart: { readonly boxId: string; readonly seq: number } | null;
  #closed = true;

  constructor(apart: { readonly boxId: string; readonly seq: number } | null) {
    this.#apart = apart;
  }

  /** A range that no later one is joined to. */
  alone(extent: BoxExtent): void {
    this.list.push(extent);
    this.#closed = true;
  }

  add({ boxId, fromSeq, toSeq }: BoxExtent, residency: Residency): void {
    if (toSeq < fromSeq) return;
    const last = this.list.at(-1);
    const same = last?.boxId === boxId && (last.residency ?? 'full') === residency && fromSeq > last.toSeq;
    if (last && same && !this.#closed && !this.#crosses(last, toSeq)) {
      this.list[this.list.length - 1] = { ...last, toSeq };
      return;
    }
    this.list.push({ boxId, fromSeq, toSeq, ...(residency === 'full' ? {} : { residency }) });
    this.#closed = false;
  }

  /** Whether the range would cover the summary, which comes first in the prompt wherever it lies in the box. */
  #crosses(last: BoxExtent, toSeq: number): boolean {
    const apart = this.#apart;
    return apart !== null && apart.boxId === last.boxId && last.fromSeq <= apart.seq && apart.seq <= toSeq;
  }
}

/** The plan of what a summary is made of: the same cards with as much of their results as the model saw last. */
export const planOfDeparting = ({ context }: ViewState, departing: readonly BoxExtent[]): Plan => {
  const { marks } = context;
  return { ranges: departing.map((extent) => withResidency(extent, residencyAt(marks, extent.toSeq))) };
};

const withResidency = (extent: BoxExtent, residency: Residency): PlanRange =>
  residency === 'full' ? extent : { ...extent, residency };
