/**
 * The turn of a session that waits and collects messages (C8). The caller holds the head row of the session's agent.
 *
 * Invariants
 * 1. A message that is not rejected is in one turn. Of the turns that wait, only the last one takes more messages.
 * 2. What a turn is asked follows from its messages in their order, when it is leased: until then it may get more.
 */
import { v7 } from 'uuid';
import { renderMessages, type ShownMessage } from '../../../workflows/chat/rendering.ts';
import { MOST_COLLECTED } from '../../../workflows/protocol/chat.ts';
import { PRIORITIES } from '../../../workflows/protocol/turn.ts';
import { collectedCardId } from '../../ids.ts';
import { insertCard } from '../cards/cards.ts';
import type { Reader, Tx } from '../context.ts';
import type { ChatMessageRow } from '../schema/chat-rows.ts';
import { constant } from '../schema/rows.ts';
import type { QueuedTurn, Turn } from '../schema/turn-states.ts';
import { FRONT_LANE, insertTurn } from '../turns/turns.ts';
import { payloadOf, selectSessions, senderOf } from './rows.ts';

/** A query for the turn that takes more messages: the last one of the session that waits. */
export const selectWaitingTurn = ({ db }: Reader, agentId: string) =>
  db
    .selectFrom('turns')
    .select('agent_turn_id')
    .where('agent_id', '=', agentId)
    .where('status', '=', constant('queued'))
    .where('chat_id', 'is not', null)
    .orderBy('accept_seq', 'desc')
    .limit(1);

/** The bytes that one turn collects at most, whatever the window of its model: with what JSON adds to them they fit a card. */
const MOST_BYTES = 256 * 1024;

/** A token has more than one byte, so that most of the window is left for everything else. */
const collectedBytes = (windowTokens: number): number => Math.min(MOST_BYTES, windowTokens);

/** Whether so many more bytes have room in the turn. A turn takes its first message whatever its size. */
export async function hasRoom(
  { db }: Reader,
  agentTurnId: string,
  { bytes, windowTokens }: { readonly bytes: number; readonly windowTokens: number },
): Promise<boolean> {
  const held = await db
    .selectFrom('chat_messages')
    .select((eb) => [eb.fn.countAll<number>().as('count'), eb.fn.sum<number>('bytes').as('bytes')])
    .where('agent_turn_id', '=', agentTurnId)
    .executeTakeFirstOrThrow();
  return Number(held.count) < MOST_COLLECTED && Number(held.bytes) + bytes <= collectedBytes(windowTokens);
}

/** Whether the model is told whose words it reads. */
export const hasSeveralSenders = async ({ db }: Reader, agentId: string): Promise<boolean> => {
  const session = await db
    .selectFrom('chat_sessions')
    .select('several_senders')
    .where('agent_id', '=', agentId)
    .executeTakeFirst();
  return session?.several_senders === 1;
};

const shown = (row: ChatMessageRow): ShownMessage => ({
  eventId: row.event_id,
  sender: senderOf(row),
  payload: payloadOf(row),
});

/** Writes the card with which a message begins or steers a turn. */
export const writeMessageCard = (tx: Tx, row: ChatMessageRow, severalSenders: boolean, agentTurnId: string) =>
  insertCard(tx, {
    cardId: row.card_id,
    type: 'task.instruction',
    content: { text: renderMessages([shown(row)], severalSenders) },
    author: senderOf(row).agentId,
    agentTurnId,
  });

/** The messages of a turn that is to be leased as its instruction; the turn as it is when it had no more than its first message. */
export async function withItsMessages(tx: Tx, turn: Turn): Promise<Turn> {
  if (turn.chat_id === null) return turn;
  const { agent_id: agentId, agent_turn_id: agentTurnId } = turn;
  const rows = await tx.db
    .selectFrom('chat_messages')
    .selectAll()
    .where('agent_turn_id', '=', agentTurnId)
    .orderBy('seq')
    .execute();
  const [first] = rows;
  // One that was collected by itself has no card of its own yet.
  if (!first || (rows.length === 1 && first.card_id === turn.instruction_card_id)) return turn;
  const cardId = collectedCardId(agentTurnId);
  const text = renderMessages(rows.map(shown), await hasSeveralSenders(tx, agentId));
  await insertCard(tx, {
    cardId,
    type: 'task.instruction',
    content: { text },
    author: senderOf(first).agentId,
    agentTurnId,
  });
  await tx.db
    .updateTable('turns')
    .set({ instruction_card_id: cardId })
    .where('agent_turn_id', '=', agentTurnId)
    .execute();
  return { ...turn, instruction_card_id: cardId };
}

