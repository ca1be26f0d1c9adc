/** Rows of sessions and messages, and what readers get of them (C2, C8). */
import type { MessageStatus, MessageView, SessionView } from '../../../workflows/contract/chat.ts';
import {
  type MessagePayload,
  payloadFieldsSchema,
  type Sender,
  senderSchema,
} from '../../../workflows/protocol/chat.ts';
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
  payloadFieldsSchema.safeParse(decodedOr<unknown>(payload, null)).data ?? UNREADABLE;

/** Who has written the message. */
export const senderOf = ({ sender }: Pick<ChatMessageRow, 'sender'>): Sender =>
  senderSchema.safeParse(decodedOr<unknown>(sender, null)).data ?? NOBODY;

/** A message with what its status follows from. */
export type PlacedMessage = ChatMessageRow & {
  readonly turn_status: TurnStatus | null;
  readonly steer_status: InboxRow['status'] | null;
};

/** A query for messages with what their status follows from: each by itself, so that no planner goes through all turns for a page. */
export const selectMessages = ({ db }: Reader) =>
  db
    .selectFrom('chat_messages')
    .selectAll('chat_messages')
    .select((eb) => [
      eb
        .selectFrom('turns')
        .select('turns.status')
        .whereRef('turns.agent_turn_id', '=', 'chat_messages.agent_turn_id')
        .as('turn_status'),
      eb
        .selectFrom('turn_inbox')
        .select('turn_inbox.status')
        .whereRef('turn_inbox.agent_turn_id', '=', 'chat_messages.agent_turn_id')
        .where('turn_inbox.kind', '=', 'steer')
        .whereRef('turn_inbox.ref', '=', 'chat_messages.card_id')
        .as('steer_status'),
    ]);

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
    .selectAll('chat_sessions')
    .select((eb) => [
      eb
        .selectFrom('agents')
        .select('agents.tenant')
        .whereRef('agents.agent_id', '=', 'chat_sessions.agent_id')
        .$asScalar()
        .as('tenant'),
      eb.fn
        .coalesce(
          eb
            .selectFrom('agents')
            .select('agents.profile')
            .whereRef('agents.agent_id', '=', 'chat_sessions.agent_id')
            .$asScalar(),
          'chat_sessions.of_agent',
        )
        .as('profile'),
    ]);

/** The session as readers see it. */
export const sessionView = (
  row: ChatSessionRow & { readonly profile: string; readonly tenant: string | null },
): SessionView => ({
  sessionId: row.session_id,
  agentId: row.agent_id,
  of: row.of_agent,
  chatId: row.chat_id,
  profile: row.profile,
  tenant: row.tenant,
  lastSeq: row.last_seq,
  createdAt: row.created_at,
  updatedAt: row.updated_at,
});
