/**
 * Calls of a turn: claims, results of our own tools, entry into the waiting set.
 *
 * Invariants
 * 1. A claim is written before any effect, with the call itself where nothing can forbid its start; a lost attempt of an unsafe tool is
 *    never followed by a second one (W10).
 * 2. The head's `waiting_tool_count` and `resume_deadline` always equal what `turn_waiting` says (T13).
 */

import type { CallClaim, CallResult, ClaimOutcome } from '../../../workflows/contract/calls.ts';
import type { RefusedCall } from '../../../workflows/kernel/actions.ts';
import type { SettledCall } from '../../../workflows/kernel/state.ts';
import type { CardContents, ToolResultContent } from '../../../workflows/protocol/cards.ts';
import type { EnqueueRequest } from '../../../workflows/protocol/enqueue.ts';
import { CodedError } from '../../../workflows/protocol/failures.ts';
import type { Profile, ToolSpec } from '../../../workflows/protocol/profile.ts';
import type { Fence } from '../../../workflows/protocol/turn.ts';
import { FIRST_CHECK_MS, suspendedCheckAt } from '../../../workflows/supervision/check.ts';
import { type ProfileCache, read, type StoreContext, type Trx, together, write } from '../context.ts';
import { appendEvent, appendState } from '../log/events.ts';
import type { HeadRow, TurnRow, WaitingRow } from '../schema/rows.ts';
import { fenced, fencedWith, selectLease, staleEpoch, updateHead } from '../turns/head.ts';
import { profileByHash } from '../turns/profiles.ts';
import { asHeld, type HeldTurn, held, selectHeld, turnOf } from '../turns/turns.ts';
import { actOnAnswers, editedArguments } from './approvals.ts';
import { insertClaims, isClaimed, selectClaims } from './claims.ts';
import { callAndResultOf, findResult, noCall, selectCallAndResult, storeResult } from './results.ts';

export interface StoredCall {
  readonly stepIndex: number;
  readonly content: CardContents['tool.call'];
}

export async function findCall(trx: Trx, agentTurnId: string, callId: string): Promise<StoredCall | null> {
  const row = await trx
    .selectFrom('cards')
    .select(['content', 'step_index'])
    .where('agent_turn_id', '=', agentTurnId)
    .where('call_id', '=', callId)
    .where('type', '=', 'tool.call')
    .executeTakeFirst();
  return row ? { stepIndex: row.step_index ?? 0, content: JSON.parse(row.content) as CardContents['tool.call'] } : null;
}

export const readCall = (
  ctx: StoreContext,
  { agentTurnId }: Fence,
  callId: string,
): Promise<CardContents['tool.call'] | null> =>
  read(ctx, async (db) => (await findCall(db as Trx, agentTurnId, callId))?.content ?? null);

export async function callOf(trx: Trx, agentTurnId: string, callId: string): Promise<StoredCall> {
  const call = await findCall(trx, agentTurnId, callId);
  if (call) return call;
  throw noCall(agentTurnId, callId);
}

export const findWaiting = (trx: Trx, agentTurnId: string, callId: string): Promise<WaitingRow | undefined> =>
  trx
    .selectFrom('turn_waiting')
    .selectAll()
    .where('agent_turn_id', '=', agentTurnId)
    .where('call_id', '=', callId)
    .executeTakeFirst();

/** Changes the row of one call in the waiting set. */
export async function markWaiting(
  trx: Trx,
  { agent_turn_id, call_id }: Pick<WaitingRow, 'agent_turn_id' | 'call_id'>,
  change: Partial<WaitingRow>,
): Promise<void> {
  await trx
    .updateTable('turn_waiting')
    .set(change)
    .where('agent_turn_id', '=', agent_turn_id)
    .where('call_id', '=', call_id)
    .execute();
}

export async function claimCall(ctx: StoreContext, fence: Fence, claim: CallClaim): Promise<ClaimOutcome> {
  const now = ctx.now();
  const claimed = claim.repeatable && claim.attempt === 1 ? await claimedWithItsStep(ctx, fence, claim.callId) : null;
  if (claimed) return claimed;
  return write(ctx, fence.agentId, async (trx) => {
    const { callId } = claim;
    const { turn, settled, call } = await fencedCall(trx, fence, callId, now);
    if (settled) return { kind: 'settled', settled };
    if (turn.waited) await actOnAnswers(trx, fence.agentTurnId, callId);
    const waiting = turn.waited ? await findWaiting(trx, fence.agentTurnId, callId) : undefined;
    if (waiting?.status === 'waiting') return suspendedUntil(waiting.deadline, now);
    if (!claim.repeatable && (await isClaimed(trx, fence, callId))) {
      const unknown = outcomeUnknown(call.content);
      return { kind: 'settled', settled: (await storeResult(trx, turn, call.stepIndex, unknown, now)).settled };
    }
    const edited = turn.waited ? await editedArguments(trx, fence.agentTurnId, callId) : null;
    await insertClaims(trx, fence.agentTurnId, [claim], now);
    const content = edited === null ? call.content : { ...call.content, arguments: edited };
    return start(ctx, trx, turn, content, edited !== null);
  });
}

