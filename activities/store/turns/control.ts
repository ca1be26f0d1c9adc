/**
 * What an operator does to a turn or an agent: stop, cancel, steer, set budgets (T8, T10, T21, T22, K9). Each is one transaction that is
 * final by itself; the workflows are told afterwards, and only to let go of what they hold.
 */
import { v7 } from 'uuid';
import type { BudgetsChanged, LifecycleChange, SteerAck, StopAck } from '../../../workflows/contract/control.ts';
import type { Ending, Handover } from '../../../workflows/contract/lease.ts';
import { CodedError } from '../../../workflows/protocol/failures.ts';
import type { BudgetChange } from '../../../workflows/protocol/profile.ts';
import { type AgentLifecycle, isTerminal } from '../../../workflows/protocol/turn.ts';
import { canonicalDigest } from '../../canonical.ts';
import { outputBoxId, steerIdFor } from '../../ids.ts';
import { storedJson } from '../../well-formed.ts';
import { answerByBudgets } from '../calls/approvals.ts';
import { syncHead } from '../calls/waiting-set.ts';
import { createBox, insertCard } from '../cards/cards.ts';
import { type StoreContext, type Trx, write } from '../context.ts';
import type { HeadRow, TurnRow } from '../schema/rows.ts';
import { endTurn, reap } from './endings.ts';
import { handOver } from './handover.ts';
import { lockHead } from './head.ts';
import { rosterEntry } from './roster.ts';
import { addBudgets, setBudgetsOf } from './set-budgets.ts';
import { countPendingSteers } from './steers.ts';
import { abandoned } from './terminal.ts';
import { refuseUnfunded, writeForBudgets } from './tree-budgets.ts';
import { turnOf, writeToTurn } from './turns.ts';

type Stopped = StopAck & { readonly handover: Handover | null };

/** Ends the turn here and now: a queued one `canceled`, an active one `failed/stopped` with the epoch raised (T21). */
export async function stopTurn(ctx: StoreContext, agentTurnId: string, reason: string): Promise<Stopped> {
  const now = ctx.now();
  const stopped = await writeToTurn<Stopped>(ctx, agentTurnId, now, async (trx, { head, turn }) => {
    const { agent_id: agentId } = turn;
    if (isTerminal(turn.status)) return { ack: 'already_ended', agentId, handover: null };
    if (turn.status === 'queued') {
      const { handover } = await cancelQueued(ctx, trx, head, turn, reason, now);
      return { ack: 'canceled', agentId, handover };
    }
    const { handover } = await reap(ctx, trx, head, turn, { status: 'failed', errorCode: 'stopped', reason }, now);
    return { ack: 'stopped', agentId, handover };
  });
  return stopped ?? { ack: 'unknown', handover: null };
}

/** It was never leased, so it has no box yet; the head may belong to another turn and keeps its epoch. */
async function cancelQueued(
  ctx: StoreContext,
  trx: Trx,
  head: HeadRow,
  turn: TurnRow,
  reason: string,
  now: number,
): Promise<Ending> {
  const boxId = head.output_box_id ?? outputBoxId(turn.agent_id);
  await createBox(trx, { box_id: boxId, kind: 'output', owner_agent_id: turn.agent_id }, now);
  await trx
    .updateTable('turns')
    .set({ output_box_id: boxId })
    .where('agent_turn_id', '=', turn.agent_turn_id)
    .execute();
  const canceled = abandoned({ status: 'canceled', errorCode: 'canceled', reason });
  return endTurn(ctx, trx, head, { ...turn, output_box_id: boxId }, canceled, now);
}

/** Messages that a turn has not read; they wait in its prompt's way and in memory. */
const MOST_PENDING_STEERS = 100;

