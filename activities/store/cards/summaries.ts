/**
 * Summaries: a card that takes the place of older ones in the output box (K15, K16).
 *
 * Invariant: the card is written, and what it stands for leaves the view, in one transaction; the cards themselves stay in the box.
 */

import type { SummaryCommit, SummaryRecord } from '../../../workflows/contract/steps.ts';
import type { BoxExtent } from '../../../workflows/kernel/handles.ts';
import { addUsage, type Fence, NO_USAGE, type Usage } from '../../../workflows/protocol/turn.ts';
import { summaryCardId } from '../../ids.ts';
import { read, type StoreContext, type Trx, write } from '../context.ts';
import { fenced } from '../turns/head.ts';
import { turnOf } from '../turns/turns.ts';
import { appendToBox, insertCard } from './cards.ts';
import { shrinkUnits } from './earlier-turns.ts';

export const findSummary = (
  ctx: StoreContext,
  { agentTurnId }: Fence,
  hide: readonly BoxExtent[],
): Promise<SummaryRecord | null> => read(ctx, (db) => present(db as Trx, agentTurnId, hide));

/** What was spent to write it is in the turn's usage by then. */
async function present(trx: Trx, agentTurnId: string, hide: readonly BoxExtent[]): Promise<SummaryRecord | null> {
  const row = await trx
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
  const { usage = NO_USAGE, cost = 0 } = JSON.parse(row.content) as { usage?: Usage; cost?: number | null };
  return { seq: row.seq, tokens: row.token_count, usage, cost };
}

export async function commitSummary(ctx: StoreContext, fence: Fence, commit: SummaryCommit): Promise<SummaryRecord> {
  const now = ctx.now();
  return write(ctx, fence.agentId, async (trx) => {
    await fenced(trx, fence, now);
    const { agentTurnId, agentId } = fence;
    const { stepIndex, hide, text, usage, cost } = commit;
    const there = await present(trx, agentTurnId, hide);
    if (there) return there;
    const turn = await turnOf(trx, agentTurnId);
    const boxId = turn.output_box_id ?? '';
    const cardId = summaryCardId(agentTurnId, hide);
    const content = { text, usage, cost };
    const tokens = await insertCard(
      trx,
      { cardId, type: 'context.summary', content, author: 'runtime', agentTurnId, stepIndex },
      now,
    );
    for (const { fromSeq, toSeq } of hide) {
      await trx
        .updateTable('box_cards')
        .set({ hidden_reason: 'summarised' })
        .where('box_id', '=', boxId)
        .where('seq', '>=', fromSeq)
        .where('seq', '<=', toSeq)
        .where('hidden_reason', 'is', null)
        .execute();
    }
    for (const extent of hide) await shrinkUnits(trx, extent);
    const seq = await appendToBox(trx, boxId, cardId, agentId);
    const spent = {
      usage: JSON.stringify(addUsage(JSON.parse(turn.usage) as Usage, usage)),
      cost: turn.cost === null || cost === null ? null : turn.cost + cost,
    };
    await trx.updateTable('turns').set(spent).where('agent_turn_id', '=', agentTurnId).execute();
    return { seq, tokens, usage, cost };
  });
}
