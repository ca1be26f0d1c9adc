/**
 * What an operator does to a turn or an agent: stop, cancel, steer, set budgets (T8, T10, T21, T22, K9). Each is one transaction that is
 * final by itself; the workflows are told afterwards, and only to let go of what they hold.
 */

import { v7 } from 'uuid';
import { nextStatus } from '../../../workflows/agent-state/status.ts';
import { type Border, NO_BORDER } from '../../../workflows/contract/border.ts';
import type {
  BreakOff,
  BudgetsChanged,
  LifecycleChange,
  SteerAck,
  Stopped,
} from '../../../workflows/contract/control.ts';
import type { Ending } from '../../../workflows/contract/lease.ts';
import { CodedError } from '../../../workflows/protocol/failures.ts';
import type { BudgetChange } from '../../../workflows/protocol/profile.ts';
import { type AgentLifecycle, isTerminal, type Termination } from '../../../workflows/protocol/turn.ts';
import { outputBoxId, steerIdFor } from '../../ids.ts';
import { resumeInterrupted } from '../agents/own-turns.ts';
import { setDueTimes } from '../agents/work.ts';
import { answerByBudgets } from '../calls/approvals.ts';
import { syncHead } from '../calls/waiting-set.ts';
import { createBox, insertCard } from '../cards/cards.ts';
import { type StoreContext, type Tx, write } from '../context.ts';
import { encodedText } from '../schema/json.ts';
import type { HeadRow } from '../schema/rows.ts';
import { isEnded } from '../schema/turn-states.ts';
import { demandStart } from './at-the-border.ts';
import { endTurn, reap } from './endings.ts';
import { handOver } from './handover.ts';
import { lockHead, updateHead } from './head.ts';
import { agentNotFound, rosterEntry } from './roster.ts';
import { addBudgets } from './set-budgets.ts';
import { countPendingSteers, MOST_PENDING_STEERS, putSteer } from './steers.ts';
import { abandoned, RESTING } from './terminal.ts';
import { refuseUnfunded, writeForBudgets } from './tree-budgets.ts';
import { type Locked, turnOf, writeToTurn } from './turns.ts';

/** The end of a turn that an operator stops. */
const stopped = (reason: string): Termination => ({ status: 'failed', errorCode: 'stopped', reason });

/** Ends the turn here and now: a queued one `canceled`, an active one `failed/stopped` with the epoch raised (T21). */
export async function stopTurn(ctx: StoreContext, agentTurnId: string, reason: string): Promise<Stopped> {
  const outcome = await writeToTurn<Stopped>(ctx, agentTurnId, async (tx, locked) => {
    const { agent_id: agentId, status } = locked.turn;
    if (isTerminal(status)) return { ack: 'already_ended', agentId, handover: null };
    const unread = await countPendingSteers(tx, agentTurnId);
    const told = { agentId, ...(unread > 0 ? { droppedSteers: unread } : {}) };
    if (status === 'queued') {
      const { handover } = await cancelQueued(tx, locked, reason);
      return { ack: 'canceled', ...told, handover };
    }
    const { handover } = await reap(tx, locked, stopped(reason));
    return { ack: 'stopped', ...told, handover };
  });
  return outcome ?? { ack: 'unknown', handover: null };
}

/**
 * Ends a turn so that its agent goes on with something else (C8): its messages that were not read become the next turn. With `rollback` its cards
 * leave what the agent remembers.
 */
export async function breakOffTurn(
  ctx: StoreContext,
  agentTurnId: string,
  { rollback = false, reason }: BreakOff,
): Promise<Stopped> {
  const outcome = await writeToTurn<Stopped>(ctx, agentTurnId, async (tx, locked) => {
    const { agent_id: agentId, status } = locked.turn;
    if (isTerminal(status)) return { ack: 'already_ended', agentId, handover: null };
    if (status === 'queued')
      return { ack: 'canceled', agentId, handover: (await cancelQueued(tx, locked, reason)).handover };
    const { handover } = await reap(tx, locked, stopped(reason), leaving(rollback));
    return { ack: 'stopped', agentId, handover };
  });
  return outcome ?? { ack: 'unknown', handover: null };
}

/** Ends the open turn of this head, which the transaction holds, for a message that does not wait (C8). */
export const endForMessage = async (
  tx: Tx,
  head: HeadRow,
  ends: 'interrupt' | 'rollback',
  eventId: string,
): Promise<Ending> => {
  const turn = await turnOf(tx, head.active_agent_turn_id ?? '');
  const what = ends === 'interrupt' ? 'interrupted' : 'taken back';
  return reap(tx, { head, turn }, stopped(`${what} for message ${eventId}`), leaving(ends === 'rollback'));
};

/** What a turn leaves that is broken off: what it was told and has not read and, unless it is taken back, its cards. */
const leaving = (rollback: boolean) => ({
  keepSteers: true as const,
  ...(rollback ? { rollBack: true as const } : {}),
});

/** Ends a turn that was never leased, so it has no box yet; the head may belong to another turn and keeps its epoch. */
export async function cancelQueued(tx: Tx, { head, turn }: Locked, reason: string): Promise<Ending> {
  const { agent_id: owner, agent_turn_id: agentTurnId } = turn;
  const boxId = head.output_box_id ?? outputBoxId(owner);
  await createBox(tx, { box_id: boxId, kind: 'output', owner_agent_id: owner });
  await tx.db.updateTable('turns').set({ output_box_id: boxId }).where('agent_turn_id', '=', agentTurnId).execute();
  const canceled = abandoned({ status: 'canceled', errorCode: 'canceled', reason });
  return endTurn(tx, { head, turn: { ...turn, output_box_id: boxId } }, canceled);
}