/** Queues a message for the next safe boundary of a turn; a turn that has ended is `stale` and nothing is kept. */
export async function steerTurn(ctx: StoreContext, agentTurnId: string, text: string, key?: string): Promise<SteerAck> {
  const now = ctx.now();
  const cardId = key === undefined ? v7() : steerIdFor(agentTurnId, key);
  const steered = await writeToTurn<SteerAck>(ctx, agentTurnId, now, async (trx, { turn }) => {
    const { agent_id: agentId } = turn;
    const known = key === undefined ? null : await steerBefore(trx, cardId, text, key);
    if (known) return { ack: 'accepted', agentId, seq: known.seq };
    if (isTerminal(turn.status)) return { ack: 'stale', agentId };
    if ((await countPendingSteers(trx, agentTurnId)) >= MOST_PENDING_STEERS) {
      const message = `turn ${agentTurnId} has ${MOST_PENDING_STEERS} messages it has not read; send this one later`;
      throw new CodedError('inbox_full', message);
    }
    const { last } = await trx
      .selectFrom('steers')
      .select((eb) => eb.fn.coalesce(eb.fn.max('seq'), eb.lit(0)).as('last'))
      .where('agent_turn_id', '=', agentTurnId)
      .executeTakeFirstOrThrow();
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
    return { ack: 'accepted', agentId, seq };
  });
  return steered ?? { ack: 'unknown' };
}

/** The message that was sent with this key before. Errors: `idempotency_conflict`, when it was another one. */
async function steerBefore(trx: Trx, steerId: string, text: string, key: string): Promise<{ seq: number } | null> {
  const row = await trx
    .selectFrom('steers')
    .innerJoin('cards', 'cards.card_id', 'steers.card_id')
    .select(['steers.seq', 'cards.content'])
    .where('steers.steer_id', '=', steerId)
    .executeTakeFirst();
  if (!row) return null;
  if (row.content === storedJson({ text })) return { seq: row.seq };
  throw new CodedError('idempotency_conflict', `the key ${key} belongs to another message for this turn`);
}

/** New budgets for a turn that has not ended; a question that they answer is answered by them (K9). */
export async function setBudgets(
  ctx: StoreContext,
  agentTurnId: string,
  budgets: BudgetChange,
): Promise<BudgetsChanged | null> {
  const now = ctx.now();
  return writeForBudgets(ctx, agentTurnId, budgets, now, async (trx, { head, turn }) => {
    if (isTerminal(turn.status)) return null;
    await refuseUnfunded(ctx, trx, turn, budgets);
    const all = await addBudgets(trx, turn, budgets);
    const changed = canonicalDigest(all) !== canonicalDigest(setBudgetsOf(turn) ?? {});
    const answered = await answerByBudgets(trx, turn, all, now);
    if (answered) await syncHead(trx, head, agentTurnId, now);
    return { agentId: turn.agent_id, changed, answered };
  });
}

/**
 * Effective at once for accepting and leasing. Stopping ends the active turn too; starting leases what is queued (T10). Errors:
 * `agent_not_found`.
 */
export async function setLifecycle(
  ctx: StoreContext,
  agentId: string,
  lifecycle: AgentLifecycle,
  reason: string,
): Promise<LifecycleChange> {
  const now = ctx.now();
  return write(ctx, agentId, async (trx) => {
    if (!(await rosterEntry(trx, agentId))) {
      throw new CodedError(
        'agent_not_found',
        `there is no agent ${agentId}; agentturn agents ls shows those there are`,
      );
    }
    const head = await lockHead(trx, agentId, now);
    await trx.updateTable('agents').set({ lifecycle }).where('agent_id', '=', agentId).execute();
    const active = head.active_agent_turn_id;
    if (lifecycle === 'started' || active === null)
      return { stoppedTurnId: null, handover: await handOver(ctx, trx, head, now) };
    const stopped = { status: 'failed', errorCode: 'stopped', reason } as const;
    const { handover } = await reap(ctx, trx, head, await turnOf(trx, active), stopped, now);
    return { stoppedTurnId: active, handover };
  });
}