/** Locks the head if the lease holds; reads its turn, and the call with its result when it has one. */
async function fencedCall(
  trx: Trx,
  fence: Fence,
  callId: string,
  now: number,
): Promise<{ turn: HeldTurn; call: StoredCall; settled: SettledCall | null }> {
  const { agentTurnId } = fence;
  const [, [row], rows] = await fencedWith(
    trx,
    fence,
    now,
    selectHeld(trx, agentTurnId),
    selectCallAndResult(trx, agentTurnId, callId),
  );
  const { settled, ...call } = callAndResultOf(rows, agentTurnId, callId);
  return { turn: held(trx, row, agentTurnId), call, settled };
}

/** Null when it was not, or when what the turn waits for must be looked at first. Writes nothing. */
const claimedWithItsStep = (ctx: StoreContext, fence: Fence, callId: string): Promise<ClaimOutcome | null> =>
  read(ctx, async (db) => {
    const { agentTurnId } = fence;
    const [[row], rows, claims, [lease]] = await together(
      db,
      selectHeld(db, agentTurnId),
      selectCallAndResult(db, agentTurnId, callId),
      selectClaims(db, agentTurnId, callId),
      // Last, right before the effect: none may start under a lease that is over.
      selectLease(db, fence),
    );
    const turn = asHeld(row, agentTurnId);
    if (turn.waited) return null;
    const { settled, content } = callAndResultOf(rows, agentTurnId, callId);
    if (!settled && claims.length === 0) return null;
    if (!lease) throw staleEpoch(fence);
    return settled ? { kind: 'settled', settled } : start(ctx, db as Trx, turn, content, false);
  });

async function start(
  ctx: StoreContext,
  trx: Trx,
  turn: TurnRow,
  call: StoredCall['content'],
  edited: boolean,
): Promise<ClaimOutcome> {
  const suspendTimeoutMs = await suspendTimeout(trx, turn, call.tool, ctx.profiles);
  const { traceparent = null } = JSON.parse(turn.request) as EnqueueRequest;
  return { kind: 'go', call, edited, suspendTimeoutMs, traceparent };
}

async function suspendTimeout(trx: Trx, turn: TurnRow, tool: string, profiles: ProfileCache): Promise<number | null> {
  const { profile, spec } = await specOf(trx, turn, tool, profiles);
  return spec?.suspendTimeoutMs ?? profile.suspendTimeoutMs ?? null;
}

async function specOf(
  trx: Trx,
  turn: TurnRow,
  tool: string,
  profiles: ProfileCache,
): Promise<{ profile: Profile; spec: ToolSpec | undefined }> {
  const { profile, tools } = await profileByHash(trx, turn.profile_hash ?? '', profiles);
  return { profile, spec: tools.find((known) => known.name === tool) };
}