/** Queues a message for the next safe boundary of a turn; a turn that has ended is `stale` and nothing is kept. */
export async function steerTurn(
  ctx: StoreContext,
  agentTurnId: string,
  text: string,
  key?: string,
  border: Border = NO_BORDER,
): Promise<SteerAck> {
  const steerId = key === undefined ? v7() : steerIdFor(agentTurnId, key);
  const steered = await writeToTurn<SteerAck>(ctx, agentTurnId, async (tx, { turn }) => {
    const { agent_id: agentId } = turn;
    const known = key === undefined ? null : await steerBefore(tx, { agentTurnId, steerId, text, key });
    if (known) return { ack: 'accepted', agentId, seq: known.seq };
    if (isEnded(turn)) return { ack: 'stale', agentId };
    // What the turn does not read becomes a turn of its profile.
    demandStart(border, { agentId, entry: await rosterEntry(tx, agentId) }, turn.profile_name);
    if ((await countPendingSteers(tx, agentTurnId)) >= MOST_PENDING_STEERS) {
      const message = `turn ${agentTurnId} has ${MOST_PENDING_STEERS} messages it has not read; send this one later`;
      throw new CodedError('inbox_full', message);
    }
    return { ack: 'accepted', agentId, seq: await queueSteer(tx, agentTurnId, steerId, text) };
  });
  return steered ?? { ack: 'unknown' };
}

/** Queues a steer behind all that came for the turn before; returns its place. */
async function queueSteer(tx: Tx, agentTurnId: string, steerId: string, text: string): Promise<number> {
  const card = { cardId: steerId, type: 'task.instruction', content: { text }, author: 'client' } as const;
  await insertCard(tx, { ...card, agentTurnId });
  return putSteer(tx, agentTurnId, steerId);
}

/** A message for a turn that its sender may repeat. */
interface KeyedSteer {
  readonly agentTurnId: string;
  readonly steerId: string;
  readonly text: string;
  readonly key: string;
}

/** The message that was sent with this key before; null when there is none. Errors: `idempotency_conflict`, when it was another one. */
async function steerBefore(tx: Tx, { agentTurnId, steerId, text, key }: KeyedSteer): Promise<{ seq: number } | null> {
  const row = await tx.db
    .selectFrom('turn_inbox')
    .innerJoin('cards', 'cards.card_id', 'turn_inbox.ref')
    .select(['turn_inbox.seq', 'cards.content'])
    .where('turn_inbox.agent_turn_id', '=', agentTurnId)
    .where('turn_inbox.kind', '=', 'steer')
    .where('turn_inbox.ref', '=', steerId)
    .executeTakeFirst();
  if (!row) return null;
  if (row.content === encodedText({ text })) return { seq: row.seq };
  throw new CodedError('idempotency_conflict', `the key ${key} belongs to another message for this turn`);
}

/** Sets budgets of a turn that has not ended; a question that they answer is answered by them (K9). */
export const setBudgets = (
  ctx: StoreContext,
  agentTurnId: string,
  budgets: BudgetChange,
): Promise<BudgetsChanged | null> =>
  writeForBudgets(ctx, agentTurnId, budgets, async (tx, { head, turn }) => {
    if (isEnded(turn)) return null;
    await refuseUnfunded(tx, turn, budgets);
    const all = await addBudgets(tx, turn, budgets);
    if (all && (await answerByBudgets(tx, turn, all))) await syncHead(tx, { head, turn });
    return { agentId: turn.agent_id, changed: all !== null };
  });

/** Starts or stops an agent, at once for accepting and leasing. Stopping ends the active turn too; starting leases what is queued (T10, A6). */
export const setLifecycle = (
  ctx: StoreContext,
  agentId: string,
  lifecycle: AgentLifecycle,
  reason: string,
): Promise<LifecycleChange> =>
  write(ctx, agentId, async (tx) => {
    if (!(await rosterEntry(tx, agentId))) throw agentNotFound(agentId);
    const head = await lockHead(tx, agentId);
    const isNew = (await rosterEntry(tx, agentId))?.lifecycle !== lifecycle;
    await tx.db.updateTable('agents').set({ lifecycle }).where('agent_id', '=', agentId).execute();
    if (isNew && head.has_work === 1) await setDueTimes(tx, agentId, lifecycle);
    if (lifecycle === 'started') {
      const change = {
        agent_status: nextStatus(head.agent_status, 'start'),
        // An operator is somebody outside.
        autonomous_turns: isNew ? 0 : head.autonomous_turns,
      };
      await updateHead(tx, agentId, change);
      if (isNew && head.has_work === 1) await resumeInterrupted(tx, agentId);
      const handover = await handOver(tx, { ...head, ...change }, undefined, { isStarted: isNew });
      return { stoppedTurnId: null, handover };
    }
    const active = head.active_agent_turn_id;
    const ended = active === null ? null : await reap(tx, { head, turn: await turnOf(tx, active) }, stopped(reason));
    const agent_status = nextStatus(ended ? RESTING : head.agent_status, 'stop');
    await updateHead(tx, agentId, { agent_status, one_shot_ended: 0 });
    return { stoppedTurnId: active, handover: ended?.handover ?? (await handOver(tx, head)) };
  });
