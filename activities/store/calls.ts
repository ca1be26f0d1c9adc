/**
 * Dispatch claims and the waiting set.
 *
 * Invariants
 * 1. A claim is written before any effect; a lost attempt of an unsafe tool is never followed by a second one (W10).
 * 2. A call has at most one result; every answer to a report is decided here, with or without a live worker (T14).
 * 3. The head's `waiting_tool_count` and `resume_deadline` always equal what `turn_waiting` says (T13).
 */

import type { SettledCall } from '../../workflows/kernel/state.ts';
import { effectiveAfterExecution } from '../../workflows/protocol/after-execution.ts';
import type { CardContents, ToolResultContent } from '../../workflows/protocol/cards.ts';
import { CodedError } from '../../workflows/protocol/failures.ts';
import type { CallClaim, CallResult, ClaimOutcome, WaitingState } from '../../workflows/protocol/store.ts';
import type { ReportAck, ToolResultReport } from '../../workflows/protocol/tool-result.ts';
import { type Fence, isTerminal } from '../../workflows/protocol/turn.ts';
import { type StoreContext, type Trx, write } from './context.ts';
import { appendEvent, appendState } from './events.ts';
import { fenced, updateHead } from './head.ts';
import { profileByHash } from './profiles.ts';
import { findResult, storeResult } from './results.ts';
import type { HeadRow, TurnRow, WaitingRow } from './rows.ts';
import { lockTurn, turnOf } from './turns.ts';

interface StoredCall {
  readonly stepIndex: number;
  readonly content: CardContents['tool.call'];
}

async function findCall(trx: Trx, agentTurnId: string, callId: string): Promise<StoredCall | null> {
  const row = await trx
    .selectFrom('cards')
    .select(['content', 'step_index'])
    .where('agent_turn_id', '=', agentTurnId)
    .where('call_id', '=', callId)
    .where('type', '=', 'tool.call')
    .executeTakeFirst();
  return row ? { stepIndex: row.step_index ?? 0, content: JSON.parse(row.content) as CardContents['tool.call'] } : null;
}

async function callOf(trx: Trx, agentTurnId: string, callId: string): Promise<StoredCall> {
  const call = await findCall(trx, agentTurnId, callId);
  if (call) return call;
  throw new CodedError('protocol_violation', `turn ${agentTurnId} has no call ${callId}`);
}

const findWaiting = (trx: Trx, agentTurnId: string, callId: string): Promise<WaitingRow | undefined> =>
  trx
    .selectFrom('turn_waiting')
    .selectAll()
    .where('agent_turn_id', '=', agentTurnId)
    .where('call_id', '=', callId)
    .executeTakeFirst();

export async function claimCall(ctx: StoreContext, fence: Fence, claim: CallClaim): Promise<ClaimOutcome> {
  const now = ctx.now();
  return write(ctx, async (trx) => {
    await fenced(trx, fence, now);
    const turn = await turnOf(trx, fence.agentTurnId);
    const { callId, attempt } = claim;
    const call = await callOf(trx, fence.agentTurnId, callId);
    const settled = await findResult(trx, turn, callId);
    if (settled) return { kind: 'settled', settled };
    const waiting = await findWaiting(trx, fence.agentTurnId, callId);
    if (waiting?.status === 'waiting') return { kind: 'suspended', deadline: waiting.deadline };
    const earlier = await trx
      .selectFrom('dispatch_claims')
      .select('attempt')
      .where('agent_turn_id', '=', fence.agentTurnId)
      .where('call_id', '=', callId)
      .executeTakeFirst();
    if (earlier && !claim.repeatable) {
      const unknown = outcomeUnknown(call.content);
      return { kind: 'settled', settled: (await storeResult(trx, turn, call.stepIndex, unknown, now)).settled };
    }
    await trx
      .insertInto('dispatch_claims')
      .values({
        agent_turn_id: fence.agentTurnId,
        call_id: callId,
        attempt,
        started_at: now,
        outcome: null,
        duration_ms: null,
      })
      .onConflict((conflict) => conflict.doNothing())
      .execute();
    return { kind: 'go', call: call.content, suspendTimeoutMs: await suspendTimeout(trx, turn, call.content.tool) };
  });
}

async function suspendTimeout(trx: Trx, turn: TurnRow, tool: string): Promise<number | null> {
  const { profile, tools } = await profileByHash(trx, turn.profile_hash ?? '');
  return tools.find((spec) => spec.name === tool)?.suspendTimeoutMs ?? profile.suspendTimeoutMs ?? null;
}

const outcomeUnknown = ({ callId, tool }: CardContents['tool.call']): ToolResultContent => ({
  callId,
  tool,
  status: 'failed',
  afterExecution: 'continue',
  error: {
    code: 'outcome_unknown',
    message: `the worker was lost while ${tool} ran; it may or may not have taken effect. Check before calling it again.`,
    kind: 'recoverable',
    retryable: false,
  },
});

