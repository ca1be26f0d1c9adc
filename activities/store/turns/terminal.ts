/**
 * The end of a turn, in one transaction and this order: deliverable card in the output box → turn row terminal and head idle →
 * exactly one `task` event (T6, T7).
 */

import type { TurnCommit, TurnEnd } from '../../../workflows/contract/lease.ts';
import type { CardContents } from '../../../workflows/protocol/cards.ts';
import { CodedError } from '../../../workflows/protocol/failures.ts';
import { clip } from '../../../workflows/protocol/sizes.ts';
import type { Termination } from '../../../workflows/protocol/turn.ts';
import { FIRST_CHECK_MS } from '../../../workflows/supervision/check.ts';
import { deliverableCardId } from '../../ids.ts';
import { dropApprovals } from '../calls/approval-rows.ts';
import { storeResult } from '../calls/results.ts';
import { hideCards } from '../cards/boxes.ts';
import { appendNew, insertCard } from '../cards/cards.ts';
import type { Trx } from '../context.ts';
import { appendEdge, appendEvent, appendNotices } from '../log/events.ts';
import type { TurnRow } from '../schema/rows.ts';
import { deliverableOf } from './deliverables.ts';
import { requeueSteers } from './steers.ts';
import type { MaybeHeld } from './turns.ts';

export const endOf = (turn: TurnRow): TurnEnd => ({
  agentTurnId: turn.agent_turn_id,
  status: turn.status,
  errorCode: turn.error_code,
  deliverableCardId: turn.deliverable_card_id ?? '',
  outputBoxId: turn.output_box_id ?? '',
});

/** The end of a turn that did not commit one itself. */
export const abandoned = (termination: Termination): TurnCommit => ({
  termination,
  deliverable: { from: 'fallback' },
  engine: null,
});

const REASON_BYTES = 2_000;

const clipped = (termination: Termination): Termination =>
  termination.reason === undefined ? termination : { ...termination, reason: clip(termination.reason, REASON_BYTES) };

/** The caller holds the head row, and has checked that the turn is not terminal. */
export async function finishTurn(
  trx: Trx,
  turn: MaybeHeld,
  { termination: given, deliverable, engine, hide = [], noticed = [] }: TurnCommit,
  now: number,
): Promise<TurnEnd> {
  const termination = clipped(given);
  const { agent_turn_id: agentTurnId, agent_id: agentId, output_box_id: boxId } = turn;
  if (boxId === null) throw new CodedError('protocol_violation', `turn ${agentTurnId} was never leased`);
  appendNotices(trx, agentId, agentTurnId, noticed, now);
  const cardId = deliverableCardId(agentTurnId);
  if (hide.length > 0) await hideCards(trx, boxId, hide, 'rolled_back');
  const content = await deliverableOf(trx, turn, termination, deliverable);
  if (termination.status !== 'success') await cancelOpenCalls(trx, turn, now);
  await insertCard(trx, { cardId, type: 'task.deliverable', content, author: agentId, agentTurnId }, now);
  await appendNew(trx, boxId, cardId, agentId);
  const { status } = termination;
  const errorCode = termination.errorCode ?? null;
  const change = {
    status,
    error_code: errorCode,
    reason: termination.reason ?? null,
    deliverable_card_id: cardId,
    engine: engine ? JSON.stringify(engine) : null,
    ended_at: now,
    ...(turn.settlement === 'pending' ? { settlement: 'due' as const } : {}),
    // A parent must be told, or a workflow that did not end itself must let go: both are checked.
    check_at:
      turn.settlement === 'pending' || (engine === null && turn.turn_epoch !== null) ? now + FIRST_CHECK_MS : null,
    check_every: FIRST_CHECK_MS,
    woken_at: null,
  };
  await trx.updateTable('turns').set(change).where('agent_turn_id', '=', agentTurnId).execute();
  if (turn.waited !== false) await closeWaits(trx, agentTurnId);
  await closeSteps(trx, turn, status === 'success' ? 'completed' : 'failed', now);
  const idle = {
    status: 'idle',
    active_agent_turn_id: null,
    waiting_tool_count: 0,
    resume_deadline: null,
    updated_at: now,
  } as const;
  await trx
    .updateTable('agent_state_head')
    .set(idle)
    .where('agent_id', '=', agentId)
    .where('active_agent_turn_id', '=', agentTurnId)
    .execute();
  if (turn.steered !== false) await requeueSteers(trx, turn, now);
  if (status !== 'success' && status !== 'partial') await releaseChildren(trx, agentTurnId, now);
  appendEdge(
    trx,
    agentTurnId,
    {
      primitive: 'report',
      phase: 'response',
      kind: status,
      source_agent_id: agentId,
      source_agent_turn_id: agentTurnId,
      depth: turn.depth,
      trace_id: turn.trace_id,
    },
    now,
  );
  const payload = { status, errorCode, deliverableCardId: cardId, outputBoxId: boxId };
  appendEvent(trx, agentId, agentTurnId, { type: 'task', payload }, now);
  return { agentTurnId, status, errorCode, deliverableCardId: cardId, outputBoxId: boxId };
}

