/**
 * Opening a step: it moves the head to running, ends the step before it, and hands over what its model call needs to know.
 *
 * Invariant: a step that was given up cannot be opened: the turn has gone on without it (K13).
 */
import { sql } from 'kysely';
import type { BetweenSteps } from '../../../workflows/contract/between-steps.ts';
import type { InboxMark } from '../../../workflows/contract/inbox.ts';
import type { Notice } from '../../../workflows/contract/notices.ts';
import type { LedStep, StepBegin, StepOpening, StepOutcomeRecord } from '../../../workflows/contract/steps.ts';
import { CodedError } from '../../../workflows/protocol/failures.ts';
import type { Timeouts } from '../../../workflows/protocol/profile.ts';
import type { Fence } from '../../../workflows/protocol/turn.ts';
import { FIRST_CHECK_MS, firstCheckAt } from '../../../workflows/supervision/check.ts';
import { hideCards } from '../cards/boxes.ts';
import { type Reader, type StoreContext, type Tx, write } from '../context.ts';
import { appendEvent, appendNotices, appendState } from '../log/events.ts';
import { insertRows, prepared, updateRows } from '../prepared.ts';
import { decoded, encoded, type Json } from '../schema/json.ts';
import type { RecordedOutage, RecordedStep } from '../schema/rows.ts';
import type { TurnRow } from '../schema/turn-row.ts';
import { leased, type WithLease } from '../schema/turn-states.ts';
import { fencedWith, updateHead } from '../turns/head.ts';
import { profileByHash } from '../turns/profiles.ts';
import { steersWithin } from '../turns/steers.ts';
import { deliver } from '../turns/tree-budgets.ts';
import { type Extras, held, heldColumns, type Locked } from '../turns/turns.ts';
import { countOpening, openOutage } from './provider-outages.ts';
import { resultFieldsOf } from './result-fields.ts';
import { actOnAnswers } from './waiting-set.ts';

/** Opens a step before its model call. */
export const openStep = (ctx: StoreContext, fence: Fence, begin: StepBegin): Promise<StepOpening> =>
  write(ctx, fence.agentId, async (tx) => openLocked(tx, await fencedTurnAt(tx, fence, begin.stepIndex), begin));

/** Opens a step of a turn that is locked with it. Errors: those of `openStep` but for the lease's. */
export async function openLocked(tx: Tx, locked: Locked<TurnAtStep>, begin: StepBegin): Promise<StepOpening> {
  const { turn } = locked;
  const { stepIndex, profileHash, hide = [], noticed = [], room, ledBy = null } = begin;
  const { agent_turn_id: agentTurnId } = turn;
  const recorded = await recordedOf(tx, turn, begin);
  if (!recorded) refuseClosed(turn, stepIndex);
  const snapshot = await profileByHash(tx, profileHash);
  // A step that is stored (the workflow was reset) changes nothing: the turn may be suspended behind it.
  if (!recorded) await startRunning(tx, locked, snapshot.profile.timeouts);
  if (!recorded && turn.waited) await actOnAnswers(tx, agentTurnId);
  if (hide.length > 0) await hideCards(tx, turn, hide, 'rolled_back');
  const request = decoded(turn.request);
  const { criteria = [] } = request;
  const resultFields = resultFieldsOf(request, snapshot);
  if (turn.opened === null) await openRow(tx, turn, stepIndex, noticed, ledBy);
  else if (!recorded) await countOpening(tx, agentTurnId, stepIndex);
  const steers = recorded || !turn.steered ? [] : await steersWithin(tx, agentTurnId, room);
  const outage = openOutage(turn.outage, tx.now);
  const openings = (turn.opened ?? 0) + 1;
  return { recorded, snapshot, resultFields, criteria, steers, openings, outage, warnings: snapshot.warnings };
}

/** Reads what led to the steps that bursts have opened. */
export const readLedSteps = (ctx: StoreContext, fence: Fence, fromStep: number): Promise<readonly LedStep[]> =>
  write(ctx, fence.agentId, async (tx) => {
    const query = tx.db
      .selectFrom('agent_steps')
      .select(['step_index', 'led_by'])
      .where('agent_turn_id', '=', fence.agentTurnId)
      .where('step_index', '>=', fromStep)
      .where('led_by', 'is not', null)
      .orderBy('step_index');
    const [, rows] = await fencedWith(tx, fence, query);
    return rows.flatMap(({ step_index: stepIndex, led_by }) =>
      led_by === null ? [] : [{ stepIndex, ledBy: decoded(led_by) }],
    );
  });

/** The first activity of a turn moves head and row dispatched→running (T12). */
async function startRunning(tx: Tx, { head, turn }: Locked<TurnAtStep>, timeouts: Timeouts): Promise<void> {
  if (turn.status === 'dispatched') {
    const check = {
      check_at: Math.min(firstCheckAt(tx.now, timeouts), turn.ends_by ?? Number.POSITIVE_INFINITY),
      check_every: FIRST_CHECK_MS,
      no_workers_since: null,
    };
    const change = { status: 'running', started_at: tx.at, ...check } as const;
    await updateRows(tx.db, 'turns', { agent_turn_id: turn.agent_turn_id }, change);
  }
  if (head.status === 'running') return;
  await updateHead(tx, head.agent_id, { status: 'running' });
  appendState(tx, { ...head, status: 'running' }, { activity: 'thinking' });
}

