/**
 * The waiting set: the calls and questions that a turn waits for, one row each.
 *
 * Invariant: the head's `waiting_tool_count` and `resume_deadline` always equal what `turn_waiting` says (T13).
 */
import { CodedError } from '../../../workflows/protocol/failures.ts';
import { FIRST_CHECK_MS, suspendedCheckAt } from '../../../workflows/supervision/check.ts';
import type { WaitingFacts } from '../../../workflows/waiting/decisions.ts';
import type { Trx } from '../context.ts';
import { appendEvent, appendState } from '../log/events.ts';
import type { HeadRow, WaitingRow } from '../schema/rows.ts';
import { updateHead } from '../turns/head.ts';
import type { StoredCall } from './call-cards.ts';

export const findWaiting = (trx: Trx, agentTurnId: string, callId: string): Promise<WaitingRow | undefined> =>
  trx
    .selectFrom('turn_waiting')
    .selectAll()
    .where('agent_turn_id', '=', agentTurnId)
    .where('call_id', '=', callId)
    .executeTakeFirst();

/** Changes the row of one call in the waiting set. */
export async function markWaiting(
  trx: Trx,
  { agent_turn_id, call_id }: Pick<WaitingRow, 'agent_turn_id' | 'call_id'>,
  change: Partial<WaitingRow>,
): Promise<void> {
  await trx
    .updateTable('turn_waiting')
    .set(change)
    .where('agent_turn_id', '=', agent_turn_id)
    .where('call_id', '=', call_id)
    .execute();
}

export const suspendedUntil = (deadline: number, now: number) =>
  ({ kind: 'suspended', deadline, leftMs: deadline - now }) as const;

/** The caller has seen that the call neither waits nor has a result. */
export async function startWaiting(
  trx: Trx,
  head: HeadRow,
  { stepIndex, content }: StoredCall,
  kind: WaitingRow['kind'],
  deadline: number,
  now: number,
): Promise<void> {
  const { agent_id: agentId, active_agent_turn_id: agentTurnId } = head;
  if (agentTurnId === null) throw new CodedError('protocol_violation', `agent ${agentId} has no open turn`);
  const { callId, tool } = content;
  await trx
    .insertInto('turn_waiting')
    .values({
      agent_turn_id: agentTurnId,
      call_id: callId,
      step_index: stepIndex,
      kind,
      tool_name: tool,
      deadline,
      status: 'waiting',
      result_card_id: null,
      created_at: now,
    })
    .execute();
  const payload = { callId, tool, phase: 'suspended', deadline } as const;
  appendEvent(trx, agentId, agentTurnId, { type: 'call', payload }, now);
  await syncHead(trx, head, agentTurnId, now);
}

/** Brings head and turn row in line with the waiting set, and schedules the turn's check anew. `hasNews`: there is something to wake it for. */
export async function syncHead(
  trx: Trx,
  head: HeadRow,
  agentTurnId: string,
  now: number,
  hasNews = true,
): Promise<void> {
  const waiting = await trx
    .selectFrom('turn_waiting')
    .select('deadline')
    .where('agent_turn_id', '=', agentTurnId)
    .where('status', '=', 'waiting')
    .execute();
  const status = waiting.length > 0 ? 'suspended' : 'running';
  const resumeDeadline = waiting.length > 0 ? Math.min(...waiting.map((row) => row.deadline)) : null;
  const change = {
    status,
    waiting_tool_count: waiting.length,
    resume_deadline: resumeDeadline,
    updated_at: now,
  } as const;
  await updateHead(trx, head.agent_id, change);
  await trx.updateTable('turns').set({ status }).where('agent_turn_id', '=', agentTurnId).execute();
  await rescheduleCheck(trx, agentTurnId, resumeDeadline, now, hasNews);
  const activity = waiting.length > 0 ? ({ activity: 'awaiting_tool_result' } as const) : undefined;
  appendState(trx, { ...head, ...change }, now, activity);
}

/**
 * A check that is due stays due, and one for what the workflow has not read is never put off: the turn goes on without it only if it reads.
 * The time changes all the same, so that a check under way, which saw the turn before, does not set the next one.
 */
export async function rescheduleCheck(
  trx: Trx,
  agentTurnId: string,
  resumeDeadline: number | null,
  now: number,
  hasNews: boolean,
): Promise<void> {
  const {
    check_at: planned,
    ends_by,
    woken_at,
    ...turn
  } = await trx
    .selectFrom('turns')
    .select((eb) => [
      'check_at',
      'ends_by',
      'woken_at',
      eb
        .selectFrom('turn_waiting')
        .select((row) => row.fn.countAll<number>().as('count'))
        .where('turn_waiting.agent_turn_id', '=', agentTurnId)
        .where('turn_waiting.status', '=', 'received')
        .as('received'),
      eb
        .selectFrom('deferred_reports')
        .select((row) => row.fn.min('next_retry_at').as('next_retry_at'))
        .where('deferred_reports.agent_turn_id', '=', agentTurnId)
        .as('retry_at'),
    ])
    .where('agent_turn_id', '=', agentTurnId)
    .executeTakeFirstOrThrow();
  const unread = Number(turn.received) > 0;
  const never = Number.POSITIVE_INFINITY;
  const soon = now + FIRST_CHECK_MS;
  const wanted = resumeDeadline === null || unread ? soon : suspendedCheckAt(now, resumeDeadline);
  const retry = turn.retry_at === null ? never : turn.retry_at + FIRST_CHECK_MS;
  const next = Math.min(wanted, retry, ends_by ?? never, unread ? (planned ?? never) : never);
  const change = {
    check_at: planned !== null && planned <= now ? now : Math.max(next, now),
    check_every: FIRST_CHECK_MS,
    woken_at: unread && !hasNews ? woken_at : null,
  };
  await trx.updateTable('turns').set(change).where('agent_turn_id', '=', agentTurnId).execute();
}

/** The turn acts on the answers, or on the one to that call: the call may wait again, for its result. */
export async function actOnAnswers(trx: Trx, agentTurnId: string, callId?: string): Promise<void> {
  const read = trx
    .deleteFrom('turn_waiting')
    .where('agent_turn_id', '=', agentTurnId)
    .where('kind', '=', 'approval')
    .where('status', '=', 'received');
  await (callId === undefined ? read : read.where('call_id', '=', callId)).execute();
}

export const phaseOf = ({ status }: WaitingRow): WaitingFacts['phase'] =>
  status === 'waiting' || status === 'dropped' ? status : 'settled';
