/**
 * Results from outside, and where the waiting calls of a turn stand. What each means is decided in workflows/waiting; here are the
 * facts it needs and what follows from it.
 *
 * Invariant: a call has at most one result; every answer to a report is given here, with or without a live worker (T14).
 */

import type { RecordedAnswer } from '../../../workflows/contract/approvals.ts';
import type { WaitingState } from '../../../workflows/contract/calls.ts';
import type { SettledCall } from '../../../workflows/kernel/state.ts';
import type { CardContents, ToolResultContent } from '../../../workflows/protocol/cards.ts';
import type { JsonValue } from '../../../workflows/protocol/json.ts';
import type { ReportAck, ToolResultReport } from '../../../workflows/protocol/tool-result.ts';
import { type Fence, isTerminal } from '../../../workflows/protocol/turn.ts';
import { effectiveAfterExecution } from '../../../workflows/waiting/after-execution.ts';
import {
  DEFERRAL_TRIES,
  deferredAgain,
  onReport,
  onResolve,
  type ReportDecision,
  type WaitingFacts,
} from '../../../workflows/waiting/decisions.ts';
import { type ProfileCache, type StoreContext, type Trx, write } from '../context.ts';
import { appendEvent } from '../log/events.ts';
import type { ApprovalRow, HeadRow, TurnRow, WaitingRow } from '../schema/rows.ts';
import { fenced } from '../turns/head.ts';
import { profileByHash } from '../turns/profiles.ts';
import { standingOf } from '../turns/tree-budgets.ts';
import { turnOf, writeToTurn } from '../turns/turns.ts';
import { findApproval, resolveApproval } from './approvals.ts';
import {
  callOf,
  defaultAfterExecution,
  findCall,
  findWaiting,
  markWaiting,
  rescheduleCheck,
  syncHead,
} from './calls.ts';
import { type FinalReport, findDeferral, forgetDeferral, isFinal, keepDeferral } from './deferrals.ts';
import { findResult, storeResult } from './results.ts';

/** The answer is final and immediate; see the rules at T14 for what each means. */
export async function reportResult(
  ctx: StoreContext,
  agentTurnId: string,
  report: ToolResultReport,
): Promise<Reported> {
  const now = ctx.now();
  const reported = await writeToTurn(ctx, agentTurnId, now, async (trx, { head, turn }) => ({
    ...(await reportTo(trx, head, turn, report, ctx.profiles, now)),
    agentId: turn.agent_id,
  }));
  return reported ?? { ack: 'unknown', wake: false };
}

/**
 * The answer, and whether the turn is to be woken. Only what is new wakes it: a report that is repeated, however often, adds nothing to its
 * history, and a wake-up that was lost is made good by the supervisor (T10).
 */
export type Reported = ReportAck & { readonly wake: boolean };

/** The caller holds the head row of the turn's agent. */
export async function reportTo(
  trx: Trx,
  head: HeadRow,
  turn: TurnRow,
  report: ToolResultReport,
  profiles: ProfileCache,
  now: number,
): Promise<Reported> {
  const agentTurnId = turn.agent_turn_id;
  const closed = isTerminal(turn.status) || head.active_agent_turn_id !== agentTurnId;
  const call = await findCall(trx, agentTurnId, report.callId);
  const waiting = await findWaiting(trx, agentTurnId, report.callId);
  // Nothing has been started that could have a result: only an approver can answer this call.
  if (waiting?.kind === 'approval' && waiting.status !== 'dropped') return { ack: 'unknown', wake: false };
  const facts = call && (await factsOf(trx, turn, report.callId, waiting, closed));
  const body = await bodyOf(trx, report);
  const decision = onReport({ turnEpoch: turn.turn_epoch, closed }, facts, report, body !== null, now);
  if (call && body && decision.effect === 'settle' && isFinal(report)) {
    const otherwise = await defaultAfterExecution(trx, turn, call.content.tool, profiles);
    const content = resultContent(call.content, otherwise, report, body);
    const { cardId } = await storeResult(trx, turn, call.stepIndex, content, now);
    await forgetDeferral(trx, agentTurnId, report.callId);
    if (waiting) await markWaiting(trx, waiting, { status: 'received', result_card_id: cardId });
    if (waiting) await syncHead(trx, head, agentTurnId, now);
    return { ack: decision.ack, cardId, wake: waiting !== undefined };
  }
  await carryOut(trx, head, turn, waiting, report, decision, now);
  return { ack: decision.ack, wake: decision.effect === 'defer' };
}

