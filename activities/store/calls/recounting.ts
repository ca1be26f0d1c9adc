/**
 * Calls and questions that began to wait while a clock was ahead: how long they may wait is counted from now as soon as a clock that is right
 * sees them (T13, T17).
 *
 * Invariant: whoever tells a turn until when it waits has seen the row through here. The workflow sets its timer by what it is told.
 */

import { aheadBy } from '../ahead.ts';
import type { StoreContext, Tx } from '../context.ts';
import type { WaitingRow } from '../schema/rows.ts';
import type { TurnRow } from '../schema/turn-row.ts';
import { type Locked, writeToTurn } from '../turns/turns.ts';
import { changeApproval } from './approval-rows.ts';
import { findWaiting, markWaiting, syncHead } from './waiting-set.ts';

/** The row of a call in the waiting set, counted from now where a clock was ahead; undefined when the call has never waited. */
export async function findCounted(tx: Tx, locked: Locked<TurnRow>, callId: string): Promise<WaitingRow | undefined> {
  const { agent_turn_id: agentTurnId } = locked.turn;
  const row = await findWaiting(tx, agentTurnId, callId);
  if (row?.status !== 'waiting' || row.created_at <= tx.now) return row;
  await recount(tx, locked);
  return findWaiting(tx, agentTurnId, callId);
}

/** Counts from now what waits of a turn. */
export async function recountWaits(ctx: StoreContext, agentTurnId: string): Promise<void> {
  await writeToTurn(ctx, agentTurnId, recount);
}

async function recount(tx: Tx, locked: Locked<TurnRow>): Promise<void> {
  const rows = await tx.db
    .selectFrom('turn_waiting')
    .selectAll()
    .where('agent_turn_id', '=', locked.turn.agent_turn_id)
    .where('status', '=', 'waiting')
    .where('created_at', '>', tx.now)
    .execute();
  for (const row of rows) {
    const deadline = row.deadline - aheadBy(row.created_at, tx.now);
    await markWaiting(tx, row, { deadline, created_at: tx.now });
    if (row.kind === 'approval') await changeApproval(tx, row, { deadline });
  }
  if (rows.length > 0) await syncHead(tx, locked, false);
}
