/**
 * The report of a delegated turn to the call that waits for it (T30). The end of the turn makes it due, in the child's own transaction;
 * telling the parent is a second one under the parent's head, so that no transaction ever takes a child's lock and then its parent's.
 *
 * Invariant: `turns.report` goes pending → due → answer, and the answer is written with the result of the call.
 */

import type { DelegationSettlement } from '../../../workflows/contract/delegation.ts';
import { CodedError } from '../../../workflows/protocol/failures.ts';
import type { JsonObject } from '../../../workflows/protocol/json.ts';
import { type Deliverable, isTerminal } from '../../../workflows/protocol/turn.ts';
import type { FinalReport } from '../calls/deferrals.ts';
import { reportTo } from '../calls/reports.ts';
import { read, type StoreContext, type Trx } from '../context.ts';
import { appendEdge } from '../log/events.ts';
import type { TurnRow } from '../schema/rows.ts';
import { turnOf, writeToTurn } from './turns.ts';

export async function settleDelegation(ctx: StoreContext, agentTurnId: string): Promise<DelegationSettlement | null> {
  const now = ctx.now();
  const { parent_agent_turn_id: parentTurnId, parent_call_id: callId } = await read(ctx, (db) =>
    turnOf(db, agentTurnId),
  );
  if (parentTurnId === null || callId === null) return null;
  return writeToTurn(ctx, parentTurnId, now, async (trx, parent) => {
    // Read under the parent's lock: of several reporters one tells, the others get its answer.
    const child = await turnOf(trx, agentTurnId);
    if (child.settlement === null || child.settlement === 'pending') return null;
    const to = { agentId: parent.turn.agent_id, agentTurnId: parentTurnId, callId };
    if (child.settlement !== 'due') return { ack: child.settlement, wake: false, ...to };
    const report = await reportOf(trx, child, callId);
    const { ack, wake } = await reportTo(trx, parent.head, parent.turn, report, ctx.profiles, now);
    // A workflow that committed its own end needs no check any more.
    const check = child.engine === null ? {} : { check_at: null };
    await trx
      .updateTable('turns')
      .set({ settlement: ack, ...check })
      .where('agent_turn_id', '=', agentTurnId)
      .execute();
    appendEdge(trx, callId, joinResponse(child, parent.turn, callId), now);
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

async function reportOf(trx: Trx, child: TurnRow, callId: string): Promise<FinalReport> {
  const { status } = child;
  if (!isTerminal(status)) throw new CodedError('protocol_violation', `turn ${child.agent_turn_id} has not ended`);
  const card = await trx
    .selectFrom('cards')
    .select('content')
    .where('card_id', '=', child.deliverable_card_id ?? '')
    .executeTakeFirstOrThrow();
  const deliverable: Deliverable & JsonObject = JSON.parse(card.content);
  const result: JsonObject = { status, agent_id: child.agent_id, agent_turn_id: child.agent_turn_id, deliverable };
  if (status === 'success') return { callId, status, result };
  return {
    callId,
    status,
    result,
    error: { code: child.error_code ?? status, message: reasonOf(child, deliverable) },
  };
}

const reasonOf = (child: TurnRow, { fallback }: Deliverable): string =>
  `the turn of ${child.agent_id} ended ${child.status}: ${child.reason ?? fallback?.reason ?? 'no reason given'}`;
