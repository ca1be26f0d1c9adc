/**
 * Steers: messages for a turn that is already there (T22). The caller holds the agent's head row.
 *
 * Invariants
 * 1. A steer is pending until a step that rendered it is committed, which puts it into the output box, or its turn closed and it
 *    became a turn of its own: never lost, never doubled, never reordered.
 * 2. Its id is that of its card.
 */
import { MESSAGE_TOKENS } from '../../../workflows/kernel/pressure.ts';
import type { Card } from '../../../workflows/protocol/cards.ts';
import { steerTurnId } from '../../ids.ts';
import { appendToBox, toCard } from '../cards/cards.ts';
import type { Trx } from '../context.ts';
import type { TurnRow } from '../schema/rows.ts';
import { FRONT_LANE, insertTurn } from './turns.ts';

export interface TakenSteer {
  readonly seq: number;
  readonly tokens: number;
}

/** In the order they came. Showing them to the model takes none away: the call may fail, and the next one shows them again. */
export async function pendingSteers(trx: Trx, agentTurnId: string): Promise<Card[]> {
  const rows = await trx
    .selectFrom('steers')
    .innerJoin('cards', 'cards.card_id', 'steers.card_id')
    .selectAll('cards')
    .where('steers.agent_turn_id', '=', agentTurnId)
    .where('steers.status', '=', 'pending')
    .orderBy('steers.seq')
    .execute();
  return rows.map(toCard);
}

/** The oldest of them, as many as have room in the prompt; one at least, which the conversation then makes room for (K15). */
export async function steersWithin(trx: Trx, agentTurnId: string, room = Number.POSITIVE_INFINITY): Promise<Card[]> {
  const pending = await pendingSteers(trx, agentTurnId);
  let left = room;
  const fitting = pending.findIndex(({ tokens }) => {
    left -= tokens + MESSAGE_TOKENS;
    return left < 0;
  });
  return fitting < 0 ? pending : pending.slice(0, Math.max(1, fitting));
}

export const countPendingSteers = async (trx: Trx, agentTurnId: string): Promise<number> => {
  const { count } = await trx
    .selectFrom('steers')
    .select((eb) => eb.fn.countAll<number>().as('count'))
    .where('agent_turn_id', '=', agentTurnId)
    .where('status', '=', 'pending')
    .executeTakeFirstOrThrow();
  return Number(count);
};

export const hasPendingSteers = async (trx: Trx, agentTurnId: string): Promise<boolean> =>
  (await countPendingSteers(trx, agentTurnId)) > 0;

/** What a committed step rendered is part of the conversation; what came since, the model has not seen. */
export async function takeSteers(
  trx: Trx,
  turn: TurnRow,
  stepIndex: number,
  rendered: readonly string[],
): Promise<TakenSteer[]> {
  const taken: TakenSteer[] = [];
  for (const { cardId, tokens } of await pendingSteers(trx, turn.agent_turn_id)) {
    if (!rendered.includes(cardId)) continue;
    const seq = await appendToBox(trx, turn.output_box_id ?? '', cardId, turn.agent_id);
    const consumed = { status: 'consumed', step_index: stepIndex } as const;
    await trx.updateTable('steers').set(consumed).where('steer_id', '=', cardId).execute();
    taken.push({ seq, tokens });
  }
  return taken;
}

/** What its turn never took becomes the next turns, in order, before everything else in the queue. */
export async function requeueSteers(trx: Trx, turn: TurnRow, now: number): Promise<void> {
  for (const { cardId } of await pendingSteers(trx, turn.agent_turn_id)) {
    const profile = turn.profile_name === null ? {} : { profile: turn.profile_name };
    const correlation = turn.correlation_id === null ? {} : { correlationId: turn.correlation_id };
    const queued = {
      agentId: turn.agent_id,
      agentTurnId: steerTurnId(cardId),
      lane: FRONT_LANE,
      instructionCardId: cardId,
      digest: '',
      origin: { turn, depth: turn.depth },
      request: { priority: 'now', ...profile, ...correlation } as const,
    };
    await insertTurn(trx, queued, now);
    await trx.updateTable('steers').set({ status: 'requeued' }).where('steer_id', '=', cardId).execute();
  }
}