/** What becomes of the turn when a result from outside, or its absence, says nothing about it: the tool's default (T17, T19). */
export async function defaultAfterExecution(
  trx: Trx,
  turn: TurnRow,
  tool: string,
  profiles: ProfileCache,
): Promise<'continue' | 'terminate'> {
  const { spec } = await specOf(trx, turn, tool, profiles);
  // A result that is there cannot suspend its call again.
  return spec?.afterExecution === 'terminate' ? 'terminate' : 'continue';
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
  return write(ctx, fence.agentId, async (trx) => {
    const { callId, attempt, content, durationMs } = result;
    const { turn, call, settled: known } = await fencedCall(trx, fence, callId, now);
    const { settled } = await storeResult(trx, turn, call.stepIndex, content, now, durationMs, known);
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

/** A call that was refused has a result like any other, so that the model reads why (K6). */
export async function refuseCalls(
  ctx: StoreContext,
  fence: Fence,
  refusals: readonly RefusedCall[],
): Promise<readonly SettledCall[]> {
  const now = ctx.now();
  return write(ctx, fence.agentId, async (trx) => {
    await fenced(trx, fence, now);
    const turn = await turnOf(trx, fence.agentTurnId);
    const settled: SettledCall[] = [];
    for (const { callId, tool, code, message } of refusals) {
      await actOnAnswers(trx, fence.agentTurnId, callId);
      const { stepIndex } = await callOf(trx, fence.agentTurnId, callId);
      const error = { code, message, kind: 'recoverable' } as const;
      const content = { callId, tool, status: 'failed', afterExecution: 'continue', error } as const;
      settled.push((await storeResult(trx, turn, stepIndex, content, now)).settled);
    }
    return settled;
  });
}

/** Puts the call into the waiting set, unless its result came first. */
export async function suspendCall(
  ctx: StoreContext,
  fence: Fence,
  callId: string,
  waitMs: number,
): Promise<ClaimOutcome> {
  const now = ctx.now();
  const deadline = now + waitMs;
  return write(ctx, fence.agentId, async (trx) => {
    const head = await fenced(trx, fence, now);
    const turn = await turnOf(trx, fence.agentTurnId);
    const settled = await findResult(trx, turn, callId);
    if (settled) return { kind: 'settled', settled };
    const present = await findWaiting(trx, fence.agentTurnId, callId);
    if (present) return suspendedUntil(present.deadline, now);
    await startWaiting(trx, head, await callOf(trx, fence.agentTurnId, callId), 'tool', deadline, now);
    return suspendedUntil(deadline, now);
  });
}

export const suspendedUntil = (deadline: number, now: number) =>
  ({ kind: 'suspended', deadline, leftMs: deadline - now }) as const;

/** The caller has seen that the call neither waits nor has a result. */
export async function startWaiting(
  trx: Trx,
  head: HeadRow,
  { stepIndex, content }: StoredCall,
  kind: WaitingRow['kind'],
  deadline: number,
  now: number,
): Promise<void> {
  const { agent_id: agentId, active_agent_turn_id: agentTurnId } = head;
  if (agentTurnId === null) throw new CodedError('protocol_violation', `agent ${agentId} has no open turn`);
  const { callId, tool } = content;
  await trx
    .insertInto('turn_waiting')
    .values({
      agent_turn_id: agentTurnId,
      call_id: callId,
      step_index: stepIndex,
      kind,
      tool_name: tool,
      deadline,
      status: 'waiting',
      result_card_id: null,
      created_at: now,
    })
    .execute();
  const payload = { callId, tool, phase: 'suspended', deadline } as const;
  appendEvent(trx, agentId, agentTurnId, { type: 'call', payload }, now);
  await syncHead(trx, head, agentTurnId, now);
}

/** Brings head and turn row in line with the waiting set, and schedules the turn's check anew. `hasNews`: there is something to wake it for. */
export async function syncHead(
  trx: Trx,
  head: HeadRow,
  agentTurnId: string,
  now: number,
  hasNews = true,
): Promise<void> {
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
  await rescheduleCheck(trx, agentTurnId, resumeDeadline, now, hasNews);
  const activity = waiting.length > 0 ? ({ activity: 'awaiting_tool_result' } as const) : undefined;
  appendState(trx, { ...head, ...change }, now, activity);
}

/**
 * A check that is due stays due, and one for what the workflow has not read is never put off: the turn goes on without it only if it reads.
 * The time changes all the same, so that a check under way, which saw the turn before, does not set the next one.
 */
export async function rescheduleCheck(
  trx: Trx,
  agentTurnId: string,
  resumeDeadline: number | null,
  now: number,
  hasNews: boolean,
): Promise<void> {
  const {
    check_at: planned,
    ends_by,
    woken_at,
    ...turn
  } = await trx
    .selectFrom('turns')
    .select((eb) => [
      'check_at',
      'ends_by',
      'woken_at',
      eb
        .selectFrom('turn_waiting')
        .select((row) => row.fn.countAll<number>().as('count'))
        .where('turn_waiting.agent_turn_id', '=', agentTurnId)
        .where('turn_waiting.status', '=', 'received')
        .as('received'),
      eb
        .selectFrom('deferred_reports')
        .select((row) => row.fn.min('next_retry_at').as('next_retry_at'))
        .where('deferred_reports.agent_turn_id', '=', agentTurnId)
        .as('retry_at'),
    ])
    .where('agent_turn_id', '=', agentTurnId)
    .executeTakeFirstOrThrow();
  const unread = Number(turn.received) > 0;
  const never = Number.POSITIVE_INFINITY;
  const soon = now + FIRST_CHECK_MS;
  const wanted = resumeDeadline === null || unread ? soon : suspendedCheckAt(now, resumeDeadline);
  const retry = turn.retry_at === null ? never : turn.retry_at + FIRST_CHECK_MS;
  const next = Math.min(wanted, retry, ends_by ?? never, unread ? (planned ?? never) : never);
  const change = {
    check_at: planned !== null && planned <= now ? now : Math.max(next, now),
    check_every: FIRST_CHECK_MS,
    woken_at: unread && !hasNews ? woken_at : null,
  };
  await trx.updateTable('turns').set(change).where('agent_turn_id', '=', agentTurnId).execute();
}
