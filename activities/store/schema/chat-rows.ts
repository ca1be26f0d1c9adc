/** The tables of chats as Kysely sees them. Times are epoch ms by the store's clock unless they say otherwise. */
import type { MessagePayload, QueuePolicy, Sender } from '../../../workflows/protocol/chat.ts';
import type { Json } from './json.ts';

/** A chat session: an agent, and the chat that it is talked to in (C2). */
export interface ChatSessionRow {
  /** The agent whose turns are those of the session. */
  agent_id: string;
  session_id: string;
  /** The agent that was named when the session was begun. */
  of_agent: string;
  chat_id: string;
  /** Who has written the first message. */
  first_sender: string;
  /** 1 as soon as somebody else has written one: from then on the model is told whose words it reads. */
  several_senders: number;
  /** The place of its last message. */
  last_seq: number;
  created_at: number;
  /** When its last message was accepted. */
  updated_at: number;
}

/** A message of a chat (C1, C8). How far it is follows from its placement and from its turn. */
export interface ChatMessageRow {
  agent_id: string;
  /** Its place among all messages of the session, from 1. */
  seq: number;
  event_id: string;
  chat_id: string;
  idempotency_key: string;
  /** By which a repetition under its key is known. */
  digest: string;
  sender: Json<Sender>;
  payload: Json<MessagePayload>;
  /** Bytes of its texts. */
  bytes: number;
  policy: QueuePolicy;
  /** `turn`: it made its turn. `collected`: its turn was made by another one. `steered`: it came while its turn was open. */
  placement: 'turn' | 'collected' | 'steered' | 'rejected';
  /** Null for a message that was rejected before any turn had it. */
  agent_turn_id: string | null;
  /** The card with which it begins or steers a turn; one that was collected has none by that id. */
  card_id: string;
  /** Why it was rejected; null for others. */
  reason: string | null;
  trace_id: string;
  correlation_id: string;
  causation_id: string | null;
  /** The place that its sender's side gave it; null when it gave none. */
  sender_seq: number | null;
  /** When its sender says that it was written, epoch ms. */
  timestamp_ms: number;
  created_at: number;
}
