/** Steps: opening one moves the head to running; committing one stores thought, calls and usage in one transaction. */
import { sql } from 'kysely';
import type { Notice } from '../../../workflows/contract/notices.ts';
import type { StepBegin, StepCommit, StepOpening, StepOutcomeRecord } from '../../../workflows/contract/steps.ts';
import type { ProposedCall } from '../../../workflows/kernel/events.ts';
import { SUBMIT_RESULT } from '../../../workflows/protocol/builtins.ts';
import type { CardType, ToolResultContent } from '../../../workflows/protocol/cards.ts';
import type { EnqueueRequest } from '../../../workflows/protocol/enqueue.ts';
import { CodedError } from '../../../workflows/protocol/failures.ts';
import type { Timeouts } from '../../../workflows/protocol/profile.ts';
import { addUsage, type Fence, type Usage } from '../../../workflows/protocol/turn.ts';
import { FIRST_CHECK_MS, firstCheckAt } from '../../../workflows/supervision/check.ts';
import { stepCardId } from '../../ids.ts';
import { hideCards } from '../cards/boxes.ts';
import { type NewCard, writeNewCards } from '../cards/cards.ts';
import { type StoreContext, type Trx, write } from '../context.ts';
import { appendEdge, appendEvent, appendNotices, appendState } from '../log/events.ts';
import type { HeadRow, TurnRow } from '../schema/rows.ts';
import { fencedWith, updateHead } from '../turns/head.ts';
import { profileByHash } from '../turns/profiles.ts';
import { hasPendingSteers, steersWithin, takeSteers } from '../turns/steers.ts';
import { standingOf } from '../turns/tree-budgets.ts';
import { type HeldTurn, held, selectHeld } from '../turns/turns.ts';
import { insertClaims } from './claims.ts';
import { parseResultFields } from './result-fields.ts';
import { storeResult } from './results.ts';
import { actOnAnswers } from './waiting-set.ts';

export async function openStep(
  ctx: StoreContext,
  fence: Fence,
  stepIndex: number,
  profileHash: string,
  { hide = [], noticed = [], room }: StepBegin = {},
): Promise<StepOpening> {
  const now = ctx.now();
  return write(ctx, fence.agentId, async (trx) => {
    const { head, turn } = await fencedTurnAt(trx, fence, stepIndex, now);
    const recorded = await recordedOf(trx, turn);
    if (!recorded) refuseClosed(turn, stepIndex);
    const snapshot = await profileByHash(trx, profileHash, ctx.profiles);
    // A step that is stored (the workflow was reset) changes nothing: the turn may be suspended behind it.
    if (!recorded) await startRunning(trx, head, turn, snapshot.profile.timeouts, now);
    if (!recorded && turn.waited) await actOnAnswers(trx, fence.agentTurnId);
    if (hide.length > 0) await hideCards(trx, turn.output_box_id ?? '', hide, 'rolled_back');
    const request = JSON.parse(turn.request) as EnqueueRequest;
    const { fields: resultFields, warnings } = parseResultFields(request.resultFields, snapshot);
    if (turn.opened === null) await openRow(trx, fence, stepIndex, now, noticed);
    const steers = recorded || !turn.steered ? [] : await steersWithin(trx, fence.agentTurnId, room);
    const { criteria = [] } = request;
    return { recorded, snapshot, resultFields, criteria, steers, warnings: [...snapshot.warnings, ...warnings] };
  });
}

/** The first activity of a turn moves head and row dispatched→running (T12). */
async function startRunning(trx: Trx, head: HeadRow, turn: TurnRow, timeouts: Timeouts, now: number): Promise<void> {
  if (turn.status === 'dispatched') {
    const check = {
      check_at: Math.min(firstCheckAt(now, timeouts), turn.ends_by ?? Number.POSITIVE_INFINITY),
      check_every: FIRST_CHECK_MS,
      no_workers_since: null,
    };
    const change = { status: 'running', started_at: now, ...check } as const;
    await trx.updateTable('turns').set(change).where('agent_turn_id', '=', turn.agent_turn_id).execute();
  }
  if (head.status === 'running') return;
  await updateHead(trx, head.agent_id, { status: 'running' });
  appendState(trx, { ...head, status: 'running' }, now, { activity: 'thinking' });
}

