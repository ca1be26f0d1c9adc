/**
 * What an operator does to a turn or an agent: stop, cancel, steer, set budgets (T8, T10, T21, T22, K9). Each is one transaction that is
 * final by itself; the workflows are told afterwards, and only to let go of what they hold.
 */
import { v7 } from 'uuid';
import type { Limits } from '../../workflows/protocol/approvals.ts';
import type { SteerAck, StopAck } from '../../workflows/protocol/control.ts';
import { CodedError } from '../../workflows/protocol/failures.ts';
import { type AgentLifecycle, isTerminal } from '../../workflows/protocol/turn.ts';
import { answerByLimits } from './approvals.ts';
import { syncHead } from './calls.ts';
import { createBox, insertCard } from './cards.ts';
import { type StoreContext, type Trx, write } from './context.ts';
import { lockHead } from './head.ts';
import { outputBoxId } from './ids.ts';
import { addLimits } from './limits.ts';
import { rosterEntry } from './roster.ts';
import type { HeadRow, TurnRow } from './rows.ts';
import { abandoned, finishTurn, reapTurn } from './terminal.ts';
import { lockTurn, turnOf } from './turns.ts';

/** Ends the turn here and now: a queued one `canceled`, an active one `failed/stopped` with the epoch raised (T21). */
export async function stopTurn(ctx: StoreContext, agentTurnId: string, reason: string): Promise<StopAck> {
  const now = ctx.now();
  return write(ctx, async (trx) => {
    const found = await lockTurn(trx, agentTurnId, now);
    if (!found) return { ack: 'unknown' };
    const { head, turn } = found;
    const { agent_id: agentId } = turn;
    if (isTerminal(turn.status)) return { ack: 'already_ended', agentId };
    await endTurn(trx, head, turn, reason, now);
    return { ack: turn.status === 'queued' ? 'canceled' : 'stopped', agentId };
  });
}

async function endTurn(trx: Trx, head: HeadRow, turn: TurnRow, reason: string, now: number): Promise<void> {
  if (turn.status !== 'queued') {
    await reapTurn(trx, head, turn, { status: 'failed', errorCode: 'stopped', reason }, now);
    return;
  }
  // Never leased, so it has no box yet; the head may belong to another turn and keeps its epoch.
  const boxId = head.output_box_id ?? outputBoxId(turn.agent_id);
  await createBox(trx, { box_id: boxId, kind: 'output', owner_agent_id: turn.agent_id }, now);
  await trx
    .updateTable('turns')
    .set({ output_box_id: boxId })
    .where('agent_turn_id', '=', turn.agent_turn_id)
    .execute();
  const canceled = abandoned({ status: 'canceled', errorCode: 'canceled', reason });
  await finishTurn(trx, { ...turn, output_box_id: boxId }, canceled, now);
}

/** Queues a message for the next safe boundary of a turn; a turn that has ended is `stale` and nothing is kept. */
export async function steerTurn(ctx: StoreContext, agentTurnId: string, text: string): Promise<SteerAck> {
  const now = ctx.now();
  return write(ctx, async (trx) => {
    const found = await lockTurn(trx, agentTurnId, now);
    if (!found) return { ack: 'unknown' };
    if (isTerminal(found.turn.status)) return { ack: 'stale', agentId: found.turn.agent_id };
    const { last } = await trx
      .selectFrom('steers')
      .select((eb) => eb.fn.coalesce(eb.fn.max('seq'), eb.lit(0)).as('last'))
      .where('agent_turn_id', '=', agentTurnId)
      .executeTakeFirstOrThrow();
    const cardId = v7();
    await insertCard(trx, { cardId, type: 'task.instruction', content: { text }, author: 'client', agentTurnId }, now);
    const seq = Number(last) + 1;
    const row = {
      steer_id: cardId,
      agent_turn_id: agentTurnId,
      seq,
      card_id: cardId,
      step_index: null,
      created_at: now,
    };
    await trx
      .insertInto('steers')
      .values({ ...row, status: 'pending' })
      .execute();
    return { ack: 'accepted', agentId: found.turn.agent_id, seq };
  });
}

/** New budgets for a turn that has not ended; a question that they answer is answered by them (K9). */
export async function setLimits(
  ctx: StoreContext,
  agentTurnId: string,
  limits: Limits,
): Promise<{ readonly agentId: string } | null> {
  const now = ctx.now();
  return write(ctx, async (trx) => {
    const found = await lockTurn(trx, agentTurnId, now);
    if (!found || isTerminal(found.turn.status)) return null;
    const { head, turn } = found;
    const all = await addLimits(trx, turn, limits);
    if (await answerByLimits(trx, turn, all, now)) await syncHead(trx, head, agentTurnId, now);
    return { agentId: turn.agent_id };
  });
}

/** Effective at once for accepting and leasing. Stopping ends the active turn too; returns its id, if there was one (T10). */
export async function setLifecycle(
  ctx: StoreContext,
  agentId: string,
  lifecycle: AgentLifecycle,
  reason: string,
): Promise<{ stoppedTurnId: string | null }> {
  const now = ctx.now();
  return write(ctx, async (trx) => {
    if (!(await rosterEntry(trx, agentId))) {
      throw new CodedError(
        'agent_not_found',
        `there is no agent ${agentId}; agentturn agents ls shows those there are`,
      );
    }
    const head = await lockHead(trx, agentId, now);
    await trx.updateTable('agents').set({ lifecycle }).where('agent_id', '=', agentId).execute();
    if (lifecycle === 'started' || head.active_agent_turn_id === null) return { stoppedTurnId: null };
    const turn = await turnOf(trx, head.active_agent_turn_id);
    await endTurn(trx, head, turn, reason, now);
    return { stoppedTurnId: turn.agent_turn_id };
  });
}
