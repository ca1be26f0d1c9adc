/** Budgets that an operator sets while a turn runs (K9): kept with the turn, whichever way they came. */
import { withLimits } from '../../workflows/kernel/budgets.ts';
import type { Limits } from '../../workflows/protocol/approvals.ts';
import type { Fence } from '../../workflows/protocol/turn.ts';
import { read, type StoreContext, type Trx } from './context.ts';
import type { TurnRow } from './rows.ts';

export const limitsOf = ({ limits }: Pick<TurnRow, 'limits'>): Limits | null =>
  limits === null ? null : (JSON.parse(limits) as Limits);

/** What is set later is added to what was set before: returns all of it. The caller holds the head row. */
export async function addLimits(trx: Trx, turn: TurnRow, limits: Limits): Promise<Limits> {
  const merged = withLimits(limitsOf(turn) ?? {}, limits);
  await trx
    .updateTable('turns')
    .set({ limits: JSON.stringify(merged) })
    .where('agent_turn_id', '=', turn.agent_turn_id)
    .execute();
  return merged;
}

export const readLimits = (ctx: StoreContext, { agentTurnId }: Fence): Promise<Limits | null> =>
  read(ctx, async (db) => {
    const row = await db
      .selectFrom('turns')
      .select('limits')
      .where('agent_turn_id', '=', agentTurnId)
      .executeTakeFirst();
    return row ? limitsOf(row) : null;
  });
