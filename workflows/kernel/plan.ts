/** From handles to ranges: what the model activity shall render, oldest first, the newest instruction last (T24, K3). */
import type { Plan, PlanRange } from './actions.ts';
import { type Residency, residencyAt } from './pressure.ts';
import type { BoxExtent, KernelState } from './state.ts';

export function planOf({ context, handles, outputBoxId }: KernelState): Plan {
  const { summary, memory, given, marks } = context;
  const ranges = new Ranges(summary === null ? null : { boxId: outputBoxId, seq: summary[0] });
  if (summary) ranges.alone({ boxId: outputBoxId, fromSeq: summary[0], toSeq: summary[0] });
  for (const unit of memory) ranges.add(unit, residencyAt(marks, unit.toSeq));
  for (const unit of given) ranges.add(unit, 'full');
  for (const [seq] of handles) ranges.add({ boxId: outputBoxId, fromSeq: seq, toSeq: seq }, residencyAt(marks, seq));
  return { ranges: ranges.list };
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
export const planOfDeparting = (state: KernelState, departing: readonly BoxExtent[]): Plan => {
  const { marks } = state.context;
  return { ranges: departing.map((extent) => withResidency(extent, residencyAt(marks, extent.toSeq))) };
};

const withResidency = (extent: BoxExtent, residency: Residency): PlanRange =>
  residency === 'full' ? extent : { ...extent, residency };