/** A turn and its step. */
interface StepColumns {
  /** How many attempts have opened the step; null while none has. */
  readonly opened: number | null;
  /** Null until the step is committed. */
  readonly outcome: Json<RecordedStep> | null;
  /** When the step was over; null until then. */
  readonly closed: number | null;
  /** Null while the provider has not failed its model call. */
  readonly outage: Json<RecordedOutage> | null;
}

/** A turn that has been leased, and one of its steps. */
export type TurnAtStep = WithLease & Extras & StepColumns;

/** A query for a turn with its extras and one of its steps, to be run under its agent's head row. */
export const selectTurnAt = ({ db }: Reader, agentTurnId: string, stepIndex: number) =>
  turnAt(db, { agentTurnId, stepIndex });

const turnAt = prepared((db, at: { agentTurnId: string; stepIndex: number }) => {
  const ofStep = <T>(column: 'openings' | 'outcome' | 'ended_at' | 'outage') =>
    sql<T | null>`(select s.${sql.ref(column)} from agent_steps s
      where s.agent_turn_id = turns.agent_turn_id and s.step_index = ${at.stepIndex})`;
  // No join: SQLite would plan it anew for every turn.
  return heldColumns(db)
    .select([
      ofStep<number>('openings').as('opened'),
      ofStep<Json<RecordedStep>>('outcome').as('outcome'),
      ofStep<number>('ended_at').as('closed'),
      ofStep<Json<RecordedOutage>>('outage').as('outage'),
    ])
    .where('turns.agent_turn_id', '=', at.agentTurnId);
});

/** Locks the head if the lease holds, and reads the turn and its step. Errors: `stale_epoch` (T5). */
export async function fencedTurnAt(tx: Tx, fence: Fence, stepIndex: number): Promise<Locked<TurnAtStep>> {
  const { agentTurnId } = fence;
  const [head, [row]] = await fencedWith(tx, fence, selectTurnAt(tx, agentTurnId, stepIndex));
  return { head, turn: leased(held(tx, row, agentTurnId)) };
}

/** What was recorded of the step; null until it is committed. */
export async function recordedOf(tx: Tx, turn: TurnAtStep, mark: InboxMark): Promise<StepOutcomeRecord | null> {
  if (turn.outcome === null) return null;
  const { delivered, ...outcome } = decoded(turn.outcome);
  return { ...outcome, ...(delivered ?? (await deliver(tx, turn, mark))) };
}

/** Begins a step, which ends the one before it. */
export async function openRow(
  tx: Tx,
  turn: TurnRow,
  stepIndex: number,
  noticed: readonly Notice[] = [],
  ledBy: readonly BetweenSteps[] | null = null,
): Promise<void> {
  appendNotices(tx, turn, noticed);
  if (stepIndex > 1) await completeStep(tx, turn, stepIndex - 1);
  await insertRows(tx.db, 'agent_steps', [
    {
      agent_turn_id: turn.agent_turn_id,
      step_index: stepIndex,
      status: 'started',
      model: null,
      llm_usage: null,
      llm_response_cost: null,
      latency_ms: null,
      first_token_ms: null,
      finish_reason: null,
      tool_call_ids: encoded([]),
      openings: 1,
      led_by: ledBy && encoded(ledBy),
      outcome: null,
      outage: null,
      started_at: tx.at,
      ended_at: null,
    },
  ]);
  appendEvent(tx, turn, { type: 'step', payload: { stepIndex, phase: 'started' } });
}

const completeOpen = prepared((db, step: { agentTurnId: string; stepIndex: number; at: number }) =>
  db
    .updateTable('agent_steps')
    .set({ status: 'completed', ended_at: step.at })
    .where('agent_turn_id', '=', step.agentTurnId)
    .where('step_index', '=', step.stepIndex)
    .where('ended_at', 'is', null)
    .returning('step_index'),
);

/** A step with calls is over when the next one begins. */
async function completeStep(tx: Tx, turn: TurnRow, stepIndex: number): Promise<void> {
  const step = { agentTurnId: turn.agent_turn_id, stepIndex, at: tx.at };
  if (await completeOpen(tx.db, step).executeTakeFirst())
    appendEvent(tx, turn, { type: 'step', payload: { stepIndex, phase: 'completed' } });
}

/** Errors: `step_closed`, when the turn has gone on without this step (K13). */
export function refuseClosed({ agent_turn_id: agentTurnId, closed }: TurnAtStep, stepIndex: number): void {
  if (closed === null) return;
  throw new CodedError('step_closed', `turn ${agentTurnId} went on without step ${stepIndex}: nothing was written`);
}
