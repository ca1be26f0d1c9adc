/**
 * Steps: opening one moves the head to running; committing one stores thought, calls and usage in one transaction.
 *
 * Invariants
 * 1. The first writer of a step wins: another attempt of it gets what was recorded (T5, T29).
 * 2. A step that was given up can be neither opened nor committed: the turn has gone on without it (K13).
 */
import { sql } from 'kysely';
import type { BetweenSteps } from '../../../workflows/contract/between-steps.ts';
import type { InboxMark } from '../../../workflows/contract/inbox.ts';
import type { Notice } from '../../../workflows/contract/notices.ts';
import type {
  LedStep,
  NewCall,
  StepBegin,
  StepClose,
  StepCommit,
  StepOpening,
  StepOutcomeRecord,
} from '../../../workflows/contract/steps.ts';
import type { ProposedCall } from '../../../workflows/kernel/calls.ts';
import { SUBMIT_RESULT } from '../../../workflows/protocol/builtins.ts';
import type { CardType, ToolResultContent } from '../../../workflows/protocol/cards.ts';
import { CodedError } from '../../../workflows/protocol/failures.ts';
import type { Timeouts } from '../../../workflows/protocol/profile.ts';
import { addUsage, type Fence } from '../../../workflows/protocol/turn.ts';
import { FIRST_CHECK_MS, firstCheckAt } from '../../../workflows/supervision/check.ts';
import { stepCardId } from '../../ids.ts';
import { keepEffect } from '../agents/effects.ts';
import { hideCards } from '../cards/boxes.ts';
import { type NewCard, writeNewCards } from '../cards/cards.ts';
import { tellAnswer } from '../chat/steps.ts';
import { type StoreContext, type Tx, write } from '../context.ts';
import { appendEdge, appendEvent, appendNotices, appendState } from '../log/events.ts';
import { decoded, encoded, type Json } from '../schema/json.ts';
import type { RecordedOutage, RecordedStep } from '../schema/rows.ts';
import type { TurnRow } from '../schema/turn-row.ts';
import { leased, type WithLease } from '../schema/turn-states.ts';
import { fencedWith, updateHead } from '../turns/head.ts';
import { profileByHash } from '../turns/profiles.ts';
import { hasPendingSteers, steersWithin, takeSteers } from '../turns/steers.ts';
import { deliver } from '../turns/tree-budgets.ts';
import { type Extras, held, type Locked, selectHeld } from '../turns/turns.ts';
import { insertClaims } from './claims.ts';
import { countOpening, openOutage } from './provider-outages.ts';
import { resultFieldsOf } from './result-fields.ts';
import { storeResult } from './results.ts';
import { actOnAnswers } from './waiting-set.ts';

/** Opens a step before its model call. */
export const openStep = (ctx: StoreContext, fence: Fence, begin: StepBegin): Promise<StepOpening> =>
  write(ctx, fence.agentId, async (tx) => {
    const { stepIndex, profileHash, hide = [], noticed = [], room, ledBy = null } = begin;
    const locked = await fencedTurnAt(tx, fence, stepIndex);
    const { turn } = locked;
    const recorded = await recordedOf(tx, turn, begin);
    if (!recorded) refuseClosed(turn, stepIndex);
    const snapshot = await profileByHash(tx, profileHash);
    // A step that is stored (the workflow was reset) changes nothing: the turn may be suspended behind it.
    if (!recorded) await startRunning(tx, locked, snapshot.profile.timeouts);
    if (!recorded && turn.waited) await actOnAnswers(tx, fence.agentTurnId);
    if (hide.length > 0) await hideCards(tx, turn, hide, 'rolled_back');
    const request = decoded(turn.request);
    const { criteria = [] } = request;
    const resultFields = resultFieldsOf(request, snapshot);
    if (turn.opened === null) await openRow(tx, turn, stepIndex, noticed, ledBy);
    else if (!recorded) await countOpening(tx, turn.agent_turn_id, stepIndex);
    const steers = recorded || !turn.steered ? [] : await steersWithin(tx, fence.agentTurnId, room);
    const outage = openOutage(turn.outage, tx.now);
    const openings = (turn.opened ?? 0) + 1;
    return { recorded, snapshot, resultFields, criteria, steers, openings, outage, warnings: snapshot.warnings };
  });

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
    const change = { status: 'running', started_at: tx.now, ...check } as const;
    await tx.db.updateTable('turns').set(change).where('agent_turn_id', '=', turn.agent_turn_id).execute();
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

