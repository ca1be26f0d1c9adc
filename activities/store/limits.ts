/** Budgets that an operator sets while a turn runs (K9): kept with the turn, read by its workflow when the bell rings. */
import type { Limits } from '../../workflows/protocol/approvals.ts';
import { type Fence, isTerminal } from '../../workflows/protocol/turn.ts';
import { read, type StoreContext, write } from './context.ts';
import { lockTurn } from './turns.ts';

/** What is set later is added to what was set before. */
export async function setLimits(
  ctx: StoreContext,
  agentTurnId: string,
  limits: Limits,
): Promise<{ readonly agentId: string } | null> {
  return write(ctx, async (trx) => {
    const found = await lockTurn(trx, agentTurnId, ctx.now());
    if (!found || isTerminal(found.turn.status)) return null;
    const merged = { ...(JSON.parse(found.turn.limits ?? '{}') as Limits), ...limits };
    await trx
      .updateTable('turns')
      .set({ limits: JSON.stringify(merged) })
      .where('agent_turn_id', '=', agentTurnId)
      .execute();
    return { agentId: found.turn.agent_id };
  });
}

export const readLimits = (ctx: StoreContext, { agentTurnId }: Fence): Promise<Limits | null> =>
  read(ctx, async (db) => {
    const row = await db
      .selectFrom('turns')
      .select('limits')
      .where('agent_turn_id', '=', agentTurnId)
      .executeTakeFirst();
    return row?.limits ? (JSON.parse(row.limits) as Limits) : null;
  });