export async function settleCall(ctx: StoreContext, fence: Fence, result: CallResult): Promise<SettledCall> {
  const now = ctx.now();
  return write(ctx, async (trx) => {
    await fenced(trx, fence, now);
    const turn = await turnOf(trx, fence.agentTurnId);
    const { callId, attempt, content, durationMs } = result;
    const call = await callOf(trx, fence.agentTurnId, callId);
    const { settled } = await storeResult(trx, turn, call.stepIndex, content, now, durationMs);
    await trx
      .updateTable('dispatch_claims')
      .set({ outcome: content.status, duration_ms: durationMs })
      .where('agent_turn_id', '=', fence.agentTurnId)
      .where('call_id', '=', callId)
      .where('attempt', '=', attempt)
      .execute();
    return settled;
  });
}

/** Puts the call into the waiting set, unless its result came first. */
export async function suspendCall(
  ctx: StoreContext,
  fence: Fence,
  callId: string,
  deadline: number,
): Promise<ClaimOutcome> {
  const now = ctx.now();
  return write(ctx, async (trx) => {
    const head = await fenced(trx, fence, now);
    const turn = await turnOf(trx, fence.agentTurnId);
    const settled = await findResult(trx, turn, callId);
    if (settled) return { kind: 'settled', settled };
    const present = await findWaiting(trx, fence.agentTurnId, callId);
    if (present) return { kind: 'suspended', deadline: present.deadline };
    const { stepIndex, content } = await callOf(trx, fence.agentTurnId, callId);
    await trx
      .insertInto('turn_waiting')
      .values({
        agent_turn_id: fence.agentTurnId,
        call_id: callId,
        step_index: stepIndex,
        kind: 'tool',
        tool_name: content.tool,
        deadline,
        status: 'waiting',
        result_card_id: null,
        created_at: now,
      })
      .execute();
    const payload = { callId, tool: content.tool, phase: 'suspended', deadline } as const;
    await appendEvent(trx, fence.agentId, fence.agentTurnId, { type: 'call', payload }, now);
    await syncHead(trx, head, fence.agentTurnId, now);
    return { kind: 'suspended', deadline };
  });
}

/** Brings head and turn row in line with the waiting set. */
async function syncHead(trx: Trx, head: HeadRow, agentTurnId: string, now: number): Promise<void> {
  const waiting = await trx
    .selectFrom('turn_waiting')
    .select('deadline')
    .where('agent_turn_id', '=', agentTurnId)
    .where('status', '=', 'waiting')
    .execute();
  const status = waiting.length > 0 ? 'suspended' : 'running';
  const resumeDeadline = waiting.length > 0 ? Math.min(...waiting.map((row) => row.deadline)) : null;
  const change = {
    status,
    waiting_tool_count: waiting.length,
    resume_deadline: resumeDeadline,
    updated_at: now,
  } as const;
  await updateHead(trx, head.agent_id, change);
  await trx.updateTable('turns').set({ status }).where('agent_turn_id', '=', agentTurnId).execute();
  const activity = waiting.length > 0 ? ({ activity: 'awaiting_tool_result' } as const) : undefined;
  await appendState(trx, { ...head, ...change }, now, activity);
}

/** A result from outside. The answer is final and immediate; see the rules at T14 for what each means. */
export async function reportResult(
  ctx: StoreContext,
  agentTurnId: string,
  report: ToolResultReport,
): Promise<ReportAck> {
  const now = ctx.now();
  return write(ctx, async (trx) => {
    const found = await lockTurn(trx, agentTurnId, now);
    if (!found) return { ack: 'unknown' };
    const { head, turn } = found;
    const ack = await decide(trx, head, turn, report, now);
    if (ack.ack !== 'applied' && ack.ack !== 'buffered') await dropped(trx, turn, report, ack.ack, now);
    return { ...ack, agentId: turn.agent_id };
  });
}

