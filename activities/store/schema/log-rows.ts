/** The tables of the log and of what is told from it, as Kysely sees them. Times are epoch ms by the store's clock. */
import type { Generated } from 'kysely';
import type { ChunkBody } from '../../../workflows/contract/chunks.ts';
import type { EventBody } from '../../../workflows/contract/events.ts';
import type { Topic } from '../../../workflows/contract/webhooks.ts';
import type { JsonObject } from '../../../workflows/protocol/json.ts';
import type { Json } from './json.ts';

/** Who caused what (T26). Columns that do not apply to a primitive are null. */
export interface EdgeRow {
  /** Made of primitive, phase and subject, so that an edge is written once. */
  edge_key: string;
  primitive: 'enqueue' | 'tool_call' | 'report' | 'join';
  phase: 'request' | 'response';
  kind: string | null;
  source_agent_id: string | null;
  source_agent_turn_id: string | null;
  source_step_index: number | null;
  target_agent_id: string | null;
  target_agent_turn_id: string | null;
  call_id: string | null;
  call_index: number | null;
  correlation_id: string | null;
  depth: number;
  trace_id: string | null;
  metadata: Json<JsonObject>;
  created_at: number;
}

/** An event of the log. */
export interface EventRow {
  id: Generated<number>;
  agent_id: string;
  seq: number;
  /** Null for an event of the agent and of no turn. */
  agent_turn_id: string | null;
  subject: string;
  type: EventBody['type'];
  payload: Json<EventBody['payload']>;
  /** The foreign message that was dropped; null for all other events. */
  message_id: string | null;
  /** What webhooks tell it as; null for an event that they tell nobody. */
  topic: Topic | null;
  created_at: number;
}

/** A piece of an answer that is being written (W16). */
export interface ChunkRow {
  agent_turn_id: string;
  seq: number;
  step_index: number;
  /** When the attempt was scheduled, epoch ms. */
  attempt: number;
  body: Json<ChunkBody>;
  created_at: number;
}

/** What a webhook has been told. */
export interface WebhookRow {
  webhook_id: string;
  /** Every event up to this id was found. */
  searched_id: number;
  sent: number;
  failed: number;
  last_sent_at: number | null;
  last_failed_at: number | null;
  last_error: string | null;
}

/** What a webhook has been told of an agent, as long as there is something to tell, or an event may be found again. */
export interface WebhookCursorRow {
  webhook_id: string;
  agent_id: string;
  /** Of the event that was told last. */
  seq: number;
  /** The newest event that is known to be told, or to be told of. */
  event_id: number;
  /** Null while nothing is to be told. */
  due_at: number | null;
  /** Failed tries in a row. */
  failures: number;
}
