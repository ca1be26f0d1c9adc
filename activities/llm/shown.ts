/** The cards of a plan, each with the residency of the range it was last named by (K3). */

import type { CardStore } from '../../workflows/contract/cards.ts';
import type { PlanRange } from '../../workflows/kernel/actions.ts';
import type { Card } from '../../workflows/protocol/cards.ts';
import type { ShownCard } from './projection.ts';

interface Part {
  readonly range: PlanRange;
  readonly cards: readonly Card[];
}

export async function readShown(
  store: Pick<CardStore, 'readExtents'>,
  ranges: readonly PlanRange[],
): Promise<readonly ShownCard[]> {
  const parts = await Promise.all(ranges.map(async (range) => ({ range, cards: await store.readExtents([range]) })));
  const shown = new Map<string, ShownCard>();
  for (const { range, cards } of summariesFirst(parts)) {
    for (const card of cards) {
      // A card named again later keeps only its last place (T24).
      shown.delete(card.cardId);
      shown.set(card.cardId, range.residency ? { ...card, residency: range.residency } : card);
    }
  }
  return [...shown.values()];
}

/**
 * A summary lies in its box behind what was newer when it was written, and stands for what was older than all that is left: later turns
 * read it first too, the oldest of several before the others (K15).
 */
function summariesFirst(parts: readonly Part[]): readonly Part[] {
  const boxes = new Set<string>();
  return parts.flatMap(({ range, cards }) => {
    const rest = { range, cards: cards.filter((card) => !isSummary(card)) };
    if (boxes.has(range.boxId)) return [rest];
    boxes.add(range.boxId);
    const ofBox = parts.filter((part) => part.range.boxId === range.boxId);
    const byAge = ofBox.toSorted((a, b) => a.range.fromSeq - b.range.fromSeq);
    return [...byAge.map((part) => ({ ...part, cards: part.cards.filter(isSummary) })), rest];
  });
}

const isSummary = ({ type }: Card): boolean => type === 'context.summary';
