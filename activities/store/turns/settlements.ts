/**
 * The report of a delegated turn to the call that waits for it (T30) or, where none does, to the agent that made it (A11). The end of the turn
 * makes it due, in the child's own transaction; telling the parent is a second one under the parent's head, so that no transaction ever takes a
 * child's lock and then its parent's.
 *
 * Invariant: `turns.settlement` goes pending → due → answer, and the answer is written with the result of the call, or with what the agent is told.
 */

import { hasFailed } from '../../../workflows/agent-state/closure.ts';
import { isOneShotAgent } from '../../../workflows/agent-state/one-shot.ts';
import type { ResultReport } from '../../../workflows/contract/calls.ts';
import type { DelegationSettlement } from '../../../workflows/contract/delegation.ts';
import type { Handover } from '../../../workflows/contract/lease.ts';
import { CodedError } from '../../../workflows/protocol/failures.ts';
import type { JsonObject } from '../../../workflows/protocol/json.ts';
import type { ReportAnswer } from '../../../workflows/protocol/tool-result.ts';
import type { Deliverable } from '../../../workflows/protocol/turn.ts';
import { taskEnd } from '../agents/task-ends.ts';
import { comes } from '../agents/wakes.ts';
import { reportTo } from '../calls/reports.ts';
import { findWaiting } from '../calls/waiting-set.ts';
import { type Reader, read, type StoreContext, type Tx } from '../context.ts';
import { appendEdge } from '../log/events.ts';
import { contentOf } from '../schema/rows.ts';
import type { TurnRow } from '../schema/turn-row.ts';
import { type EndedTurn, isEnded, type Turn } from '../schema/turn-states.ts';
import { type Locked, turnOf, writeToTurn } from './turns.ts';

/** Tells the waiting call of its parent, or its agent where none waits, that a turn has ended, once. */
export async function settleDelegation(ctx: StoreContext, agentTurnId: string): Promise<DelegationSettlement | null> {
  const { parent_agent_turn_id: parentTurnId, parent_call_id: callId } = await read(ctx, (reader) =>
    turnOf(reader, agentTurnId),
  );
  if (parentTurnId === null || callId === null) return null;
  return writeToTurn(ctx, parentTurnId, async (tx, parent) => {
    // Read under the parent's lock: of several reporters one tells, the others get its answer.
    const child = await turnOf(tx, agentTurnId);
    if (child.settlement === null || child.settlement === 'pending') return null;
    const to = { agentId: parent.turn.agent_id, agentTurnId: parentTurnId, callId };
    if (child.settlement !== 'due') return { ack: child.settlement, wake: false, handover: null, ...to };
    const isAwaited = (await findWaiting(tx, parentTurnId, callId)) !== undefined;
    const { ack, wake, handover } = isAwaited
      ? { ...(await reportTo(tx, parent, await reportOf(tx, child, callId))), handover: null }
      : { ...(await tellAgent(tx, parent, child)), wake: false };
    // A workflow that committed its own end needs no check any more.
    const check = child.engine === null ? {} : { check_at: null };
    await tx.db
      .updateTable('turns')
      .set({ settlement: ack, ...check })
      .where('agent_turn_id', '=', agentTurnId)
      .execute();
    if (isAwaited) appendEdge(tx, callId, joinResponse(child, parent.turn, callId));
    return { ack, wake, handover, ...to };
  });
}

/** Tells an agent that a turn has ended which it made and did not wait for: it makes a turn of that when it is free, as of anything that comes. */
async function tellAgent(
  tx: Tx,
  { head, turn: parent }: Locked,
  child: Turn,
): Promise<{ readonly ack: ReportAnswer; readonly handover: Handover | null }> {
  // An agent that was made for one turn has nobody who would ask what it makes of it; and a turn that was stopped with its parent is no news.
  const isStopped = child.on_parent_end === 'stop' && hasFailed(parent.status);
  if (isOneShotAgent(head.agent_id) || isStopped || (await isWaitedFor(tx, head.agent_id, child.agent_turn_id)))
    return { ack: 'stale', handover: null };
  const came = await taskEnd(tx, head.agent_id, { kind: 'task', resource: child.agent_turn_id });
  return came ? { ack: 'applied', handover: (await comes(tx, head, came)).handover } : { ack: 'stale', handover: null };
}

/** Whether the agent waits for that very turn, or was told of it by a wait. One that was over before the turn was tells nothing of it. */
const isWaitedFor = async ({ db }: Reader, agentId: string, agentTurnId: string): Promise<boolean> =>
  (await db
    .selectFrom('waits')
    .select('wait_id')
    .where('agent_id', '=', agentId)
    .where('kind', '=', 'task')
    .where('resource', '=', agentTurnId)
    .where('status', 'in', ['active', 'resolved'])
    .limit(1)
    .executeTakeFirst()) !== undefined;

const joinResponse = (child: TurnRow, parent: TurnRow, callId: string) =>
  ({
    primitive: 'join',
    phase: 'response',
    kind: child.status,
    source_agent_id: child.agent_id,
    source_agent_turn_id: child.agent_turn_id,
    target_agent_id: parent.agent_id,
    target_agent_turn_id: parent.agent_turn_id,
    call_id: callId,
    correlation_id: child.correlation_id,
    depth: child.depth,
    trace_id: child.trace_id,
  }) as const;

/** What the end of the child says as the result of the call. Errors: `protocol_violation` when the child has not ended. */
async function reportOf({ db }: Reader, child: Turn, callId: string): Promise<ResultReport> {
  if (!isEnded(child))
    throw new CodedError('protocol_violation', `turn ${child.agent_turn_id} is to be reported and has not ended`);
  const { status } = child;
  const card = await db
    .selectFrom('cards')
    .select('content')
    .where('card_id', '=', child.deliverable_card_id)
    .executeTakeFirstOrThrow();
  const deliverable = contentOf(card, 'task.deliverable') as Deliverable & JsonObject;
  const result: JsonObject = { status, agent_id: child.agent_id, agent_turn_id: child.agent_turn_id, deliverable };
  if (status === 'success') return { callId, status, result };
  return {
    callId,
    status,
    result,
    error: { code: child.error_code ?? status, message: reasonOf(child, deliverable) },
  };
}

const reasonOf = (child: EndedTurn, { fallback }: Deliverable): string =>
  `the turn of ${child.agent_id} ended ${child.status}: ${child.reason ?? fallback?.reason ?? 'no reason given'}`;
