/**
 * What the calls of a turn change of its agent's work: kept beside the turn until its commit, and applied then (A7).
 *
 * Invariant: an effect is written with the result of its call, and applied or dropped by the transaction that ends the turn, so that each
 * counts once. A turn that is ended over its head commits nothing, and neither does a step that was taken back.
 */
import { type AgentWork, NO_WORK, type WorkEffect, withEffect } from '../../../workflows/agent-state/effects.ts';
import type { Came, WorkReading } from '../../../workflows/contract/agent-work.ts';
import type { WorkEvent } from '../../../workflows/contract/events.ts';
import { CodedError } from '../../../workflows/protocol/failures.ts';
import type { Fence } from '../../../workflows/protocol/turn.ts';
import { type Reader, read, type StoreContext, type Tx } from '../context.ts';
import { appendEvent } from '../log/events.ts';
import { decodedOr, encoded } from '../schema/json.ts';
import { constant, type HeadRow } from '../schema/rows.ts';
import type { TurnRow } from '../schema/turn-row.ts';
import { updateHead } from '../turns/head.ts';
import { keep } from './came.ts';
import { taskEnd } from './task-ends.ts';
import { insertTrigger } from './triggers.ts';
import { openWork, writeWork } from './work.ts';

type KeptOf = Pick<TurnRow, 'agent_id' | 'agent_turn_id'>;

/** The call that changes something. */
export interface EffectOf {
  readonly callId: string;
  readonly stepIndex: number;
  readonly index: number;
}

/**
 * Keeps what a call changes until its turn commits; a trigger is there at once, since the turn may hand its token out. The caller has stored
 * the result of the call in this transaction.
 */
export async function keepEffect(tx: Tx, turn: KeptOf, of: EffectOf, effect: WorkEffect): Promise<void> {
  const { agent_id: agentId, agent_turn_id: agentTurnId } = turn;
  if (effect.type === 'create_trigger') return insertTrigger(tx, agentId, effect);
  const row = {
    agent_turn_id: agentTurnId,
    call_id: of.callId,
    step_index: of.stepIndex,
    call_index: of.index,
    effect: encoded(effect),
  };
  await tx.db.insertInto('work_effects').values(row).execute();
}

type OfTurn = Pick<TurnRow, 'agent_turn_id' | 'output_box_id'>;

/** What the turn has changed, in the order of its calls, without what was taken back. */
async function keptEffects({ db }: Reader, { agent_turn_id, output_box_id }: OfTurn): Promise<readonly WorkEffect[]> {
  const rows = await db
    .selectFrom('work_effects as e')
    .select('effect')
    .where('agent_turn_id', '=', agent_turn_id)
    .where(({ not, exists, selectFrom }) =>
      not(
        exists(
          selectFrom('cards')
            .innerJoin('box_cards', 'box_cards.card_id', 'cards.card_id')
            .select('cards.card_id')
            .where('cards.agent_turn_id', '=', agent_turn_id)
            .whereRef('cards.call_id', '=', 'e.call_id')
            .where('cards.type', '=', constant('tool.result'))
            .where('box_cards.box_id', '=', output_box_id)
            .where('box_cards.hidden_reason', '=', 'rolled_back'),
        ),
      ),
    )
    .orderBy('step_index')
    .orderBy('call_index')
    .execute();
  // One that cannot be read is none: the turn ends all the same.
  return rows.map(({ effect }) => decodedOr<WorkEffect | null>(effect, null)).filter((effect) => effect !== null);
}

/** The work of the agent as its open turn sees it. */
export const readWork = (
  ctx: StoreContext,
  { agentId, agentTurnId }: Pick<Fence, 'agentId' | 'agentTurnId'>,
): Promise<WorkReading> =>
  read(ctx, async (reader) => {
    const nowMs = ctx.now();
    const row = await reader.db
      .selectFrom('agent_state_head as head')
      .innerJoin('turns', 'turns.agent_id', 'head.agent_id')
      .select(['head.agent_id', 'head.has_work', 'head.current_work_item_id'])
      .select(['turns.agent_turn_id', 'turns.output_box_id'])
      .where('head.agent_id', '=', agentId)
      .where('turns.agent_turn_id', '=', agentTurnId)
      .executeTakeFirst();
    if (!row) return { work: NO_WORK, nowMs };
    const base = row.has_work === 1 ? await openWork(reader, row) : NO_WORK;
    const effects = await keptEffects(reader, row);
    return { work: effects.reduce((work, effect) => applied(work, effect, nowMs) ?? work, base), nowMs };
  });

/** The work after an effect; null where the effect does not fit any more, because somebody else has changed the work meanwhile. */
function applied(work: AgentWork, effect: WorkEffect, now: number): AgentWork | null {
  try {
    return withEffect(work, effect, now);
  } catch (error) {
    if (error instanceof CodedError && error.code === 'invalid_request') return null;
    throw error;
  }
}

/** Applies what the turn has changed; returns the head with it. The caller holds the head row and ends the turn. */
export async function applyEffects(tx: Tx, head: HeadRow, turn: TurnRow): Promise<HeadRow> {
  const effects = await keptEffects(tx, turn);
  await dropEffects(tx, turn.agent_turn_id);
  const before = head.has_work === 1 ? await openWork(tx, head) : NO_WORK;
  let work = before;
  let held = head;
  for (const effect of effects) {
    const next = applied(work, effect, tx.now);
    appendEvent(tx, turn, { type: 'work', payload: { ...subjectOf(effect), applied: next !== null } });
    work = next ?? work;
    // The agent has ended its turn to wait, and would wait for nothing.
    if (next === null && effect.type === 'wait') ({ head: held } = await keep(tx, held, cannotWait(effect)));
  }
  if (work !== before) await writeWork(tx, turn, before, work);
  const known = new Set(before.waits.map(({ waitId }) => waitId));
  for (const wait of work.waits.filter(({ waitId }) => !known.has(waitId))) {
    // It has ended while the turn that waits for it was open.
    const ended = await taskEnd(tx, head.agent_id, wait);
    if (ended) ({ head: held } = await keep(tx, held, ended));
  }
  if (work === before && held === head) return head;
  const change = { has_work: 1, one_shot_ended: 0, current_work_item_id: work.currentId };
  await updateHead(tx, head.agent_id, change);
  return { ...held, ...change };
}

/** That a wait is over before it has begun, because what it is for is not there any more. */
const cannotWait = ({ waitId, reason }: Extract<WorkEffect, { type: 'wait' }>): Came => ({
  kind: 'timer_fire',
  source: waitId,
  reason: `what you wanted to wait for is not there any more: ${reason}`,
  count: 1,
  cardId: null,
  due: true,
});

/** What an effect is about, for its event. */
function subjectOf(effect: WorkEffect): Omit<WorkEvent['payload'], 'applied'> {
  const { type: change } = effect;
  if ('waitId' in effect) {
    const { waitId, workItemId } = effect;
    return { change, waitId, ...(workItemId === null ? {} : { workItemId }) };
  }
  if ('timerId' in effect) return { change, timerId: effect.timerId };
  if ('triggerId' in effect) return { change, triggerId: effect.triggerId };
  return { change, workItemId: effect.workItemId };
}

/** Drops what a turn has changed and did not commit. */
export async function dropEffects(tx: Tx, agentTurnId: string): Promise<void> {
  await tx.db.deleteFrom('work_effects').where('agent_turn_id', '=', agentTurnId).execute();
}
