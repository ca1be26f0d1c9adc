/**
 * The outbox: events and edges are inserted with the fact they state. Callers hold the agent's head row.
 *
 * They are gathered and written together at the end of the transaction, in the order they were appended: one statement
 * for all of them. Nothing in a transaction reads what it has appended.
 */
import type { EventBody, StateEvent } from '../../../workflows/contract/events.ts';
import type { Notice } from '../../../workflows/contract/notices.ts';
import { CodedError } from '../../../workflows/protocol/failures.ts';
import { edgeKey } from '../../ids.ts';
import type { Trx } from '../context.ts';
import type { EdgeRow, EventRow, HeadRow } from '../schema/rows.ts';

type NewEvent = Omit<EventRow, 'id' | 'seq'>;

interface Outbox {
  readonly events: NewEvent[];
  readonly edges: EdgeRow[];
  /** Of the agents whose head rows the transaction holds: nobody else moves them meanwhile, so they are written once, at the end. */
  readonly counters: Map<string, Counters>;
}

interface Counters {
  readonly stored: Pick<HeadRow, 'accept_seq' | 'event_seq'>;
  acceptSeq: number;
  eventSeq: number;
}

const outboxes = new WeakMap<Trx, Outbox>();

function outboxOf(trx: Trx): Outbox {
  const known = outboxes.get(trx);
  if (known) return known;
  const outbox: Outbox = { events: [], edges: [], counters: new Map() };
  outboxes.set(trx, outbox);
  return outbox;
}

/** SQLite takes at most 32,766 parameters in one statement. */
const ROWS_PER_INSERT = 1_000;

/** Writes what the transaction has appended; the last thing it does. Tells whether a turn has ended by it. */
export async function flushOutbox(trx: Trx): Promise<{ readonly turnEnded: boolean }> {
  const outbox = outboxes.get(trx);
  if (!outbox) return { turnEnded: false };
  outboxes.delete(trx);
  const { events, edges, counters } = outbox;
  const rows = events.map((event) => ({ ...event, seq: next(countersOf(outbox, event.agent_id), 'eventSeq') }));
  for (const [agentId, counter] of counters) await storeCounters(trx, agentId, counter);
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
  return { turnEnded: events.some((event) => event.type === 'task') };
}

/** The head row as it was when the transaction locked it. */
export function noteHead(trx: Trx, head: HeadRow): void {
  const { counters } = outboxOf(trx);
  if (counters.has(head.agent_id)) return;
  counters.set(head.agent_id, { stored: head, acceptSeq: head.accept_seq, eventSeq: head.event_seq });
}

/** The place of a new turn among all that the agent ever accepted. */
export const nextAcceptSeq = (trx: Trx, agentId: string): number =>
  next(countersOf(outboxOf(trx), agentId), 'acceptSeq');

function countersOf({ counters }: Outbox, agentId: string): Counters {
  const known = counters.get(agentId);
  if (known) return known;
  throw new CodedError('protocol_violation', `the head row of agent ${agentId} is not locked: nothing was written`);
}

function next(counters: Counters, which: 'acceptSeq' | 'eventSeq'): number {
  counters[which] += 1;
  return counters[which];
}

async function storeCounters(trx: Trx, agentId: string, { stored, acceptSeq, eventSeq }: Counters): Promise<void> {
  if (acceptSeq === stored.accept_seq && eventSeq === stored.event_seq) return;
  await trx
    .updateTable('agent_state_head')
    .set({ accept_seq: acceptSeq, event_seq: eventSeq })
    .where('agent_id', '=', agentId)
    .execute();
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