/** What a turn of messages is made of besides its first message. */
export interface WaitingTurn {
  readonly sessionId: string;
  /** The profile that it is leased with. */
  readonly profile: string;
  /** Whether it goes before everything else that waits. */
  readonly front: boolean;
  /** When it may be leased at the earliest; at once when left out. */
  readonly notBefore?: number;
  /** The id that it had before it was lost; a new one when left out. */
  readonly agentTurnId?: string;
}

/** Queues a turn for this message, whose row and card the caller writes. */
export function queueFor(
  tx: Tx,
  row: Pick<ChatMessageRow, 'agent_id' | 'chat_id' | 'card_id' | 'trace_id' | 'correlation_id'>,
  { sessionId, profile, front, notBefore, agentTurnId = v7() }: WaitingTurn,
): Promise<QueuedTurn> {
  return insertTurn(tx, {
    agentId: row.agent_id,
    agentTurnId,
    lane: front ? FRONT_LANE : PRIORITIES.indexOf('normal'),
    instructionCardId: row.card_id,
    digest: '',
    profile,
    ...(notBefore === undefined ? {} : { notBefore }),
    request: {
      priority: front ? 'now' : 'normal',
      correlationId: row.correlation_id,
      chat: { sessionId, chatId: row.chat_id, traceId: row.trace_id },
      // Tools are given it as they are given that of any request.
      metadata: { chatId: row.chat_id, sessionId },
    },
  });
}

/** Lets the messages that wait go before everything else in the queue, and at once; among them their order stays. */
export async function moveToFront(tx: Tx, agentId: string): Promise<void> {
  await tx.db
    .updateTable('turns')
    .set({ lane: FRONT_LANE, not_before: null, check_at: null })
    .where('agent_id', '=', agentId)
    .where('status', '=', constant('queued'))
    .where('chat_id', 'is not', null)
    .execute();
}

/** The messages among these steers of a turn, by their cards. */
export async function messagesAmong(
  { db }: Reader,
  agentTurnId: string,
  cardIds: readonly string[],
): Promise<ReadonlyMap<string, ChatMessageRow>> {
  const rows = await db
    .selectFrom('chat_messages')
    .selectAll()
    .where('agent_turn_id', '=', agentTurnId)
    .where('placement', '=', 'steered')
    .execute();
  const wanted = new Set(cardIds);
  return new Map(rows.filter((row) => wanted.has(row.card_id)).map((row) => [row.card_id, row]));
}

/** Moves messages that a turn has not read into the turn that waits, or into one that goes first: none is lost, and their order stays (T22). */
export async function moveToWaitingTurn(tx: Tx, messages: readonly ChatMessageRow[]): Promise<void> {
  const [first] = messages;
  if (!first) return;
  const { agent_id: agentId } = first;
  const setting = { ...(await settingOf(tx, agentId)), front: true };
  let into = (await selectWaitingTurn(tx, agentId).executeTakeFirst())?.agent_turn_id ?? null;
  if (into !== null) await moveToFront(tx, agentId);
  for (const row of messages) {
    const joins = into !== null && (await hasRoom(tx, into, { bytes: row.bytes, windowTokens: MOST_BYTES }));
    if (!joins) into = (await queueFor(tx, row, setting)).agent_turn_id;
    await tx.db
      .updateTable('chat_messages')
      .set({ agent_turn_id: into, placement: joins ? 'collected' : 'turn' })
      .where('agent_id', '=', agentId)
      .where('seq', '=', row.seq)
      .execute();
  }
}

/** What turns of the session are made with where no message says otherwise. */
const settingOf = async (reader: Reader, agentId: string): Promise<Pick<WaitingTurn, 'sessionId' | 'profile'>> => {
  const session = await selectSessions(reader).where('chat_sessions.agent_id', '=', agentId).executeTakeFirstOrThrow();
  return { sessionId: session.session_id, profile: session.profile };
};

/** Writes down that nothing came of messages: their turn was stopped before it read them. */
export async function rejectMessages(tx: Tx, messages: readonly ChatMessageRow[], reason: string): Promise<void> {
  for (const { agent_id: agentId, seq } of messages)
    await tx.db
      .updateTable('chat_messages')
      .set({ placement: 'rejected', reason })
      .where('agent_id', '=', agentId)
      .where('seq', '=', seq)
      .execute();
}
