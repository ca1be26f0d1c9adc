/** The cards of a plan, each with the residency of the range it was last named by (K3). */
import type { PlanRange } from '../../workflows/kernel/actions.ts';
import type { Store } from '../../workflows/protocol/store.ts';
import type { ShownCard } from './projection.ts';

export async function readShown(store: Store, ranges: readonly PlanRange[]): Promise<readonly ShownCard[]> {
  const parts = await Promise.all(ranges.map(async (range) => ({ range, cards: await store.readExtents([range]) })));
  const shown = new Map<string, ShownCard>();
  for (const { range, cards } of parts) {
    for (const card of cards) {
      // A card named again later keeps only its last place (T24).
      shown.delete(card.cardId);
      shown.set(card.cardId, range.residency ? { ...card, residency: range.residency } : card);
    }
  }
  return [...shown.values()];
}
