/** From handles to ranges: what the model activity shall render, oldest first, the newest instruction last (T24). */
import type { Plan } from './actions.ts';
import type { BoxExtent, KernelState } from './state.ts';

export function planOf(state: KernelState): Plan {
  const own: BoxExtent[] = [];
  for (const [seq] of state.handles) {
    const last = own.at(-1);
    // Within one turn the box also holds cards that are never rendered (tool.call), so gaps are bridged.
    if (last) own[own.length - 1] = { ...last, toSeq: Math.max(last.toSeq, seq) };
    else own.push({ boxId: state.outputBoxId, fromSeq: seq, toSeq: seq });
  }
  return { ranges: [...state.memory.filter((extent) => extent.toSeq >= extent.fromSeq), ...own] };
}
