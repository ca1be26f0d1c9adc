/** How a burst tells a kernel what has happened, as the workflow will tell its own. */
import type { BurstItem } from '../../workflows/contract/burst.ts';
import type { InboxDelivery } from '../../workflows/contract/inbox.ts';
import type { KernelAction } from '../../workflows/kernel/actions.ts';
import type { SettledCall } from '../../workflows/kernel/calls.ts';
import { TurnKernel } from '../../workflows/turn/kernel.ts';
import { responseEvent } from '../../workflows/turn/response.ts';

/** A kernel that stands where the other one does, and of which nobody learns. */
export const trialOf = ({ moment }: TurnKernel): TurnKernel =>
  new TurnKernel(moment, { observed: () => {}, notice: () => {} });

/** Tells a kernel of an item; null when nothing follows from it at once. */
export function feedItem(kernel: TurnKernel, item: BurstItem): KernelAction | null {
  switch (item.kind) {
    case 'event':
      return kernel.feed(item.event);
    case 'inbox':
      kernel.take(item.delivery, item.nowMs);
      return null;
    case 'step':
      kernel.take(item.record, item.nowMs);
      return kernel.feed(responseEvent(item.record, item.nowMs));
  }
}

/** What the kernel is told of the results of a step, and of what the inbox delivered with them. */
export const resultItems = (nowMs: number, settled: readonly SettledCall[], delivery: InboxDelivery) => ({
  inbox: delivery.items || delivery.delegated ? ({ kind: 'inbox', nowMs, delivery } as const) : null,
  results: { kind: 'event', event: { type: 'tool_results', nowMs, settled, suspended: [] } } as const,
});