/** The turn and its step: `opened` is null while there is none, `outcome` until it is committed, `closed` until it has ended. */
interface TurnAtStep extends HeldTurn {
  readonly opened: number | null;
  readonly outcome: string | null;
  readonly closed: number | null;
}

async function fencedTurnAt(
  trx: Trx,
  fence: Fence,
  stepIndex: number,
  now: number,
): Promise<{ head: HeadRow; turn: TurnAtStep }> {
  const { agentTurnId } = fence;
  const ofStep = <T>(column: 'step_index' | 'outcome' | 'ended_at') =>
    sql<T | null>`(select s.${sql.ref(column)} from agent_steps s
      where s.agent_turn_id = turns.agent_turn_id and s.step_index = ${stepIndex})`;
  // No join: SQLite would plan it anew for every turn.
  const query = selectHeld(trx, agentTurnId).select([
    ofStep<number>('step_index').as('opened'),
    ofStep<string>('outcome').as('outcome'),
    ofStep<number>('ended_at').as('closed'),
  ]);
  const [head, [row]] = await fencedWith(trx, fence, now, query);
  return { head, turn: held(trx, row, agentTurnId) };
}

const recordedOf = async (trx: Trx, turn: TurnAtStep): Promise<StepOutcomeRecord | null> =>
  turn.outcome === null
    ? null
    : { ...(JSON.parse(turn.outcome) as StepOutcomeRecord), ...(await standingOf(trx, turn)) };

async function openRow(
  trx: Trx,
  fence: Fence,
  stepIndex: number,
  now: number,
  noticed: readonly Notice[] = [],
): Promise<void> {
  const { agentId, agentTurnId } = fence;
  appendNotices(trx, agentId, agentTurnId, noticed, now);
  if (stepIndex > 1) await completeStep(trx, fence, stepIndex - 1, now);
  await trx
    .insertInto('agent_steps')
    .values({
      agent_turn_id: agentTurnId,
      step_index: stepIndex,
      status: 'started',
      model: null,
      llm_usage: null,
      llm_response_cost: null,
      latency_ms: null,
      first_token_ms: null,
      finish_reason: null,
      tool_call_ids: '[]',
      outcome: null,
      started_at: now,
      ended_at: null,
    })
    .execute();
  appendEvent(trx, agentId, agentTurnId, { type: 'step', payload: { stepIndex, phase: 'started' } }, now);
}

async function completeStep(trx: Trx, { agentId, agentTurnId }: Fence, stepIndex: number, now: number): Promise<void> {
  const done = await trx
    .updateTable('agent_steps')
    .set({ status: 'completed', ended_at: now })
    .where('agent_turn_id', '=', agentTurnId)
    .where('step_index', '=', stepIndex)
    .where('ended_at', 'is', null)
    .returning('step_index')
    .executeTakeFirst();
  if (!done) return;
  appendEvent(trx, agentId, agentTurnId, { type: 'step', payload: { stepIndex, phase: 'completed' } }, now);
}

