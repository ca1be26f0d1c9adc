/** Writing sessions and messages. The caller holds the head row of the session's agent. */
import type { Placement } from '../../../workflows/chat/placement.ts';
import { renderMessages } from '../../../workflows/chat/rendering.ts';
import type { SendMessage } from '../../../workflows/contract/chat.ts';
import type { MessageEnvelope, QueuePolicy } from '../../../workflows/protocol/chat.ts';
import { utf8Bytes } from '../../../workflows/protocol/sizes.ts';
import { messageCardId } from '../../ids.ts';
import type { Tx } from '../context.ts';
import { appendEvent } from '../log/events.ts';
import type { ChatMessageRow } from '../schema/chat-rows.ts';
import { encodedText } from '../schema/json.ts';

/** A session as far as a message needs it. */
export interface Session {
  readonly sessionId: string;
  /** The place of the message that comes. */
  readonly seq: number;
  readonly severalSenders: boolean;
}

/** Begins the session, or goes on with it, for one more message; null where its id is that of another chat's session. */
export async function sessionWith(
  tx: Tx,
  agentId: string,
  { agentId: of, message }: Pick<SendMessage, 'agentId' | 'message'>,
): Promise<Session | null> {
  const sender = message.sender.agentId;
  const first = {
    agent_id: agentId,
    session_id: message.sessionId ?? agentId,
    of_agent: of,
    chat_id: message.chatId,
    first_sender: sender,
    several_senders: 0,
    last_seq: 1,
    created_at: tx.at,
    updated_at: tx.at,
  };
  const begun = tx.db.insertInto('chat_sessions').values(first);
  const row =
    (await goneOnWith(tx, agentId, sender)) ??
    (await begun
      .onConflict((conflict) => conflict.doNothing())
      .returning(['session_id', 'last_seq', 'several_senders'])
      .executeTakeFirst());
  return row ? { sessionId: row.session_id, seq: row.last_seq, severalSenders: row.several_senders === 1 } : null;
}

/** Counts one more message of a session that is there; undefined where it is not. */
const goneOnWith = ({ db, at }: Tx, agentId: string, sender: string) =>
  db
    .updateTable('chat_sessions')
    .set((eb) => ({
      last_seq: eb('last_seq', '+', 1),
      several_senders: eb.case().when('first_sender', '=', sender).then(eb.ref('several_senders')).else(1).end(),
      updated_at: at,
    }))
    .where('agent_id', '=', agentId)
    .returning(['session_id', 'last_seq', 'several_senders'])
    .executeTakeFirst();

/** A message that is to be written. */
export interface NewMessage {
  readonly agentId: string;
  readonly digest: string;
  readonly policy: QueuePolicy;
  readonly session: Session;
  readonly message: MessageEnvelope;
}

/** How much room a message takes in a turn: what a model is shown of it, with who has sent it, as JSON. */
const shownBytes = ({ eventId, sender, payload }: MessageEnvelope): number =>
  utf8Bytes(JSON.stringify(renderMessages([{ eventId, sender, payload }], true)));

/** The row of a message before it is placed. */
export const messageRow = (tx: Tx, { agentId, digest, policy, session, message }: NewMessage): ChatMessageRow => ({
  agent_id: agentId,
  seq: session.seq,
  event_id: message.eventId,
  chat_id: message.chatId,
  idempotency_key: message.idempotencyKey,
  digest,
  sender: encodedText(message.sender),
  payload: encodedText(message.payload),
  bytes: shownBytes(message),
  policy,
  placement: 'turn',
  agent_turn_id: null,
  card_id: messageCardId(agentId, message.eventId),
  reason: null,
  trace_id: message.traceId,
  correlation_id: message.correlationId,
  causation_id: message.causationId ?? null,
  sender_seq: message.seq ?? null,
  timestamp_ms: message.timestampMs,
  created_at: tx.at,
});

const PLACEMENTS = { turn: 'turn', join: 'collected', steer: 'steered', reject: 'rejected' } as const;

/** Writes the message with the turn that has it, and tells of it. */
export async function noteMessage(
  tx: Tx,
  row: ChatMessageRow,
  { to }: Placement,
  agentTurnId: string | null,
): Promise<void> {
  const placement = PLACEMENTS[to];
  const reason = to === 'reject' ? (row.reason ?? 'the session is busy, and the message was not to wait') : null;
  await tx.db
    .insertInto('chat_messages')
    .values({ ...row, placement, agent_turn_id: agentTurnId, reason })
    .execute();
  tellMessage(tx, { ...row, reason }, agentTurnId, placement);
}

/** Tells where a message is now. */
export function tellMessage(
  tx: Tx,
  { agent_id, seq, event_id: eventId, chat_id: chatId, policy, reason }: ChatMessageRow,
  agentTurnId: string | null,
  placement: ChatMessageRow['placement'],
): void {
  const payload = { eventId, chatId, seq, policy, placement, ...(reason === null ? {} : { reason }) };
  appendEvent(tx, { agent_id, agent_turn_id: agentTurnId }, { type: 'message', payload });
}
