/**
 * The outbox: events and edges are inserted with the fact they state. Callers hold the agent's head row.
 *
 * They are gathered and written together at the end of the transaction, in the order they were appended: one statement
 * for all of them. Nothing in a transaction reads what it has appended.
 */
import type { EventBody, StateEvent } from '../../workflows/protocol/events.ts';
import type { Notice } from '../../workflows/protocol/notices.ts';
import type { Trx } from './context.ts';
import { edgeKey } from './ids.ts';
import type { EdgeRow, EventRow, HeadRow } from './rows.ts';

type NewEvent = Omit<EventRow, 'id' | 'seq'>;

interface Outbox {
  readonly events: NewEvent[];
  readonly edges: EdgeRow[];
}

const outboxes = new WeakMap<Trx, Outbox>();

function outboxOf(trx: Trx): Outbox {
  const known = outboxes.get(trx);
  if (known) return known;
  const outbox: Outbox = { events: [], edges: [] };
  outboxes.set(trx, outbox);
  return outbox;
}

/** SQLite takes at most 32,766 parameters in one statement. */
const ROWS_PER_INSERT = 1_000;

/** Writes what the transaction has appended; the last thing it does. */
export async function flushOutbox(trx: Trx): Promise<void> {
  const outbox = outboxes.get(trx);
  if (!outbox) return;
  outboxes.delete(trx);
  const { events, edges } = outbox;
  const rows = await numbered(trx, events);
  for (let from = 0; from < rows.length; from += ROWS_PER_INSERT)
    await trx
      .insertInto('events')
      .values(rows.slice(from, from + ROWS_PER_INSERT))
      .execute();
  for (let from = 0; from < edges.length; from += ROWS_PER_INSERT)
    await trx
      .insertInto('execution_edges')
      .values(edges.slice(from, from + ROWS_PER_INSERT))
      .onConflict((conflict) => conflict.column('edge_key').doNothing())
      .execute();
}

async function numbered(trx: Trx, events: readonly NewEvent[]): Promise<(NewEvent & { seq: number })[]> {
  const counts = new Map<string, number>();
  for (const { agent_id: agentId } of events) counts.set(agentId, (counts.get(agentId) ?? 0) + 1);
  const next = new Map<string, number>();
  for (const [agentId, count] of counts) {
    const { event_seq: last } = await trx
      .updateTable('agent_state_head')
      .set((eb) => ({ event_seq: eb('event_seq', '+', count) }))
      .where('agent_id', '=', agentId)
      .returning('event_seq')
      .executeTakeFirstOrThrow();
    next.set(agentId, last - count + 1);
  }
  return events.map((event) => {
    const seq = next.get(event.agent_id) ?? 0;
    next.set(event.agent_id, seq + 1);
    return { ...event, seq };
  });
}

/** `messageId` names the foreign message that the event is about: one event each. */
export function appendEvent(
  trx: Trx,
  agentId: string,
  agentTurnId: string | null,
  body: EventBody,
  now: number,
  messageId: string | null = null,
): void {
  outboxOf(trx).events.push({
    agent_id: agentId,
    agent_turn_id: agentTurnId,
    subject: `evt.agent.${agentId}.${body.type}`,
    type: body.type,
    payload: JSON.stringify(body.payload),
    message_id: messageId,
    created_at: now,
  });
}

export function appendState(
  trx: Trx,
  head: Pick<
    HeadRow,
    'agent_id' | 'active_agent_turn_id' | 'status' | 'turn_epoch' | 'waiting_tool_count' | 'resume_deadline'
  >,
  now: number,
  activity?: Pick<StateEvent['payload'], 'activity' | 'currentTool'>,
): void {
  const payload: StateEvent['payload'] = {
    status: head.status,
    turnEpoch: head.turn_epoch,
    ...activity,
    waitingToolCount: head.waiting_tool_count,
    resumeDeadline: head.resume_deadline,
  };
  appendEvent(trx, head.agent_id, head.active_agent_turn_id, { type: 'state', payload }, now);
}

export function appendNotices(
  trx: Trx,
  agentId: string,
  agentTurnId: string,
  notices: readonly Notice[],
  now: number,
): void {
  for (const payload of notices) appendEvent(trx, agentId, agentTurnId, { type: 'notice', payload }, now);
}

type NewEdge = Pick<EdgeRow, 'primitive' | 'phase'> & Partial<Omit<EdgeRow, 'edge_key' | 'metadata'>>;

/** `subject` makes the key unique: a turn id for an enqueue, a call id for calls and reports (T26). */
export function appendEdge(trx: Trx, subject: string, edge: NewEdge, now: number): void {
  outboxOf(trx).edges.push({
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
  });
}
