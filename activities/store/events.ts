/** The outbox: events and edges are inserted with the fact they state. Callers hold the agent's head row. */
import type { EventBody, StateEvent } from '../../workflows/protocol/events.ts';
import type { Notice } from '../../workflows/protocol/notices.ts';
import type { Trx } from './context.ts';
import { edgeKey } from './ids.ts';
import type { EdgeRow, HeadRow } from './rows.ts';

/** `messageId` names the foreign message that the event is about: one event each. */
export async function appendEvent(
  trx: Trx,
  agentId: string,
  agentTurnId: string | null,
  body: EventBody,
  now: number,
  messageId: string | null = null,
): Promise<void> {
  const { event_seq: seq } = await trx
    .updateTable('agent_state_head')
    .set((eb) => ({ event_seq: eb('event_seq', '+', 1) }))
    .where('agent_id', '=', agentId)
    .returning('event_seq')
    .executeTakeFirstOrThrow();
  await trx
    .insertInto('events')
    .values({
      agent_id: agentId,
      seq,
      agent_turn_id: agentTurnId,
      subject: `evt.agent.${agentId}.${body.type}`,
      type: body.type,
      payload: JSON.stringify(body.payload),
      message_id: messageId,
      created_at: now,
    })
    .execute();
}

export async function appendState(
  trx: Trx,
  head: Pick<
    HeadRow,
    'agent_id' | 'active_agent_turn_id' | 'status' | 'turn_epoch' | 'waiting_tool_count' | 'resume_deadline'
  >,
  now: number,
  activity?: Pick<StateEvent['payload'], 'activity' | 'currentTool'>,
): Promise<void> {
  const payload: StateEvent['payload'] = {
    status: head.status,
    turnEpoch: head.turn_epoch,
    ...activity,
    waitingToolCount: head.waiting_tool_count,
    resumeDeadline: head.resume_deadline,
  };
  await appendEvent(trx, head.agent_id, head.active_agent_turn_id, { type: 'state', payload }, now);
}

export async function appendNotices(
  trx: Trx,
  agentId: string,
  agentTurnId: string,
  notices: readonly Notice[],
  now: number,
): Promise<void> {
  for (const payload of notices) await appendEvent(trx, agentId, agentTurnId, { type: 'notice', payload }, now);
}

type NewEdge = Pick<EdgeRow, 'primitive' | 'phase'> & Partial<Omit<EdgeRow, 'edge_key' | 'metadata'>>;

/** `subject` makes the key unique: a turn id for an enqueue, a call id for calls and reports (T26). */
export async function appendEdge(trx: Trx, subject: string, edge: NewEdge, now: number): Promise<void> {
  await trx
    .insertInto('execution_edges')
    .values({
      kind: null,
      source_agent_id: null,
      source_agent_turn_id: null,
      source_step_index: null,
      target_agent_id: null,
      target_agent_turn_id: null,
      call_id: null,
      call_index: null,
      correlation_id: null,
      depth: 0,
      trace_id: null,
      ...edge,
      edge_key: edgeKey(edge.primitive, edge.phase, subject),
      metadata: '{}',
      created_at: now,
    })
    .onConflict((conflict) => conflict.column('edge_key').doNothing())
    .execute();
}
