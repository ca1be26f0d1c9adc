/**
 * The turn of a session that waits and collects messages (C8). The caller holds the head row of the session's agent.
 *
 * Invariants
 * 1. A message that is not rejected is in one turn. Of the turns that wait, only the last one takes more messages.
 * 2. What a turn is asked follows from its messages in their order, when it is leased: until then it may get more.
 */
import type { ExpressionBuilder } from 'kysely';
import { v7 } from 'uuid';
import { withChatBounds } from '../../../workflows/chat/bounds.ts';
import { renderMessages, type ShownMessage } from '../../../workflows/chat/rendering.ts';
import { MOST_COLLECTED } from '../../../workflows/protocol/chat.ts';
import type { Profile } from '../../../workflows/protocol/profile.ts';
import { PRIORITIES } from '../../../workflows/protocol/turn.ts';
import { collectedCardId } from '../../ids.ts';
import { insertCard } from '../cards/cards.ts';
import type { Reader, Tx } from '../context.ts';
import type { ChatMessageRow } from '../schema/chat-rows.ts';
import { constant, type Tables } from '../schema/rows.ts';
import type { QueuedTurn, Turn } from '../schema/turn-states.ts';
import { FRONT_LANE, insertTurn } from '../turns/turns.ts';
import { payloadOf, senderOf } from './rows.ts';

/**
 * Whether a turn of an agent is one of messages that waits. The order of the turns that wait is that of their lanes, then that in which they
 * were accepted: all that are there are moved to the front before one is queued there. The lane, which all have, leads planners to the index
 * of what is queued.
 */
export const waitsForMessages = (eb: ExpressionBuilder<Tables, 'turns'>) =>
  eb.and([
    eb('turns.status', '=', constant('queued')),
    eb('turns.lane', '>=', FRONT_LANE),
    eb('turns.chat_id', 'is not', null),
  ]);

/** A query for the turn that takes more messages: the last one of the session that waits. */
export const selectWaitingTurn = ({ db }: Reader, agentId: string) =>
  db
    .selectFrom('turns')
    .select(['agent_turn_id', 'profile_name'])
    .where('agent_id', '=', agentId)
    .where(waitsForMessages)
    .orderBy('lane', 'desc')
    .orderBy('accept_seq', 'desc')
    .limit(1);

/** The bytes that one turn collects at most, whatever the window of its model: with what JSON adds to them they fit a card. */
const MOST_BYTES = 256 * 1024;

/** A window while no worker has registered the profile: a small one, for what is collected may have to fit it. */
const UNKNOWN_WINDOW_TOKENS = 8_000;

/**
 * How many bytes a turn of the profile collects: those of its window with the bounds of chats (C7). A token has more than one byte, so that
 * most of the window is left for everything else.
 */
export const collectedBytes = (profile: Profile | undefined): number =>
  Math.min(MOST_BYTES, profile ? withChatBounds(profile).context.windowTokens : UNKNOWN_WINDOW_TOKENS);

/** How much a turn holds. */
export interface Held {
  readonly count: number;
  readonly bytes: number;
}

/** Whether so many more bytes have room beside what a turn holds. */
export const hasRoomFor = (held: Held, bytes: number, most: number): boolean =>
  held.count < MOST_COLLECTED && held.bytes + bytes <= most;

/** Whether so many more bytes have room in the turn, which takes so many at most. It takes its first message whatever its size. */
export async function hasRoom({ db }: Reader, agentTurnId: string, bytes: number, most: number): Promise<boolean> {
  const held = await db
    .selectFrom('chat_messages')
    .select((eb) => [eb.fn.countAll<number>().as('count'), eb.fn.sum<number>('bytes').as('bytes')])
    .where('agent_turn_id', '=', agentTurnId)
    .executeTakeFirstOrThrow();
  return hasRoomFor({ count: Number(held.count), bytes: Number(held.bytes) }, bytes, most);
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
  // A turn that was composed, and came too early to be leased, has got more since: what it is asked is another card then.
  const cardId = collectedCardId(
    agentTurnId,
    rows.map(({ seq }) => seq),
  );
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
  /** That of the session's agent. */
  readonly tenant: string | null;
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
  { sessionId, tenant, profile, front, notBefore, agentTurnId = v7() }: WaitingTurn,
): Promise<QueuedTurn> {
  return insertTurn(tx, {
    agentId: row.agent_id,
    tenant,
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

/** Lets the turns that wait for further messages begin as soon as they can. */
export async function waitNoLonger(tx: Tx, agentId: string): Promise<void> {
  await tx.db
    .updateTable('turns')
    .set({ not_before: null })
    .where('agent_id', '=', agentId)
    .where(waitsForMessages)
    .where('not_before', 'is not', null)
    .execute();
}

/** Lets the messages that wait go before everything else in the queue, and at once; among them their order stays. */
export async function moveToFront(tx: Tx, agentId: string): Promise<void> {
  await tx.db
    .updateTable('turns')
    .set({ lane: FRONT_LANE, not_before: null, check_at: null })
    .where('agent_id', '=', agentId)
    .where(waitsForMessages)
    .execute();
}