/** Locks the head if the lease holds, and reads the turn and its step. Errors: `stale_epoch` (T5). */
export async function fencedTurnAt(tx: Tx, fence: Fence, stepIndex: number): Promise<Locked<TurnAtStep>> {
  const { agentTurnId } = fence;
  const ofStep = <T>(column: 'openings' | 'outcome' | 'ended_at' | 'outage') =>
    sql<T | null>`(select s.${sql.ref(column)} from agent_steps s
      where s.agent_turn_id = turns.agent_turn_id and s.step_index = ${stepIndex})`;
  // No join: SQLite would plan it anew for every turn.
  const query = selectHeld(tx, agentTurnId).select([
    ofStep<number>('openings').as('opened'),
    ofStep<Json<RecordedStep>>('outcome').as('outcome'),
    ofStep<number>('ended_at').as('closed'),
    ofStep<Json<RecordedOutage>>('outage').as('outage'),
  ]);
  const [head, [row]] = await fencedWith(tx, fence, query);
  return { head, turn: leased(held(tx, row, agentTurnId)) };
}

/** What was recorded of the step; null until it is committed. */
async function recordedOf(tx: Tx, turn: TurnAtStep, mark: InboxMark): Promise<StepOutcomeRecord | null> {
  if (turn.outcome === null) return null;
  const { delivered, ...outcome } = decoded(turn.outcome);
  return { ...outcome, ...(delivered ?? (await deliver(tx, turn, mark))) };
}

/** Begins a step, which ends the one before it. */
async function openRow(
  tx: Tx,
  turn: TurnRow,
  stepIndex: number,
  noticed: readonly Notice[] = [],
  ledBy: readonly BetweenSteps[] | null = null,
): Promise<void> {
  appendNotices(tx, turn, noticed);
  if (stepIndex > 1) await completeStep(tx, turn, stepIndex - 1);
  await tx.db
    .insertInto('agent_steps')
    .values({
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
      started_at: tx.now,
      ended_at: null,
    })
    .execute();
  appendEvent(tx, turn, { type: 'step', payload: { stepIndex, phase: 'started' } });
}

/** A step with calls is over when the next one begins. */
async function completeStep(tx: Tx, turn: TurnRow, stepIndex: number): Promise<void> {
  const done = await tx.db
    .updateTable('agent_steps')
    .set({ status: 'completed', ended_at: tx.now })
    .where('agent_turn_id', '=', turn.agent_turn_id)
    .where('step_index', '=', stepIndex)
    .where('ended_at', 'is', null)
    .returning('step_index')
    .executeTakeFirst();
  if (done) appendEvent(tx, turn, { type: 'step', payload: { stepIndex, phase: 'completed' } });
}

/** Commits what a model call has brought, unless another attempt of the step was faster. */
export const commitStep = (ctx: StoreContext, fence: Fence, commit: StepCommit): Promise<StepOutcomeRecord> =>
  write(ctx, fence.agentId, async (tx) => writeStep(tx, await fencedTurnAt(tx, fence, commit.stepIndex), commit));

/** Writes what a model call has brought, unless another attempt was faster. Errors: `step_closed` (K13). */
export async function writeStep(tx: Tx, locked: Locked<TurnAtStep>, commit: StepCommit): Promise<StepOutcomeRecord> {
  const { turn } = locked;
  const recorded = await recordedOf(tx, turn, commit);
  if (recorded) return recorded;
  refuseClosed(turn, commit.stepIndex);
  if (turn.opened === null) await openRow(tx, turn, commit.stepIndex);
  announce(tx, locked, commit);
  const steers = turn.steered ? await takeSteers(tx, turn, commit.stepIndex, commit.steerIds) : [];
  const outcome: StepOutcomeRecord = {
    stepIndex: commit.stepIndex,
    ...(await writeCards(tx, turn, commit)),
    steers,
    hasText: commit.thought.text.trim() !== '',
    ...(commit.answeredAt === undefined ? {} : { answeredAt: commit.answeredAt }),
    ...(commit.finishReason === 'length' ? { truncated: true as const } : {}),
    refused: commit.thought.refusal !== undefined,
    ...(commit.shown ? { shown: commit.shown } : {}),
    usage: commit.usage,
    cost: commit.cost,
    latencyMs: commit.latencyMs,
  };
  const delivered = await deliver(tx, turn, commit);
  await recordStep(tx, turn, commit, commit.answeredAt === undefined ? outcome : { ...outcome, delivered });
  const claimed = commit.calls.filter((call) => call.claimed);
  const claims = claimed.map(({ content: { callId } }) => ({ callId, attempt: 1 }));
  await insertClaims(tx, turn.agent_turn_id, claims);
  return { ...outcome, ...delivered };
}

