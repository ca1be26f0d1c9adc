/**
 * The waiting set: the calls and questions that a turn waits for, one row each. The caller holds the head row of the turn's agent.
 *
 * Invariant: the head's `waiting_tool_count` and `resume_deadline` always equal what `turn_waiting` says (T13).
 */
import { FIRST_CHECK_MS, suspendedCheckAt } from '../../../workflows/supervision/check.ts';
import type { WaitingFacts } from '../../../workflows/waiting/decisions.ts';
import type { Reader, Tx } from '../context.ts';
import { appendEvent, appendState } from '../log/events.ts';
import type { WaitingRow } from '../schema/rows.ts';
import type { TurnRow } from '../schema/turn-row.ts';
import { updateHead } from '../turns/head.ts';
import type { Locked } from '../turns/turns.ts';
import type { StoredCall } from './call-cards.ts';

/** The row of a call in the waiting set; undefined when the call has never waited. */
export const findWaiting = ({ db }: Reader, agentTurnId: string, callId: string): Promise<WaitingRow | undefined> =>
  db
    .selectFrom('turn_waiting')
    .selectAll()
    .where('agent_turn_id', '=', agentTurnId)
    .where('call_id', '=', callId)
    .executeTakeFirst();

/** Where a call that has a row in the waiting set stands. */
export const callPhaseOf = ({ status }: WaitingRow): WaitingFacts['phase'] =>
  status === 'waiting' || status === 'dropped' ? status : 'settled';

/** Changes the row of one call in the waiting set. */
export async function markWaiting(
  tx: Tx,
  { agent_turn_id, call_id }: Pick<WaitingRow, 'agent_turn_id' | 'call_id'>,
  change: Partial<WaitingRow>,
): Promise<void> {
  await tx.db
    .updateTable('turn_waiting')
    .set(change)
    .where('agent_turn_id', '=', agent_turn_id)
    .where('call_id', '=', call_id)
    .execute();
}

/** The outcome of a call that waits until that time. */
export const suspendedUntil = ({ now }: Tx, deadline: number) =>
  ({ kind: 'suspended', deadline, leftMs: deadline - now }) as const;

/** Puts a call into the waiting set. The caller has seen that the call neither waits nor has a result. */
export async function startWaiting(
  tx: Tx,
  locked: Locked<TurnRow>,
  { stepIndex, content }: StoredCall,
  { kind, deadline }: Pick<WaitingRow, 'kind' | 'deadline'>,
): Promise<void> {
  const { turn } = locked;
  const { callId, tool } = content;
  await tx.db
    .insertInto('turn_waiting')
    .values({
      agent_turn_id: turn.agent_turn_id,
      call_id: callId,
      step_index: stepIndex,
      kind,
      tool_name: tool,
      deadline,
      status: 'waiting',
      result_card_id: null,
      // How long may be waited is counted from here, so by the clock.
      created_at: tx.now,
    })
    .execute();
  const payload = { callId, tool, phase: 'suspended', deadline } as const;
  // A question is an event of its own, and nobody outside answers what waits for a delegated turn.
  appendEvent(tx, turn, { type: 'call', payload }, { topic: kind === 'tool' ? 'call.waiting' : null });
  await syncHead(tx, locked);
}

/**
 * Brings head and turn row in line with the waiting set, and schedules the turn's check anew. `hasNews`: there is something to wake it for.
 */
export async function syncHead(tx: Tx, { head, turn }: Locked<TurnRow>, hasNews = true): Promise<void> {
  const { agent_turn_id: agentTurnId } = turn;
  const waiting = await tx.db
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
    updated_at: tx.now,
  } as const;
  await updateHead(tx, head.agent_id, change);
  await tx.db.updateTable('turns').set({ status }).where('agent_turn_id', '=', agentTurnId).execute();
  await rescheduleCheck(tx, agentTurnId, resumeDeadline, hasNews);
  const activity = waiting.length > 0 ? ({ activity: 'awaiting_tool_result' } as const) : undefined;
  appendState(tx, { ...head, ...change }, activity);
}

/**
 * Schedules the check of a turn by what it waits for. A check that is due stays due, and one for what the workflow has not read is never
 * put off: the turn goes on without it only if it reads. The time changes all the same, so that a check under way, which saw the turn
 * before, does not set the next one.
 */
export async function rescheduleCheck(
  tx: Tx,
  agentTurnId: string,
  resumeDeadline: number | null,
  hasNews: boolean,
): Promise<void> {
  const { now } = tx;
  const {
    check_at: planned,
    ends_by,
    woken_at,
    ...turn
  } = await tx.db
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
  await tx.db.updateTable('turns').set(change).where('agent_turn_id', '=', agentTurnId).execute();
}

/** The turn acts on the answers, or on the one to that call: the call may wait again, for its result. */
export async function actOnAnswers(tx: Tx, agentTurnId: string, callId?: string): Promise<void> {
  const answered = tx.db
    .deleteFrom('turn_waiting')
    .where('agent_turn_id', '=', agentTurnId)
    .where('kind', '=', 'approval')
    .where('status', '=', 'received');
  await (callId === undefined ? answered : answered.where('call_id', '=', callId)).execute();
}
