/** From handles to ranges: what the model activity shall render, oldest first, the newest instruction last (T24, K3). */
import type { Plan, PlanRange } from './actions.ts';
import type { Marks, ViewState } from './context.ts';
import { type BoxExtent, type Handle, indexAfter } from './handles.ts';
import { type Residency, residencyAt } from './pressure.ts';

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

/** First and last card of each stretch in which all have one residency; the place of the summary lies between two stretches. */
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

/** Neighbours of one box and residency are joined: what lies between is out of view, or of a kind that is never rendered. */
class Ranges {
  readonly list: PlanRange[] = [];
  readonly #apart: { readonly boxId: string; readonly seq: number } | null;
  #closed = true;

  constructor(apart: { readonly boxId: string; readonly seq: number } | null) {
    this.#apart = apart;
  }

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

  /** The summary comes first, wherever it lies. */
  #crosses(last: BoxExtent, toSeq: number): boolean {
    const apart = this.#apart;
    return apart !== null && apart.boxId === last.boxId && last.fromSeq <= apart.seq && apart.seq <= toSeq;
  }
}

/** The same for what a summary is made of. */
export const planOfDeparting = ({ context }: ViewState, departing: readonly BoxExtent[]): Plan => {
  const { marks } = context;
  return { ranges: departing.map((extent) => withResidency(extent, residencyAt(marks, extent.toSeq))) };
};

const withResidency = (extent: BoxExtent, residency: Residency): PlanRange =>
  residency === 'full' ? extent : { ...extent, residency };