/** Errors: `step_closed`, when the turn has gone on without this step (K13). */
function refuseClosed({ agent_turn_id: agentTurnId, closed }: TurnAtStep, stepIndex: number): void {
  if (closed === null) return;
  throw new CodedError('step_closed', `turn ${agentTurnId} went on without step ${stepIndex}: nothing was written`);
}

/** Gives up a step whose model call has failed; returns what an attempt has recorded of it all the same. */
export const closeStep = (
  ctx: StoreContext,
  fence: Fence,
  { stepIndex, noticed = [], ...mark }: StepClose,
): Promise<StepOutcomeRecord | null> =>
  write(ctx, fence.agentId, async (tx) => {
    const { turn } = await fencedTurnAt(tx, fence, stepIndex);
    const recorded = await recordedOf(tx, turn, mark);
    if (recorded || turn.closed !== null) return recorded;
    // An attempt that has not begun yet has left no row to close, and has written none of the notices.
    if (turn.opened === null) await openRow(tx, turn, stepIndex, noticed);
    await tx.db
      .updateTable('agent_steps')
      .set({ status: 'failed', ended_at: tx.now })
      .where('agent_turn_id', '=', fence.agentTurnId)
      .where('step_index', '=', stepIndex)
      .execute();
    appendEvent(tx, turn, { type: 'step', payload: { stepIndex, phase: 'failed' } });
    return null;
  });

type WrittenCards = Pick<
  RecordedStep,
  'thoughtCardId' | 'thoughtSeq' | 'thoughtTokens' | 'noteSeq' | 'noteTokens' | 'calls'
>;

/** Writes note, thought and calls in the order in which a prompt shows them. */
async function writeCards(tx: Tx, turn: WithLease, commit: StepCommit): Promise<WrittenCards> {
  const note = noteOf(turn, commit);
  const thought = thoughtOf(turn, commit);
  // A result that comes with its call stands right behind it in the box.
  const settledAt = commit.calls.findIndex((call) => call.result !== undefined);
  const plain = settledAt < 0 ? commit.calls : commit.calls.slice(0, settledAt);
  const cards = [...(note ? [note] : []), thought, ...plain.map((call) => callCard(turn, commit, call))];
  const written = await writeNewCards(tx, boxOf(turn), cards);
  const said = written[note ? 1 : 0];
  const calls: ProposedCall[] = plain.map((call) => recordCall(tx, turn, commit, call));
  for (const call of commit.calls.slice(plain.length)) calls.push(await writeCall(tx, turn, commit, call));
  return {
    thoughtCardId: thought.cardId,
    thoughtSeq: said?.seq ?? 0,
    thoughtTokens: said?.tokens ?? 0,
    noteSeq: note ? (written[0]?.seq ?? null) : null,
    noteTokens: note ? (written[0]?.tokens ?? 0) : 0,
    calls,
  };
}

/** The box that the turn writes to. */
const boxOf = (turn: WithLease) => ({ boxId: turn.output_box_id, owner: turn.agent_id });

/** What the runtime says to the model with the step; null when it says nothing. */
function noteOf({ agent_turn_id: agentTurnId }: TurnRow, { stepIndex, note }: StepCommit): NewCard<CardType> | null {
  if (!note) return null;
  const cardId = stepCardId(agentTurnId, stepIndex, note.type);
  return { cardId, type: note.type, content: { text: note.text }, author: 'runtime', agentTurnId, stepIndex };
}

/** The card of what the model said. */
function thoughtOf(turn: TurnRow, { stepIndex, thought }: StepCommit): NewCard<CardType> {
  const { agent_turn_id: agentTurnId, agent_id: author } = turn;
  const cardId = stepCardId(agentTurnId, stepIndex, 'agent.thought');
  return { cardId, type: 'agent.thought', content: thought, author, agentTurnId, stepIndex };
}

/** The card of a call. */
function callCard(turn: TurnRow, { stepIndex }: StepCommit, { index, content }: NewCall): NewCard<CardType> {
  const { agent_turn_id: agentTurnId, agent_id: author } = turn;
  const cardId = stepCardId(agentTurnId, stepIndex, 'tool.call', index);
  return { cardId, type: 'tool.call', content, author, agentTurnId, stepIndex, callId: content.callId };
}