/** The first writer wins: another attempt of the same step gets what was recorded (T5). */
export async function commitStep(ctx: StoreContext, fence: Fence, commit: StepCommit): Promise<StepOutcomeRecord> {
  const now = ctx.now();
  return write(ctx, fence.agentId, async (trx) => {
    const { head, turn } = await fencedTurnAt(trx, fence, commit.stepIndex, now);
    const recorded = await recordedOf(trx, turn);
    if (recorded) return recorded;
    refuseClosed(turn, commit.stepIndex);
    if (turn.opened === null) await openRow(trx, fence, commit.stepIndex, now);
    const boxId = turn.output_box_id ?? '';
    const steers = turn.steered ? await takeSteers(trx, turn, commit.stepIndex, commit.steerIds) : [];
    const note = noteOf(fence, commit);
    const thought = thoughtOf(fence, commit);
    // A result that comes with its call stands right behind it in the box.
    const settledAt = commit.calls.findIndex((call) => call.result !== undefined);
    const plain = settledAt < 0 ? commit.calls : commit.calls.slice(0, settledAt);
    const cards = [...(note ? [note] : []), thought, ...plain.map((call) => callCard(fence, commit, call))];
    const written = await writeNewCards(trx, boxId, cards, fence.agentId, now);
    const said = written[note ? 1 : 0];
    const calls: ProposedCall[] = plain.map((call) => recordCall(trx, fence, turn, commit, call, now));
    for (const call of commit.calls.slice(plain.length))
      calls.push(await writeCall(trx, fence, turn, commit, call, now));
    const outcome: StepOutcomeRecord = {
      stepIndex: commit.stepIndex,
      thoughtCardId: thought.cardId,
      thoughtSeq: said?.seq ?? 0,
      thoughtTokens: said?.tokens ?? 0,
      noteSeq: note ? (written[0]?.seq ?? null) : null,
      noteTokens: note ? (written[0]?.tokens ?? 0) : 0,
      steers,
      hasText: commit.thought.text.trim() !== '',
      ...(commit.finishReason === 'length' ? { truncated: true as const } : {}),
      refused: commit.thought.refusal !== undefined,
      calls,
      usage: commit.usage,
      cost: commit.cost,
      latencyMs: commit.latencyMs,
    };
    await recordStep(trx, fence, turn, commit, outcome, now);
    const claimed = commit.calls.filter((call) => call.claimed);
    const claims = claimed.map(({ content: { callId } }) => ({ callId, attempt: 1 }));
    await insertClaims(trx, fence.agentTurnId, claims, now);
    await announce(trx, head, fence, outcome, now);
    return { ...outcome, ...(await standingOf(trx, turn)) };
  });
}

/** Errors: `step_closed`, when the turn has gone on without this step (K13). */
function refuseClosed({ agent_turn_id: agentTurnId, closed }: TurnAtStep, stepIndex: number): void {
  if (closed === null) return;
  const message = `turn ${agentTurnId} has gone on without step ${stepIndex}: nothing was written`;
  throw new CodedError('step_closed', message);
}

export async function closeStep(
  ctx: StoreContext,
  fence: Fence,
  stepIndex: number,
  noticed: readonly Notice[] = [],
): Promise<StepOutcomeRecord | null> {
  const now = ctx.now();
  return write(ctx, fence.agentId, async (trx) => {
    const { turn } = await fencedTurnAt(trx, fence, stepIndex, now);
    const recorded = await recordedOf(trx, turn);
    if (recorded || turn.closed !== null) return recorded;
    // Of an attempt that has not begun yet there is no row to close, and it has told nothing.
    if (turn.opened === null) await openRow(trx, fence, stepIndex, now, noticed);
    await trx
      .updateTable('agent_steps')
      .set({ status: 'failed', ended_at: now })
      .where('agent_turn_id', '=', fence.agentTurnId)
      .where('step_index', '=', stepIndex)
      .execute();
    const payload = { stepIndex, phase: 'failed' } as const;
    appendEvent(trx, fence.agentId, fence.agentTurnId, { type: 'step', payload }, now);
    return null;
  });
}

function noteOf({ agentTurnId }: Fence, { stepIndex, note }: StepCommit): NewCard<CardType> | null {
  if (!note) return null;
  const cardId = stepCardId(agentTurnId, stepIndex, note.type);
  return { cardId, type: note.type, content: { text: note.text }, author: 'runtime', agentTurnId, stepIndex };
}

function thoughtOf({ agentTurnId, agentId }: Fence, { stepIndex, thought }: StepCommit): NewCard<CardType> {
  const cardId = stepCardId(agentTurnId, stepIndex, 'agent.thought');
  return { cardId, type: 'agent.thought', content: thought, author: agentId, agentTurnId, stepIndex };
}

type CommittedCall = StepCommit['calls'][number];

