/**
 * Summaries: a card that takes the place of older ones in the output box (K15, K16).
 *
 * Invariant: the card is written, and what it stands for leaves the view, in one transaction; the cards themselves stay in the box.
 */
import type { SummaryCommit, SummaryRecord } from '../../../workflows/contract/steps.ts';
import type { BoxExtent } from '../../../workflows/kernel/handles.ts';
import { addUsage, type Fence, NO_USAGE } from '../../../workflows/protocol/turn.ts';
import { summaryCardId } from '../../ids.ts';
import { type Reader, read, type StoreContext, type Tx, write } from '../context.ts';
import { decoded, encoded } from '../schema/json.ts';
import { contentOf } from '../schema/rows.ts';
import { refuseShutOut, selectLease } from '../turns/head.ts';
import { fencedTurn } from '../turns/turns.ts';
import { appendToBox, insertCard } from './cards.ts';
import { shrinkUnits } from './earlier-turns.ts';

/** Reads the summary of these extents; null when it is not in the turn's output box. */
export const findSummary = (
  ctx: StoreContext,
  fence: Fence,
  hide: readonly BoxExtent[],
): Promise<SummaryRecord | null> =>
  read(ctx, async (reader) => {
    const found = await present(reader, fence.agentTurnId, hide);
    const [lease] = await selectLease(reader, fence).execute();
    refuseShutOut(lease, fence);
    return found;
  });

/** The stored summary; what was spent to write it is in the turn's usage by then. */
async function present({ db }: Reader, agentTurnId: string, hide: readonly BoxExtent[]): Promise<SummaryRecord | null> {
  const row = await db
    .selectFrom('cards')
    .innerJoin('box_cards', 'box_cards.card_id', 'cards.card_id')
    .innerJoin('turns', (join) =>
      join
        .onRef('turns.agent_turn_id', '=', 'cards.agent_turn_id')
        .onRef('turns.output_box_id', '=', 'box_cards.box_id'),
    )
    .select(['box_cards.seq', 'cards.token_count', 'cards.content'])
    .where('cards.card_id', '=', summaryCardId(agentTurnId, hide))
    .executeTakeFirst();
  if (!row) return null;
  const { usage = NO_USAGE, cost = 0 } = contentOf(row, 'context.summary');
  return { seq: row.seq, tokens: row.token_count, usage, cost };
}

/** Puts a summary into the output box and what it stands for out of view. */
export const commitSummary = (ctx: StoreContext, fence: Fence, commit: SummaryCommit): Promise<SummaryRecord> =>
  write(ctx, fence.agentId, async (tx) => {
    const { turn } = await fencedTurn(tx, fence);
    const { agentTurnId, agentId: owner } = fence;
    const { stepIndex, hide, text, usage, cost } = commit;
    const there = await present(tx, agentTurnId, hide);
    if (there) return there;
    const boxId = turn.output_box_id;
    const cardId = summaryCardId(agentTurnId, hide);
    const card = { cardId, type: 'context.summary', content: { text, usage, cost }, author: 'runtime' } as const;
    const tokens = await insertCard(tx, { ...card, agentTurnId, stepIndex });
    for (const extent of hide) await hideExtent(tx, boxId, agentTurnId, extent);
    for (const extent of hide) await shrinkUnits(tx, extent);
    const seq = await appendToBox(tx, { boxId, owner }, cardId);
    const spent = {
      usage: encoded(addUsage(decoded(turn.usage), usage)),
      cost: turn.cost === null || cost === null ? null : turn.cost + cost,
    };
    await tx.db.updateTable('turns').set(spent).where('agent_turn_id', '=', agentTurnId).execute();
    return { seq, tokens, usage, cost };
  });

/** Takes an extent out of view; what an earlier summary or a rollback hid stays hidden for that reason. */
async function hideExtent(tx: Tx, boxId: string, by: string, { fromSeq, toSeq }: BoxExtent): Promise<void> {
  await tx.db
    .updateTable('box_cards')
    .set({ hidden_reason: 'summarised', hidden_by: by })
    .where('box_id', '=', boxId)
    .where('seq', '>=', fromSeq)
    .where('seq', '<=', toSeq)
    .where('hidden_reason', 'is', null)
    .execute();
}