async function carryOut(
  trx: Trx,
  head: HeadRow,
  turn: TurnRow,
  waiting: WaitingRow | undefined,
  report: ToolResultReport,
  decision: ReportDecision,
  now: number,
): Promise<void> {
  const { callId, status } = report;
  const noted = { callId, tool: '', status, reason: decision.ack } as const;
  switch (decision.effect) {
    case 'drop':
      return appendEvent(
        trx,
        turn.agent_id,
        turn.agent_turn_id,
        { type: 'call', payload: { ...noted, phase: 'dropped' } },
        now,
      );
    case 'extend':
      if (waiting) await markWaiting(trx, waiting, { deadline: decision.deadline, created_at: now });
      return syncHead(trx, head, turn.agent_turn_id, now, false);
    case 'defer': {
      const { reason } = decision.deferral;
      if (isFinal(report)) await keepDeferral(trx, turn.agent_turn_id, report, decision.deferral, now);
      await rescheduleCheck(trx, turn.agent_turn_id, head.resume_deadline, now, true);
      const payload = { ...noted, reason, phase: 'deferred' } as const;
      return appendEvent(trx, turn.agent_id, turn.agent_turn_id, { type: 'call', payload }, now);
    }
    default:
  }
}

/** A call that never waited and whose turn is over counts as dropped, whatever result its tool or the turn's end gave it. */
async function factsOf(
  trx: Trx,
  turn: TurnRow,
  callId: string,
  waiting: WaitingRow | undefined,
  closed: boolean,
): Promise<WaitingFacts> {
  const deferred = await findDeferral(trx, turn.agent_turn_id, callId);
  const deferral = deferred?.deferral ?? null;
  if (!waiting) {
    const settled = closed ? null : await findResult(trx, turn, callId);
    return { phase: closed ? 'dropped' : settled ? 'settled' : 'open', deadline: 0, windowMs: 0, deferral };
  }
  const { deadline, created_at: since } = waiting;
  return { phase: phaseOf(waiting), deadline, windowMs: deadline - since, deferral };
}

type EndOfCall = 'continue' | 'terminate';

interface Body {
  readonly result?: JsonValue;
  /** Why the card cannot be a result. */
  readonly problem?: string;
}

/** What the report says, or the card it names; null while that card is not in the store (T18). */
async function bodyOf(trx: Trx, report: ToolResultReport): Promise<Body | null> {
  const { toolResultCardId: cardId, result } = report;
  if (cardId === undefined) return result === undefined ? {} : { result };
  const card = await trx
    .selectFrom('cards')
    .select(['type', 'content'])
    .where('card_id', '=', cardId)
    .executeTakeFirst();
  if (!card) return null;
  if (card.type !== 'tool.output') return { problem: `card ${cardId} is a ${card.type}, not the output of a tool` };
  return { result: (JSON.parse(card.content) as CardContents['tool.output']).value };
}

function resultContent(
  { callId, tool }: CardContents['tool.call'],
  otherwise: EndOfCall,
  report: FinalReport,
  { result, problem }: Body,
): ToolResultContent {
  if (problem !== undefined) return failure(callId, tool, otherwise, 'invalid_result', problem);
  // A result that is there cannot suspend its call again.
  const effective = effectiveAfterExecution(result, report.afterExecution, otherwise);
  const afterExecution = effective === 'terminate' ? 'terminate' : 'continue';
  const base = { callId, tool, afterExecution } as const;
  const { status } = report;
  if (status === 'success') return { ...base, status, result: result ?? null };
  const error = report.error ?? {
    code: status === 'timeout' ? 'tool_timeout' : 'tool_failed',
    message: `${tool} reported ${status}`,
  };
  const body = result === undefined ? {} : { result };
  return { ...base, status, ...body, error: error as NonNullable<ToolResultContent['error']> };
}

const failure = (
  callId: string,
  tool: string,
  afterExecution: EndOfCall,
  code: 'invalid_result' | 'card_not_found',
  message: string,
): ToolResultContent => ({
  callId,
  tool,
  status: 'failed',
  afterExecution,
  error: { code, message, kind: 'recoverable' },
});

