/** How a burst tells a kernel what has happened, as the workflow will tell its own. */
import type { BurstItem } from '../../workflows/contract/burst.ts';
import type { InboxDelivery } from '../../workflows/contract/inbox.ts';
import type { KernelAction } from '../../workflows/kernel/actions.ts';
import type { SettledCall } from '../../workflows/kernel/calls.ts';
import { TurnKernel } from '../../workflows/turn/kernel.ts';
import { responseEvent } from '../../workflows/turn/response.ts';

/** What would follow if a kernel were told of the items: another one that stands where it does is told, and nobody learns of it. */
export function tryItems({ moment }: TurnKernel, items: readonly BurstItem[]) {
  const kernel = new TurnKernel(moment, { observed: () => {}, notice: () => {} });
  let next: KernelAction | null = null;
  for (const item of items) next = feedItem(kernel, item) ?? next;
  return { kernel, next };
}

/** Whether the items lead a kernel to that step. Of a workflow that was reset, other bursts may have come to the step from elsewhere. */
export function leadsTo(kernel: TurnKernel, stepIndex: number, ledBy: readonly BurstItem[]): boolean {
  try {
    const { next } = tryItems(kernel, ledBy);
    return next?.type === 'call_llm' && next.stepIndex === stepIndex;
  } catch {
    return false;
  }
}

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
