/** From the plan of the kernel, which names ranges of boxes, to the cards of a prompt (K3). */
import type { CardStore } from '../../workflows/contract/cards.ts';
import type { PlanRange } from '../../workflows/kernel/actions.ts';
import type { Card } from '../../workflows/protocol/cards.ts';
import type { ShownCard } from './projection.ts';

/** A range of the plan with its cards. */
interface Part {
  readonly range: PlanRange;
  readonly cards: readonly Card[];
}

/** The cards of the ranges in the order of the prompt, each with the residency of the last range that names it. */
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
