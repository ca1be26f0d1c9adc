/** Rows of sessions and messages, and what readers get of them (C2, C8). */
import type { MessageStatus, MessageView, SessionView } from '../../../workflows/contract/chat.ts';
import type { MessagePayload, Sender } from '../../../workflows/protocol/chat.ts';
import { isTerminal, type TurnStatus } from '../../../workflows/protocol/turn.ts';
import type { Reader } from '../context.ts';
import type { ChatMessageRow, ChatSessionRow } from '../schema/chat-rows.ts';
import { decodedOr } from '../schema/json.ts';
import type { InboxRow } from '../schema/rows.ts';

/** What is said of a message that somebody has made unreadable by hand: neither a turn nor a list depends on it (T8). */
const UNREADABLE: MessagePayload = { text: '(the message cannot be read)' };
const NOBODY: Sender = { agentId: 'unknown' };

/** What the message says. */
export const payloadOf = ({ payload }: Pick<ChatMessageRow, 'payload'>): MessagePayload =>
  decodedOr(payload, UNREADABLE);

/** Who has written the message. */
export const senderOf = ({ sender }: Pick<ChatMessageRow, 'sender'>): Sender => decodedOr(sender, NOBODY);

/** A message with what its status follows from. */
export type PlacedMessage = ChatMessageRow & {
  readonly turn_status: TurnStatus | null;
  readonly steer_status: InboxRow['status'] | null;
};

/** A query for messages with what their status follows from. */
export const selectMessages = ({ db }: Reader) =>
  db
    .selectFrom('chat_messages')
    .leftJoin('turns', 'turns.agent_turn_id', 'chat_messages.agent_turn_id')
    .leftJoin('turn_inbox', (join) =>
      join
        .onRef('turn_inbox.agent_turn_id', '=', 'chat_messages.agent_turn_id')
        .onRef('turn_inbox.ref', '=', 'chat_messages.card_id')
        .on('turn_inbox.kind', '=', 'steer'),
    )
    .selectAll('chat_messages')
    .select(['turns.status as turn_status', 'turn_inbox.status as steer_status']);

function statusOf({ placement, turn_status, steer_status }: PlacedMessage): MessageStatus {
  if (placement === 'rejected') return 'rejected';
  if (turn_status !== null && isTerminal(turn_status)) return 'done';
  if (turn_status === 'queued') return placement === 'collected' ? 'collected' : 'queued';
  return placement === 'steered' && steer_status === 'pending' ? 'steered' : 'processing';
}

/** The message as readers see it. */
export const messageView = (row: PlacedMessage): MessageView => ({
  eventId: row.event_id,
  chatId: row.chat_id,
  seq: row.seq,
  sender: senderOf(row),
  payload: payloadOf(row),
  policy: row.policy,
  status: statusOf(row),
  agentTurnId: row.agent_turn_id,
  reason: row.reason,
  traceId: row.trace_id,
  correlationId: row.correlation_id,
  causationId: row.causation_id,
  timestampMs: row.timestamp_ms,
  acceptedAt: row.created_at,
});

/** A query for sessions with the profile of their agents. */
export const selectSessions = ({ db }: Reader) =>
  db
    .selectFrom('chat_sessions')
    .innerJoin('agents', 'agents.agent_id', 'chat_sessions.agent_id')
    .selectAll('chat_sessions')
    .select('agents.profile');

/** The session as readers see it. */
export const sessionView = (row: ChatSessionRow & { readonly profile: string }): SessionView => ({
  sessionId: row.session_id,
  agentId: row.agent_id,
  of: row.of_agent,
  chatId: row.chat_id,
  profile: row.profile,
  lastSeq: row.last_seq,
  createdAt: row.created_at,
  updatedAt: row.updated_at,
});
