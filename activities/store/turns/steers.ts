/**
 * Steers: messages for a turn that is already there (T22). The caller holds the agent's head row.
 *
 * Invariants
 * 1. A steer is pending until a step that rendered it is committed, which puts it into the output box, or its turn closed: then it becomes
 *    a turn of its own, or, when the turn was stopped, is dropped with an event. Never lost, never doubled, never reordered.
 * 2. It is an item of the turn's inbox, which names its card.
 */

import { MESSAGE_TOKENS } from '../../../workflows/kernel/pressure.ts';
import type { Card } from '../../../workflows/protocol/cards.ts';
import { CodedError } from '../../../workflows/protocol/failures.ts';
import type { Profile } from '../../../workflows/protocol/profile.ts';
import { clip } from '../../../workflows/protocol/sizes.ts';
import { steerTurnId } from '../../ids.ts';
import type { WrittenCard } from '../cards/cards.ts';
import { appendToBox, toCard } from '../cards/cards.ts';
import { moveToWaitingTurns, rejectMessages, unreadMessages } from '../chat/unread.ts';
import { collectedBytes } from '../chat/waiting-turn.ts';
import type { Reader, Tx } from '../context.ts';
import { appendEvent } from '../log/events.ts';
import type { TurnRow } from '../schema/turn-row.ts';
import type { WithLease } from '../schema/turn-states.ts';
import { type InboxKey, markItem, putItem } from './inbox.ts';
import { profileByHash } from './profiles.ts';
import { FRONT_LANE, insertTurn } from './turns.ts';

/** The row of a steer in the turn's inbox. */
export const steerKey = (agentTurnId: string, cardId: string): InboxKey => ({
  agent_turn_id: agentTurnId,
  kind: 'steer',
  ref: cardId,
});

/** The most messages that a turn may have not read: all of them are read from the store with each step. */
export const MOST_PENDING_STEERS = 100;

/** Puts a card behind all that came for the turn before; returns its place. */
export const putSteer = (tx: Tx, agentTurnId: string, cardId: string): Promise<number> =>
  putItem(tx, steerKey(agentTurnId, cardId));

/**
 * The steers that wait, in the order they came. Showing them to the model takes none away: the call may fail, and the next one shows them
 * again.
 */
async function pendingSteers({ db }: Reader, agentTurnId: string): Promise<Card[]> {
  const rows = await db
    .selectFrom('turn_inbox')
    .innerJoin('cards', 'cards.card_id', 'turn_inbox.ref')
    .selectAll('cards')
    .where('turn_inbox.agent_turn_id', '=', agentTurnId)
    .where('turn_inbox.kind', '=', 'steer')
    .where('turn_inbox.status', '=', 'pending')
    .orderBy('turn_inbox.seq')
    .execute();
  return rows.map(toCard);
}

/** The oldest of them, as many as have room in the prompt; one at least, which the conversation then makes room for (K15). */
export async function steersWithin(
  reader: Reader,
  agentTurnId: string,
  room = Number.POSITIVE_INFINITY,
): Promise<Card[]> {
  const pending = await pendingSteers(reader, agentTurnId);
  let left = room;
  const fitting = pending.findIndex(({ tokens }) => {
    left -= tokens + MESSAGE_TOKENS;
    return left < 0;
  });
  return fitting < 0 ? pending : pending.slice(0, Math.max(1, fitting));
}

/** Counts the steers that the turn has not taken. */
export const countPendingSteers = async ({ db }: Reader, agentTurnId: string): Promise<number> => {
  const { count } = await db
    .selectFrom('turn_inbox')
    .select((eb) => eb.fn.countAll<number>().as('count'))
    .where('agent_turn_id', '=', agentTurnId)
    .where('kind', '=', 'steer')
    .where('status', '=', 'pending')
    .executeTakeFirstOrThrow();
  return Number(count);
};

/** Whether there are steers that the turn has not taken. */
export const hasPendingSteers = async (reader: Reader, agentTurnId: string): Promise<boolean> =>
  (await countPendingSteers(reader, agentTurnId)) > 0;

/** Takes what a committed step rendered into the conversation; what came since, the model has not seen. */
export async function takeSteers(
  tx: Tx,
  turn: WithLease,
  stepIndex: number,
  rendered: readonly string[],
): Promise<WrittenCard[]> {
  const box = { boxId: turn.output_box_id, owner: turn.agent_id };
  const taken: WrittenCard[] = [];
  for (const { cardId, tokens } of await pendingSteers(tx, turn.agent_turn_id)) {
    if (!rendered.includes(cardId)) continue;
    const seq = await appendToBox(tx, box, cardId);
    await markItem(tx, steerKey(turn.agent_turn_id, cardId), { status: 'consumed', step_index: stepIndex });
    taken.push({ seq, tokens });
  }
  return taken;
}

/** Bytes of a dropped message that its event repeats. */
const DROPPED_BYTES = 400;

/** Drops what a stopped turn never took, with an event each: who stops a turn does not want its messages to start another. */
export async function dropSteers(tx: Tx, turn: TurnRow): Promise<void> {
  const pending = await pendingSteers(tx, turn.agent_turn_id);
  const messages = await unreadMessages(tx, turn.agent_turn_id, idsOf(pending));
  await rejectMessages(tx, messages, 'the turn was stopped before it read the message');
  for (const { cardId, content } of pending) {
    const text = 'text' in content ? clip(String(content.text), DROPPED_BYTES) : '';
    const reason = `the turn was stopped before it read ${JSON.stringify(text)}`;
    appendEvent(tx, turn, { type: 'dropped', payload: { what: 'steer', reason } });
    await markItem(tx, steerKey(turn.agent_turn_id, cardId), { status: 'dropped' });
  }
}

const idsOf = (cards: readonly Card[]): string[] => cards.map(({ cardId }) => cardId);

/**
 * Makes turns of what a turn never took: the next ones, in order, before everything else in the queue. Messages of a chat join those that wait
 * already (C8).
 */
export async function requeueSteers(tx: Tx, turn: TurnRow): Promise<void> {
  const pending = await pendingSteers(tx, turn.agent_turn_id);
  const messages = await unreadMessages(tx, turn.agent_turn_id, idsOf(pending));
  await moveToWaitingTurns(tx, messages, collectedBytes(await profileOf(tx, turn)));
  const moved = new Set(messages.map(({ card_id }) => card_id));
  for (const { cardId } of pending) {
    if (moved.has(cardId)) {
      await markItem(tx, steerKey(turn.agent_turn_id, cardId), { status: 'requeued' });
      continue;
    }
    const correlation = turn.correlation_id === null ? {} : { correlationId: turn.correlation_id };
    await insertTurn(tx, {
      agentId: turn.agent_id,
      tenant: turn.tenant,
      agentTurnId: steerTurnId(cardId),
      lane: FRONT_LANE,
      instructionCardId: cardId,
      digest: '',
      origin: { turn, depth: turn.depth },
      profile: turn.profile_name,
      request: { priority: 'now', profile: turn.profile_name, ...correlation },
    });
    await markItem(tx, steerKey(turn.agent_turn_id, cardId), { status: 'requeued' });
  }
}

/** The profile of the turn; undefined where it cannot be read, on which no end depends (T8). */
async function profileOf(tx: Tx, { profile_hash: hash }: TurnRow): Promise<Profile | undefined> {
  if (hash === null) return undefined;
  try {
    return (await profileByHash(tx, hash)).profile;
  } catch (error) {
    if (error instanceof CodedError) return undefined;
    throw error;
  }
}