/** A received row is applied, a pending report tried again, an overdue row gets its timeout result, once (T17, T18). */
export async function resolveWaiting(
  ctx: StoreContext,
  fence: Fence,
  callIds: readonly string[],
): Promise<WaitingState<RecordedAnswer>> {
  const now = ctx.now();
  return write(ctx, fence.agentId, async (trx) => {
    const head = await fenced(trx, fence, now);
    const turn = await turnOf(trx, fence.agentTurnId);
    const settled: SettledCall[] = [];
    const waiting: WaitingState['waiting'][number][] = [];
    const answers: RecordedAnswer[] = [];
    let escalated = false;
    for (const callId of callIds) {
      const row = await findWaiting(trx, fence.agentTurnId, callId);
      const question = row && row.kind !== 'approval' ? undefined : await openQuestion(trx, turn, callId);
      if (question) {
        const { profile } = await profileByHash(trx, turn.profile_hash ?? '', ctx.profiles);
        const resolution = await resolveApproval(trx, turn, question, profile, now);
        escalated ||= 'waitUntil' in resolution && resolution.waitUntil !== question.deadline;
        if ('answer' in resolution) answers.push(resolution.answer);
        else
          waiting.push({
            callId,
            tool: question.tool_name,
            deadline: resolution.waitUntil,
            leftMs: resolution.waitUntil - now,
          });
        continue;
      }
      const progress = row ? await progressOf(trx, turn, row, ctx.profiles, now) : null;
      if (row && progress?.wakeAt) {
        const early = progress.wakeAt < row.deadline ? { wakeInMs: progress.wakeAt - now } : {};
        waiting.push({ callId, tool: row.tool_name, deadline: row.deadline, leftMs: row.deadline - now, ...early });
      } else settled.push(await applied(trx, turn, callId, row, progress?.result ?? null, ctx.profiles, now));
    }
    if (settled.length > 0 || answers.length > 0 || escalated) await syncHead(trx, head, fence.agentTurnId, now);
    const standing = await standingOf(trx, turn);
    return { settled, waiting, ...(answers.length > 0 ? { answers } : {}), ...standing };
  });
}

/** Unless its call has its result by now: then the answer has been carried out. */
async function openQuestion(trx: Trx, turn: TurnRow, callId: string): Promise<ApprovalRow | undefined> {
  const question = await findApproval(trx, turn.agent_turn_id, callId);
  if (!question || question.status === 'waiting') return question;
  return (await findResult(trx, turn, callId)) ? undefined : question;
}

type Progress =
  | { readonly wakeAt: number; readonly result?: undefined }
  | { readonly result: ToolResultContent; readonly wakeAt?: undefined };

/** What the clock makes of a row; null when its result is there already. */
async function progressOf(
  trx: Trx,
  turn: TurnRow,
  row: WaitingRow,
  profiles: ProfileCache,
  nowMs: number,
): Promise<Progress | null> {
  const deferred = await findDeferral(trx, row.agent_turn_id, row.call_id);
  const facts = { phase: phaseOf(row), deadline: row.deadline, windowMs: 0, deferral: deferred?.deferral ?? null };
  const resolution = onResolve(facts, nowMs);
  if (resolution === 'settled') return null;
  if (resolution !== 'time_out' && resolution !== 'retry') return resolution;
  const { content } = await callOf(trx, turn.agent_turn_id, row.call_id);
  const otherwise = await defaultAfterExecution(trx, turn, content.tool, profiles);
  if (resolution === 'time_out' || !deferred) return { result: timedOut(content, otherwise) };
  const { report, deferral } = deferred;
  const body = await bodyOf(trx, report);
  if (body) return { result: resultContent(content, otherwise, report, body) };
  const again = deferredAgain(deferral, row.deadline, nowMs);
  if (again) {
    await keepDeferral(trx, row.agent_turn_id, report, again, nowMs);
    return { wakeAt: Math.min(row.deadline, again.nextRetryAt) };
  }
  const message = `card ${report.toolResultCardId} was reported as the result of ${content.tool} and is not in the store after ${DEFERRAL_TRIES} tries`;
  return { result: failure(content.callId, content.tool, otherwise, 'card_not_found', message) };
}

async function applied(
  trx: Trx,
  turn: TurnRow,
  callId: string,
  row: WaitingRow | undefined,
  ended: ToolResultContent | null,
  profiles: ProfileCache,
  now: number,
): Promise<SettledCall> {
  const { stepIndex, content } = await callOf(trx, turn.agent_turn_id, callId);
  const missing = async () => timedOut(content, await defaultAfterExecution(trx, turn, content.tool, profiles));
  const settled =
    (await findResult(trx, turn, callId)) ??
    (await storeResult(trx, turn, stepIndex, ended ?? (await missing()), now)).settled;
  await forgetDeferral(trx, turn.agent_turn_id, callId);
  if (row) await markWaiting(trx, row, { status: settled.status === 'timeout' && ended ? 'expired' : 'applied' });
  return settled;
}

const phaseOf = ({ status }: WaitingRow): WaitingFacts['phase'] =>
  status === 'waiting' || status === 'dropped' ? status : 'settled';

const timedOut = ({ callId, tool }: CardContents['tool.call'], afterExecution: EndOfCall): ToolResultContent => ({
  callId,
  tool,
  status: 'timeout',
  afterExecution,
  error: {
    code: 'tool_timeout',
    message: `${tool} got no answer before its deadline`,
    kind: 'timeout',
    retryable: true,
  },
});