async function decide(
  trx: Trx,
  head: HeadRow,
  turn: TurnRow,
  report: ToolResultReport,
  now: number,
): Promise<ReportAck> {
  const { callId, turnEpoch } = report;
  const agentTurnId = turn.agent_turn_id;
  if (turnEpoch !== undefined && turnEpoch !== turn.turn_epoch) return { ack: 'stale' };
  const call = await findCall(trx, agentTurnId, callId);
  if (!call) return { ack: isTerminal(turn.status) ? 'stale' : 'unknown' };
  const waiting = await findWaiting(trx, agentTurnId, callId);
  const closed = isTerminal(turn.status) || head.active_agent_turn_id !== agentTurnId;
  // What the end of the turn dropped is stale; what had its answer before is a duplicate, also later.
  if (closed && (!waiting || waiting.status === 'dropped')) return { ack: 'stale' };
  if (await findResult(trx, turn, callId)) return { ack: 'duplicate' };
  if (report.status === 'running') return heartbeat(trx, head, waiting, now);
  const { cardId } = await storeResult(trx, turn, call.stepIndex, contentOf(call.content, report), now);
  if (!waiting) return { ack: 'buffered', cardId };
  await trx
    .updateTable('turn_waiting')
    .set({ status: 'received', result_card_id: cardId })
    .where('agent_turn_id', '=', agentTurnId)
    .where('call_id', '=', callId)
    .execute();
  await syncHead(trx, head, agentTurnId, now);
  return { ack: 'applied', cardId };
}

/** `status: running` moves that call's deadline by its original length and nothing else (T16). */
async function heartbeat(trx: Trx, head: HeadRow, waiting: WaitingRow | undefined, now: number): Promise<ReportAck> {
  if (waiting?.status !== 'waiting') return { ack: 'buffered' };
  await trx
    .updateTable('turn_waiting')
    .set({ deadline: now + (waiting.deadline - waiting.created_at), created_at: now })
    .where('agent_turn_id', '=', waiting.agent_turn_id)
    .where('call_id', '=', waiting.call_id)
    .execute();
  await syncHead(trx, head, waiting.agent_turn_id, now);
  return { ack: 'applied' };
}

async function dropped(trx: Trx, turn: TurnRow, report: ToolResultReport, reason: string, now: number): Promise<void> {
  const payload = { callId: report.callId, tool: '', phase: 'dropped', status: report.status, reason } as const;
  await appendEvent(trx, turn.agent_id, turn.agent_turn_id, { type: 'call', payload }, now);
}

function contentOf({ callId, tool }: CardContents['tool.call'], report: ToolResultReport): ToolResultContent {
  // A result that is there cannot suspend its call again.
  const effective = effectiveAfterExecution(report.result, report.afterExecution, 'continue');
  const afterExecution = effective === 'terminate' ? 'terminate' : 'continue';
  const base = { callId, tool, afterExecution } as const;
  const { status, result } = report;
  if (status === 'running') throw new CodedError('protocol_violation', 'a heartbeat has no card');
  const body = result === undefined ? {} : { result };
  if (status === 'success') return { ...base, status, result: result ?? null };
  const error = report.error ?? {
    code: status === 'timeout' ? 'tool_timeout' : 'tool_failed',
    message: `${tool} reported ${status}`,
  };
  return { ...base, status, ...body, error: error as NonNullable<ToolResultContent['error']> };
}

export async function resolveWaiting(
  ctx: StoreContext,
  fence: Fence,
  callIds: readonly string[],
  nowMs: number,
): Promise<WaitingState> {
  const now = ctx.now();
  return write(ctx, async (trx) => {
    const head = await fenced(trx, fence, now);
    const turn = await turnOf(trx, fence.agentTurnId);
    const settled: SettledCall[] = [];
    const waiting: { callId: string; tool: string; deadline: number }[] = [];
    let expired = false;
    for (const callId of callIds) {
      const row = await findWaiting(trx, fence.agentTurnId, callId);
      if (row?.status === 'waiting' && row.deadline > nowMs) {
        waiting.push({ callId, tool: row.tool_name, deadline: row.deadline });
        continue;
      }
      if (row?.status === 'waiting') expired = true;
      settled.push(await settleRow(trx, turn, callId, row, now));
    }
    if (expired) await syncHead(trx, head, fence.agentTurnId, now);
    return { settled, waiting };
  });
}

/** A received row is applied; an overdue one gets its timeout result, once (T17). */
async function settleRow(
  trx: Trx,
  turn: TurnRow,
  callId: string,
  row: WaitingRow | undefined,
  now: number,
): Promise<SettledCall> {
  const present = await findResult(trx, turn, callId);
  const { stepIndex, content } = await callOf(trx, turn.agent_turn_id, callId);
  const settled = present ?? (await storeResult(trx, turn, stepIndex, timedOut(content), now)).settled;
  if (row) {
    await trx
      .updateTable('turn_waiting')
      .set({ status: present ? 'applied' : 'expired' })
      .where('agent_turn_id', '=', turn.agent_turn_id)
      .where('call_id', '=', callId)
      .execute();
  }
  return settled;
}

const timedOut = ({ callId, tool }: CardContents['tool.call']): ToolResultContent => ({
  callId,
  tool,
  status: 'timeout',
  afterExecution: 'continue',
  error: {
    code: 'tool_timeout',
    message: `${tool} got no answer before its deadline`,
    kind: 'timeout',
    retryable: true,
  },
});