function callCard(
  { agentTurnId, agentId }: Fence,
  { stepIndex }: StepCommit,
  { index, content }: CommittedCall,
): NewCard<CardType> {
  const cardId = stepCardId(agentTurnId, stepIndex, 'tool.call', index);
  const { callId } = content;
  return { cardId, type: 'tool.call', content, author: agentId, agentTurnId, stepIndex, callId };
}

/** Its edge, and what the workflow is told of it. The card is written already. */
function recordCall(
  trx: Trx,
  { agentTurnId, agentId }: Fence,
  turn: TurnRow,
  { stepIndex }: StepCommit,
  { index, content, digest, skill, facts }: CommittedCall,
  now: number,
): ProposedCall {
  const { callId, tool } = content;
  const edge = { primitive: 'tool_call', phase: 'request', kind: tool } as const;
  const source = { source_agent_id: agentId, source_agent_turn_id: agentTurnId, source_step_index: stepIndex };
  const call = { call_id: callId, call_index: index, depth: turn.depth, trace_id: turn.trace_id };
  appendEdge(trx, callId, { ...edge, ...source, ...call }, now);
  return { callId, tool, digest, ...(skill ? { skill } : {}), ...(facts ? { facts } : {}) };
}

async function writeCall(
  trx: Trx,
  fence: Fence,
  turn: HeldTurn,
  commit: StepCommit,
  call: CommittedCall,
  now: number,
): Promise<ProposedCall> {
  const { agentTurnId, agentId } = fence;
  const { stepIndex, note } = commit;
  const { result } = call;
  const { callId, tool } = call.content;
  await writeNewCards(trx, turn.output_box_id ?? '', [callCard(fence, commit, call)], agentId, now);
  const record = recordCall(trx, fence, turn, commit, call, now);
  if (!result) return record;
  // A report is the last word of a turn that ends in any case; what came in is the next turn (K9, T22).
  const own = tool === SUBMIT_RESULT && result.status === 'success' && note?.type !== 'sys.final_report';
  const premature = own && (await hasPendingSteers(trx, agentTurnId));
  const { settled } = await storeResult(trx, turn, stepIndex, premature ? inboxNotEmpty(callId) : result, now);
  return { ...record, settled };
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

async function recordStep(
  trx: Trx,
  { agentTurnId }: Fence,
  turn: TurnRow,
  commit: StepCommit,
  outcome: StepOutcomeRecord,
  now: number,
): Promise<void> {
  await trx
    .updateTable('agent_steps')
    .set({
      status: commit.calls.length > 0 ? 'executing' : 'completed',
      model: commit.model,
      llm_usage: JSON.stringify(commit.usage),
      llm_response_cost: commit.cost,
      latency_ms: commit.latencyMs,
      first_token_ms: commit.firstTokenMs,
      finish_reason: commit.finishReason,
      tool_call_ids: JSON.stringify(outcome.calls.map((call) => call.callId)),
      outcome: JSON.stringify(outcome),
      ended_at: commit.calls.length > 0 ? null : now,
    })
    .where('agent_turn_id', '=', agentTurnId)
    .where('step_index', '=', commit.stepIndex)
    .execute();
  const cost = turn.cost === null || commit.cost === null ? null : turn.cost + commit.cost;
  const usage = JSON.stringify(addUsage(JSON.parse(turn.usage) as Usage, commit.usage));
  await trx
    .updateTable('turns')
    .set({ usage, cost, step_count: commit.stepIndex })
    .where('agent_turn_id', '=', agentTurnId)
    .execute();
}

async function announce(
  trx: Trx,
  head: HeadRow,
  { agentId, agentTurnId }: Fence,
  { stepIndex, thoughtCardId, calls }: StepOutcomeRecord,
  now: number,
): Promise<void> {
  const open = calls.filter((call) => !call.settled).map((call) => call.tool);
  const phase = calls.length > 0 ? 'executing' : 'completed';
  const payload = { stepIndex, phase, tools: calls.map((call) => call.tool), cardIds: [thoughtCardId] } as const;
  appendEvent(trx, agentId, agentTurnId, { type: 'step', payload }, now);
  const [currentTool] = open;
  if (currentTool !== undefined) appendState(trx, head, now, { activity: 'executing_tool', currentTool });
}
