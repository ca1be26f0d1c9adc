/**
 * Calls of a turn: claims, results of our own tools, entry into the waiting set.
 *
 * Invariant: a claim is written before any effect, with the call itself where nothing can forbid its start; a lost attempt of an unsafe
 * tool is never followed by a second one (W10).
 */
import type { CallAttempt, CallClaim, ClaimedCall, ClaimOutcome } from '../../../workflows/contract/calls.ts';
import type { RefusedCall } from '../../../workflows/kernel/actions.ts';
import type { SettledCall } from '../../../workflows/kernel/calls.ts';
import type { CardContents, ToolResultContent } from '../../../workflows/protocol/cards.ts';
import { CodedError } from '../../../workflows/protocol/failures.ts';
import type { JsonValue } from '../../../workflows/protocol/json.ts';
import { SIZES } from '../../../workflows/protocol/sizes.ts';
import type { Fence } from '../../../workflows/protocol/turn.ts';
import { type Reader, read, type StoreContext, type Tx, together, write } from '../context.ts';
import { appendEvent } from '../log/events.ts';
import { decoded, encoded } from '../schema/json.ts';
import { leased, type WithLease } from '../schema/turn-states.ts';
import { fencedWith, refuseShutOut, selectLease } from '../turns/head.ts';
import { asHeld, type Extras, fencedTurn, held, selectHeld } from '../turns/turns.ts';
import { editedArguments } from './approval-rows.ts';
import { type CallAndResult, callAndResultOf, callOf, findResult, selectCallAndResult } from './call-cards.ts';
import { insertClaims, isOvertaken, lastAttempt, overtaken, refuseLate, selectClaims } from './claims.ts';
import { findCounted } from './recounting.ts';
import { storeResult } from './results.ts';
import { suspendTimeout } from './tool-specs.ts';
import { actOnAnswers, startWaiting, suspendedUntil } from './waiting-set.ts';

/** Claims a call before its tool is started. */
export async function claimCall(ctx: StoreContext, fence: Fence, claim: CallClaim): Promise<ClaimOutcome> {
  const claimed = claim.repeatable && claim.first ? await claimedWithItsStep(ctx, fence, claim) : null;
  if (claimed) return claimed;
  return write(ctx, fence.agentId, (tx) => claimUnderLock(tx, fence, claim));
}

/** The outcome of a claim under the head row of the turn's agent. */
async function claimUnderLock(tx: Tx, fence: Fence, claim: CallClaim): Promise<ClaimOutcome> {
  const { callId } = claim;
  const { head, turn, settled, call, claims } = await fencedAttempts(tx, fence, callId);
  if (settled) return { kind: 'settled', settled };
  refuseLate(claims, claim);
  if (turn.waited) await actOnAnswers(tx, fence.agentTurnId, callId);
  const waiting = turn.waited ? await findCounted(tx, { head, turn }, callId) : undefined;
  if (waiting?.status === 'waiting') return suspendedUntil(tx, waiting.deadline);
  const before = lastAttempt(claims);
  if (!claim.repeatable && before > 0) {
    const unknown = { stepIndex: call.stepIndex, content: outcomeUnknown(call.content) };
    return { kind: 'settled', settled: (await storeResult(tx, turn, unknown)).settled };
  }
  const edited = turn.waited ? await editedArguments(tx, fence.agentTurnId, callId) : null;
  const attempt = before + 1;
  await insertClaims(tx, fence.agentTurnId, [{ callId, attempt, by: claim.by }]);
  const content = edited === null ? call.content : { ...call.content, arguments: edited };
  return start(tx, turn, content, { attempt, edited: edited !== null });
}

/** Locks the head if the lease holds; reads its turn, and the call with its result when it has one. Errors: `stale_epoch` (T5). */
export async function fencedCall(
  tx: Tx,
  fence: Fence,
  callId: string,
): Promise<CallAndResult & { readonly turn: WithLease & Extras }> {
  const { agentTurnId } = fence;
  const [, [row], rows] = await fencedWith(
    tx,
    fence,
    selectHeld(tx, agentTurnId),
    selectCallAndResult(tx, agentTurnId, callId),
  );
  return { ...callAndResultOf(rows, agentTurnId, callId), turn: leased(held(tx, row, agentTurnId)) };
}

/** The same, with the attempts at the call that were claimed. */
async function fencedAttempts(tx: Tx, fence: Fence, callId: string) {
  const { agentTurnId } = fence;
  const [head, [row], rows, claims] = await fencedWith(
    tx,
    fence,
    selectHeld(tx, agentTurnId),
    selectCallAndResult(tx, agentTurnId, callId),
    selectClaims(tx, agentTurnId, callId),
  );
  return { ...callAndResultOf(rows, agentTurnId, callId), head, turn: leased(held(tx, row, agentTurnId)), claims };
}

