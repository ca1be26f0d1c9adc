/** What the mailbox's watchdog asks of the store, and its one move (T12, T23). */
import type { TurnHealth } from '../../workflows/protocol/store.ts';
import type { Fence, HeadStatus, Termination } from '../../workflows/protocol/turn.ts';
import { read, type StoreContext, write } from './context.ts';
import { lockHead } from './head.ts';
import { reapTurn } from './terminal.ts';
import { turnOf } from './turns.ts';

export const turnHealth = (ctx: StoreContext, fence: Fence): Promise<TurnHealth | null> =>
  read(ctx, async (db) => {
    const row = await db
      .selectFrom('agent_state_head as head')
      .innerJoin('turns', 'turns.agent_turn_id', 'head.active_agent_turn_id')
      .select(['head.status', 'head.updated_at', 'turns.leased_at'])
      .where('head.agent_id', '=', fence.agentId)
      .where('head.turn_epoch', '=', fence.turnEpoch)
      .where('head.active_agent_turn_id', '=', fence.agentTurnId)
      .executeTakeFirst();
    return row ? { status: row.status, leasedAt: row.leased_at ?? 0, progressAt: row.updated_at } : null;
  });

export async function expireTurn(
  ctx: StoreContext,
  fence: Fence,
  status: HeadStatus,
  termination: Termination,
): Promise<boolean> {
  const now = ctx.now();
  return write(ctx, async (trx) => {
    const head = await lockHead(trx, fence.agentId, now);
    const mine = head.turn_epoch === fence.turnEpoch && head.active_agent_turn_id === fence.agentTurnId;
    if (!mine || head.status !== status) return false;
    await reapTurn(trx, head, await turnOf(trx, fence.agentTurnId), termination, now);
    return true;
  });
}
