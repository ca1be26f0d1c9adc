/**
 * Steers: messages for a turn that is already there (T22). The caller holds the agent's head row.
 *
 * Invariant: a steer is pending until a step has shown it to the model, or its turn closed and it became a turn of its own: never
 * lost, never doubled, never reordered.
 */
import type { BoxExtent } from '../../workflows/kernel/state.ts';
import { appendToBox } from './cards.ts';
import type { Trx } from './context.ts';
import { steerTurnId } from './ids.ts';
import type { SteerRow, TurnRow } from './rows.ts';
import { FRONT_LANE, insertTurn } from './turns.ts';

export interface ShownSteer {
  readonly seq: number;
  readonly tokens: number;
}

const pendingOf = (trx: Trx, agentTurnId: string): Promise<SteerRow[]> =>
  trx
    .selectFrom('steers')
    .selectAll()
    .where('agent_turn_id', '=', agentTurnId)
    .where('status', '=', 'pending')
    .orderBy('seq')
    .execute();

export const hasPendingSteers = async (trx: Trx, agentTurnId: string): Promise<boolean> =>
  (await pendingOf(trx, agentTurnId)).length > 0;

/** Puts what is pending into the output box for this step; another attempt of the step gets the same ones, and newer ones. */
export async function showSteers(trx: Trx, turn: TurnRow, stepIndex: number): Promise<BoxExtent[]> {
  const boxId = turn.output_box_id ?? '';
  for (const steer of await pendingOf(trx, turn.agent_turn_id)) {
    await appendToBox(trx, boxId, steer.card_id, turn.agent_id);
    await trx
      .updateTable('steers')
      .set({ status: 'consumed', step_index: stepIndex })
      .where('steer_id', '=', steer.steer_id)
      .execute();
  }
  const shown = await shownAt(trx, turn, stepIndex);
  return shown.map(({ seq }) => ({ boxId, fromSeq: seq, toSeq: seq }));
}

/**
 * The steers of a committed step. One that this attempt of the step did not render (a later attempt showed it) is pending again: the
 * model has not seen it.
 */
export async function settleSteers(
  trx: Trx,
  turn: TurnRow,
  stepIndex: number,
  rendered: readonly number[],
): Promise<ShownSteer[]> {
  const shown = await shownAt(trx, turn, stepIndex);
  for (const { seq, steerId } of shown) {
    if (rendered.includes(seq)) continue;
    await trx
      .updateTable('steers')
      .set({ status: 'pending', step_index: null })
      .where('steer_id', '=', steerId)
      .execute();
  }
  return shown.filter(({ seq }) => rendered.includes(seq)).map(({ seq, tokens }) => ({ seq, tokens }));
}

async function shownAt(trx: Trx, turn: TurnRow, stepIndex: number): Promise<(ShownSteer & { steerId: string })[]> {
  const rows = await trx
    .selectFrom('steers')
    .innerJoin('box_cards', 'box_cards.card_id', 'steers.card_id')
    .innerJoin('cards', 'cards.card_id', 'steers.card_id')
    .select(['steers.steer_id', 'box_cards.seq', 'cards.token_count'])
    .where('steers.agent_turn_id', '=', turn.agent_turn_id)
    .where('steers.step_index', '=', stepIndex)
    .where('box_cards.box_id', '=', turn.output_box_id ?? '')
    .orderBy('steers.seq')
    .execute();
  return rows.map((row) => ({ steerId: row.steer_id, seq: row.seq, tokens: row.token_count }));
}

/** What its turn never showed becomes the next turns, in order, before everything else in the queue. */
export async function requeueSteers(trx: Trx, turn: TurnRow, now: number): Promise<void> {
  for (const steer of await pendingOf(trx, turn.agent_turn_id)) {
    const profile = turn.profile_name === null ? {} : { profile: turn.profile_name };
    const correlation = turn.correlation_id === null ? {} : { correlationId: turn.correlation_id };
    const queued = {
      agentId: turn.agent_id,
      agentTurnId: steerTurnId(steer.steer_id),
      lane: FRONT_LANE,
      instructionCardId: steer.card_id,
      digest: '',
      origin: { turn, depth: turn.depth },
      request: { priority: 'now', ...profile, ...correlation } as const,
    };
    await insertTurn(trx, queued, now);
    await trx.updateTable('steers').set({ status: 'requeued' }).where('steer_id', '=', steer.steer_id).execute();
  }
}
