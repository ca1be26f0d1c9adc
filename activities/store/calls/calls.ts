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
import type { Fence } from '../../../workflows/protocol/turn.ts';
import { read, type StoreContext, type Trx, together, write } from '../context.ts';
import type { TurnRow } from '../schema/rows.ts';
import { fenced, fencedWith, selectLease, staleEpoch } from '../turns/head.ts';
import { asHeld, type HeldTurn, held, selectHeld, turnOf } from '../turns/turns.ts';
import { editedArguments } from './approval-rows.ts';
import { callAndResultOf, callOf, findResult, type StoredCall, selectCallAndResult } from './call-cards.ts';
import { insertClaims, isClaimed, selectClaims } from './claims.ts';
import { storeResult } from './results.ts';
import { suspendTimeout } from './tool-specs.ts';
import { actOnAnswers, findWaiting, startWaiting, suspendedUntil } from './waiting-set.ts';
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