/**
 * The outcome of a claim that was made with the step, and which nothing needs to be written for. Null when there was none, or when what the
 * turn waits for must be looked at first. Errors: `stale_epoch` (T5).
 */
const claimedWithItsStep = (ctx: StoreContext, fence: Fence, claim: CallClaim): Promise<ClaimOutcome | null> =>
  read(ctx, async (reader) => {
    const { agentTurnId } = fence;
    const { callId } = claim;
    const [[row], rows, claims, [lease]] = await together(
      reader.db,
      selectHeld(reader, agentTurnId),
      selectCallAndResult(reader, agentTurnId, callId),
      selectClaims(reader, agentTurnId, callId),
      // Last, right before the effect: none may start under a lease that is over.
      selectLease(reader, fence),
    );
    const turn = asHeld(row, agentTurnId);
    if (turn.waited) return null;
    const { settled, call } = callAndResultOf(rows, agentTurnId, callId);
    if (!settled && claims.length === 0) return null;
    refuseShutOut(lease, fence);
    if (settled) return { kind: 'settled', settled };
    refuseLate(claims, claim);
    return start(reader, leased(turn), call.content, { attempt: lastAttempt(claims), edited: false });
  });

/** The outcome of a claim that lets the tool start, with what the tool needs to know besides its arguments. */
export async function start(
  reader: Reader,
  turn: WithLease,
  call: CardContents['tool.call'],
  claim: Pick<ClaimedCall, 'attempt' | 'edited'>,
): Promise<ClaimedCall> {
  const suspendTimeoutMs = await suspendTimeout(reader, turn, call.tool);
  const { traceparent = null, correlationId = null, metadata = {} } = decoded(turn.request);
  return { kind: 'go', ...claim, call, suspendTimeoutMs, traceparent, correlationId, metadata };
}

/** The result of a call whose tool may have run, and may not be run again (W10). */
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

/** Writes down how far an attempt is, for readers of the turn and of its events. */
export async function noteProgress(
  ctx: StoreContext,
  fence: Fence,
  attempt: CallAttempt,
  progress: JsonValue,
): Promise<void> {
  const text = encoded(progress);
  if (Buffer.byteLength(text) > SIZES.progressBytes)
    throw new CodedError('payload_too_large', `progress must be at most ${SIZES.progressBytes} bytes of JSON`);
  await write(ctx, fence.agentId, async (tx) => {
    const { callId } = attempt;
    const { turn, call, settled, claims } = await fencedAttempts(tx, fence, callId);
    if (settled || claims.length === 0 || isOvertaken(claims, attempt)) throw overtaken(attempt);
    await tx.db
      .updateTable('dispatch_claims')
      .set({ progress: text })
      .where('agent_turn_id', '=', fence.agentTurnId)
      .where('call_id', '=', callId)
      .where('attempt', '=', attempt.attempt)
      .execute();
    const { tool } = call.content;
    appendEvent(tx, turn, { type: 'call', payload: { callId, tool, phase: 'progress', progress } });
  });
}

/** A call that was refused has a result like any other, so that the model reads why (K6). */
export const refuseCalls = (
  ctx: StoreContext,
  fence: Fence,
  refusals: readonly RefusedCall[],
): Promise<readonly SettledCall[]> =>
  write(ctx, fence.agentId, async (tx) => {
    const { turn } = await fencedTurn(tx, fence);
    const settled: SettledCall[] = [];
    for (const { callId, tool, code, message } of refusals) {
      await actOnAnswers(tx, fence.agentTurnId, callId);
      const { stepIndex } = await callOf(tx, fence.agentTurnId, callId);
      const error = { code, message, kind: 'recoverable' } as const;
      const content = { callId, tool, status: 'failed', afterExecution: 'continue', error } as const;
      settled.push((await storeResult(tx, turn, { stepIndex, content })).settled);
    }
    return settled;
  });

/** Puts the call into the waiting set, unless its result came first. */
export const suspendCall = (ctx: StoreContext, fence: Fence, callId: string, waitMs: number): Promise<ClaimOutcome> =>
  write(ctx, fence.agentId, async (tx) => {
    const locked = await fencedTurn(tx, fence);
    const settled = await findResult(tx, locked.turn, callId);
    if (settled) return { kind: 'settled', settled };
    const present = await findCounted(tx, locked, callId);
    if (present) return suspendedUntil(tx, present.deadline);
    const deadline = tx.now + waitMs;
    await startWaiting(tx, locked, await callOf(tx, fence.agentTurnId, callId), { kind: 'tool', deadline });
    return suspendedUntil(tx, deadline);
  });
