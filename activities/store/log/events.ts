/** Appending events and edges to the log. The caller holds the head row of the agent; they are written at the end of its transaction. */
import type { EventBody, StateEvent } from '../../../workflows/contract/events.ts';
import type { Notice } from '../../../workflows/contract/notices.ts';
import type { Topic } from '../../../workflows/contract/webhooks.ts';
import { edgeKey } from '../../ids.ts';
import type { Tx } from '../context.ts';
import { encoded } from '../schema/json.ts';
import type { EdgeRow, EventRow } from '../schema/log-rows.ts';
import type { HeadRow } from '../schema/rows.ts';

/** What an event is about: a turn, or an agent alone. A row of a turn says it. */
export type EventOf = Pick<EventRow, 'agent_id' | 'agent_turn_id'>;

/** What some events have besides. */
interface EventFacets {
  /** The foreign message that it is about, of which there is one event. */
  readonly messageId: string | null;
  /** What webhooks tell it as; null for an event that they tell nobody. */
  readonly topic: Topic | null;
}

/** Appends an event. */
export function appendEvent(
  tx: Tx,
  of: EventOf,
  body: EventBody,
  { messageId = null, topic = null }: Partial<EventFacets> = {},
): void {
  tx.outbox.addEvent({
    agent_id: of.agent_id,
    agent_turn_id: of.agent_turn_id,
    // Whoever follows the steps of an agent gets those of its chats with them.
    subject: `evt.agent.${of.agent_id}.${body.type === 'chat_step' ? 'step' : body.type}`,
    type: body.type,
    payload: encoded(body.payload),
    message_id: messageId,
    topic,
    created_at: tx.at,
  });
}

type ShownHead = Pick<
  HeadRow,
  'agent_id' | 'active_agent_turn_id' | 'status' | 'turn_epoch' | 'waiting_tool_count' | 'resume_deadline'
>;

/** Appends a `state` event with the head's status, epoch and waiting calls, and with what the turn does where that is given. */
export function appendState(
  tx: Tx,
  head: ShownHead,
  activity?: Pick<StateEvent['payload'], 'activity' | 'currentTool'>,
): void {
  const payload: StateEvent['payload'] = {
    status: head.status,
    turnEpoch: head.turn_epoch,
    ...activity,
    waitingToolCount: head.waiting_tool_count,
    resumeDeadline: head.resume_deadline,
  };
  appendEvent(tx, { agent_id: head.agent_id, agent_turn_id: head.active_agent_turn_id }, { type: 'state', payload });
}

/** Appends an event for each notice. */
export function appendNotices(tx: Tx, of: EventOf, notices: readonly Notice[]): void {
  for (const payload of notices) appendEvent(tx, of, { type: 'notice', payload });
}

const NO_METADATA = encoded({});

type NewEdge = Pick<EdgeRow, 'primitive' | 'phase'> & Partial<Omit<EdgeRow, 'edge_key' | 'metadata' | 'created_at'>>;

/** Appends an edge. `subject` makes its key unique: a turn id for an enqueue, a call id for calls and reports (T26). */
export function appendEdge(tx: Tx, subject: string, edge: NewEdge): void {
  tx.outbox.addEdge({
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
    metadata: NO_METADATA,
    created_at: tx.at,
  });
}
