import type { NewCall, StepClose, StepCommit, StepOutcomeRecord } from '../../../workflows/contract/steps.ts';
import type { ProposedCall } from '../../../workflows/kernel/calls.ts';
import { SUBMIT_RESULT } from '../../../workflows/protocol/builtins.ts';
import type { CardType, ToolResultContent } from '../../../workflows/protocol/cards.ts';
import { addUsage, type Fence } from '../../../workflows/protocol/turn.ts';
import { stepCardId } from '../../ids.ts';
import { keepEffect } from '../agents/effects.ts';
import { type NewCard, writeNewCards } from '../cards/cards.ts';
import { tellAnswer } from '../chat/steps.ts';
import { type StoreContext, type Tx, write } from '../context.ts';
import { appendEdge, appendEvent, appendState } from '../log/events.ts';
import { updateRows } from '../prepared.ts';
import { decoded, encoded } from '../schema/json.ts';
import type { RecordedStep } from '../schema/rows.ts';
import type { TurnRow } from '../schema/turn-row.ts';
import type { WithLease } from '../schema/turn-states.ts';
import { hasPendingSteers, takeSteers } from '../turns/steers.ts';
import { deliver } from '../turns/tree-budgets.ts';
import type { Extras, Locked } from '../turns/turns.ts';
import { insertClaims } from './claims.ts';
import { fencedTurnAt, openRow, recordedOf, refuseClosed, type TurnAtStep } from './openings.ts';
import { storeResult } from './results.ts';

/** Commits what a model call has brought, unless another attempt of the step was faster. */
export const commitStep = (ctx: StoreContext, fence: Fence, commit: StepCommit): Promise<StepOutcomeRecord> =>
  write(ctx, fence.agentId, async (tx) => {
    const locked = await fencedTurnAt(tx, fence, commit.stepIndex);
    const { record, spent } = await writeStep(tx, locked, commit);
    if (spent) await updateRows(tx.db, 'turns', { agent_turn_id: fence.agentTurnId }, spent);
    return record;
  });

/** A step that is written but for what it changes of the row of its turn, which is null where an attempt before has written the step. */
export interface WrittenStep {
  readonly record: StepOutcomeRecord;
  readonly spent: Pick<TurnRow, 'usage' | 'cost' | 'step_count'> | null;
}

/** Writes what a model call has brought, unless another attempt was faster. Errors: `step_closed` (K13). */
export async function writeStep(tx: Tx, locked: Locked<TurnAtStep>, commit: StepCommit): Promise<WrittenStep> {
  const { turn } = locked;
  const recorded = await recordedOf(tx, turn, commit);
  if (recorded) return { record: recorded, spent: null };
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
    ...(commit.truncated ? { truncated: commit.truncated } : {}),
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
  return { record: { ...outcome, ...delivered }, spent: spentWith(turn, commit) };
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
      .set({ status: 'failed', ended_at: tx.at })
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

/** What the turn has spent with this step. */
const spentWith = (turn: TurnRow, { stepIndex, usage, cost }: StepCommit): NonNullable<WrittenStep['spent']> => ({
  usage: encoded(addUsage(decoded(turn.usage), usage)),
  cost: turn.cost === null || cost === null ? null : turn.cost + cost,
  step_count: stepIndex,
});

/** Writes the row of the step. */
async function recordStep(tx: Tx, turn: TurnRow, commit: StepCommit, outcome: RecordedStep): Promise<void> {
  const { agent_turn_id: agentTurnId } = turn;
  const step = { agent_turn_id: agentTurnId, step_index: commit.stepIndex };
  await updateRows(tx.db, 'agent_steps', step, {
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
    ended_at: commit.calls.length > 0 ? null : tx.at,
  });
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