/** Appends the edge of a call whose card is written; returns what the workflow is told of the call. */
function recordCall(tx: Tx, turn: TurnRow, { stepIndex }: StepCommit, call: NewCall): ProposedCall {
  const { index, content, digest, skill, facts } = call;
  const { callId, tool } = content;
  appendEdge(tx, callId, {
    primitive: 'tool_call',
    phase: 'request',
    kind: tool,
    source_agent_id: turn.agent_id,
    source_agent_turn_id: turn.agent_turn_id,
    source_step_index: stepIndex,
    call_id: callId,
    call_index: index,
    depth: turn.depth,
    trace_id: turn.trace_id,
  });
  return { callId, tool, digest, ...(skill ? { skill } : {}), ...(facts ? { facts } : {}) };
}

/** Writes a call, with its result when it came with one. */
async function writeCall(
  tx: Tx,
  turn: WithLease & Partial<Extras>,
  commit: StepCommit,
  call: NewCall,
): Promise<ProposedCall> {
  const { stepIndex, note } = commit;
  const { result } = call;
  const { callId, tool } = call.content;
  await writeNewCards(tx, boxOf(turn), [callCard(turn, commit, call)]);
  const proposed = recordCall(tx, turn, commit, call);
  if (!result) return proposed;
  // A report is the last word of a turn that ends in any case; what came in is the next turn (K9, T22).
  const own = tool === SUBMIT_RESULT && result.status === 'success' && note?.type !== 'sys.final_report';
  const premature = own && (await hasPendingSteers(tx, turn.agent_turn_id));
  const content = premature ? inboxNotEmpty(callId) : result;
  const { settled } = await storeResult(tx, turn, { stepIndex, content });
  if (call.effect) await keepEffect(tx, turn, { callId, stepIndex, index: call.index }, call.effect);
  return { ...proposed, settled };
}

/** Messages for the turn are read before it ends by its own will (W12). */
const inboxNotEmpty = (callId: string): ToolResultContent => ({
  callId,
  tool: SUBMIT_RESULT,
  status: 'failed',
  afterExecution: 'continue',
  error: {
    code: 'inbox_not_empty',
    message: 'a message for this turn came in: read it, then submit again',
    kind: 'recoverable',
  },
});

/** Writes the row of the step, and adds what it spent to the turn. */
async function recordStep(tx: Tx, turn: TurnRow, commit: StepCommit, outcome: RecordedStep): Promise<void> {
  const { agent_turn_id: agentTurnId } = turn;
  await tx.db
    .updateTable('agent_steps')
    .set({
      status: commit.calls.length > 0 ? 'executing' : 'completed',
      model: commit.model,
      llm_usage: encoded(commit.usage),
      llm_response_cost: commit.cost,
      latency_ms: commit.latencyMs,
      first_token_ms: commit.firstTokenMs,
      finish_reason: commit.finishReason,
      tool_call_ids: encoded(outcome.calls.map((call) => call.callId)),
      outcome: encoded(outcome),
      outage: null,
      ended_at: commit.calls.length > 0 ? null : tx.now,
    })
    .where('agent_turn_id', '=', agentTurnId)
    .where('step_index', '=', commit.stepIndex)
    .execute();
  const cost = turn.cost === null || commit.cost === null ? null : turn.cost + commit.cost;
  const usage = encoded(addUsage(decoded(turn.usage), commit.usage));
  await tx.db
    .updateTable('turns')
    .set({ usage, cost, step_count: commit.stepIndex })
    .where('agent_turn_id', '=', agentTurnId)
    .execute();
}

/** Tells of the step, before what came with it, and of the first tool that is run now. */
function announce(tx: Tx, { head, turn }: Locked<TurnRow>, commit: StepCommit): void {
  const { stepIndex, calls } = commit;
  const phase = calls.length > 0 ? 'executing' : 'completed';
  const tools = calls.map((call) => call.content.tool);
  const cardIds = [thoughtOf(turn, commit).cardId];
  appendEvent(tx, turn, { type: 'step', payload: { stepIndex, phase, tools, cardIds } });
  if (turn.chat_id !== null) tellAnswer(tx, turn, stepIndex, tools);
  const currentTool = calls.find((call) => call.result === undefined)?.content.tool;
  if (currentTool !== undefined) appendState(tx, head, { activity: 'executing_tool', currentTool });
}