/** Turns that were to end with this one are due at once: the supervisor stops them, each under its own agent's lock. */
async function releaseChildren(trx: Trx, agentTurnId: string, now: number): Promise<void> {
  await trx
    .updateTable('turns')
    .set({ check_at: now, check_every: FIRST_CHECK_MS })
    .where('parent_agent_turn_id', '=', agentTurnId)
    .where('on_parent_end', '=', 'stop')
    .where('status', 'in', ['queued', 'dispatched', 'running', 'suspended'])
    .execute();
}

/** No call is left without a result, whatever ended the turn (T21). */
async function cancelOpenCalls(trx: Trx, turn: TurnRow, now: number): Promise<void> {
  const open = await trx
    .selectFrom('cards as call')
    .select(['call.content', 'call.step_index'])
    .where('call.agent_turn_id', '=', turn.agent_turn_id)
    .where('call.type', '=', 'tool.call')
    .where(({ not, exists, selectFrom }) =>
      not(
        exists(
          selectFrom('cards as result')
            .select('result.card_id')
            .whereRef('result.agent_turn_id', '=', 'call.agent_turn_id')
            .whereRef('result.call_id', '=', 'call.call_id')
            .where('result.type', '=', 'tool.result'),
        ),
      ),
    )
    .orderBy('call.created_at')
    .execute();
  for (const { content, step_index: stepIndex } of open) {
    const { callId, tool } = JSON.parse(content) as CardContents['tool.call'];
    const error = { code: 'canceled', message: 'the turn ended before this call had a result' };
    const result = { callId, tool, status: 'canceled', afterExecution: 'continue', error } as const;
    await storeResult(trx, turn, stepIndex ?? 0, result, now);
  }
}

async function closeWaits(trx: Trx, agentTurnId: string): Promise<void> {
  await trx
    .updateTable('turn_waiting')
    .set({ status: 'dropped' })
    .where('agent_turn_id', '=', agentTurnId)
    .where('status', '=', 'waiting')
    .execute();
  await dropApprovals(trx, agentTurnId);
  await trx.deleteFrom('deferred_reports').where('agent_turn_id', '=', agentTurnId).execute();
}

async function closeSteps(
  trx: Trx,
  { agent_turn_id: agentTurnId, step_count: committed }: TurnRow,
  stepStatus: 'completed' | 'failed',
  now: number,
): Promise<void> {
  await trx
    .updateTable('agent_steps')
    .set({ status: stepStatus, ended_at: now })
    .where('agent_turn_id', '=', agentTurnId)
    // Those before the step that was committed last ended as it was opened.
    .where('step_index', '>=', committed)
    .where('ended_at', 'is', null)
    .execute();
}
