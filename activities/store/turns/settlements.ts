/**
 * The report of a delegated turn to the call that waits for it (T30). The end of the turn makes it due, in the child's own transaction;
 * telling the parent is a second one under the parent's head, so that no transaction ever takes a child's lock and then its parent's.
 *
 * Invariant: `turns.settlement` goes pending → due → answer, and the answer is written with the result of the call.
 */
import type { ResultReport } from '../../../workflows/contract/calls.ts';
import type { DelegationSettlement } from '../../../workflows/contract/delegation.ts';
import { CodedError } from '../../../workflows/protocol/failures.ts';
import type { JsonObject } from '../../../workflows/protocol/json.ts';
import type { Deliverable } from '../../../workflows/protocol/turn.ts';
import { reportTo } from '../calls/reports.ts';
import { type Reader, read, type StoreContext } from '../context.ts';
import { appendEdge } from '../log/events.ts';
import { contentOf } from '../schema/rows.ts';
import type { TurnRow } from '../schema/turn-row.ts';
import { type EndedTurn, isEnded, type Turn } from '../schema/turn-states.ts';
import { turnOf, writeToTurn } from './turns.ts';

/** Tells the waiting call of its parent that a turn has ended, once. */
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
    if (child.settlement !== 'due') return { ack: child.settlement, wake: false, ...to };
    const { ack, wake } = await reportTo(tx, parent, await reportOf(tx, child, callId));
    // A workflow that committed its own end needs no check any more.
    const check = child.engine === null ? {} : { check_at: null };
    await tx.db
      .updateTable('turns')
      .set({ settlement: ack, ...check })
      .where('agent_turn_id', '=', agentTurnId)
      .execute();
    appendEdge(tx, callId, joinResponse(child, parent.turn, callId));
    return { ack, wake, ...to };
  });
}

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
