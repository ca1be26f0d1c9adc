/**
 * What a report or the clock means for one call of a turn (T13–T18). Pure: the store looks up the facts and carries out the decision,
 * under the lock of the agent's head, so that of several reports exactly one wins.
 */
import { MAX_WAIT_MS } from '../protocol/time.ts';
import type { ToolResultReport } from '../protocol/tool-result.ts';

/**
 * `open`: proposed or running, not suspended yet; `waiting`: in the waiting set; `settled`: has its result; `dropped`: the turn ended
 * before it had one.
 */
export type CallPhase = 'open' | 'waiting' | 'settled' | 'dropped';

export interface WaitingFacts {
  readonly phase: CallPhase;
  /** While waiting: epoch ms, and the length a heartbeat gives it anew. */
  readonly deadline: number;
  readonly windowMs: number;
  readonly deferral: Deferral | null;
}

/** A report that cannot be applied yet (T18). Times in epoch ms. */
export interface Deferral {
  readonly reason: 'card_not_found';
  readonly retryCount: number;
  readonly nextRetryAt: number;
}

export interface TurnFacts {
  readonly turnEpoch: number | null;
  /** Ended, or not what the head points at any more. */
  readonly closed: boolean;
}

export type ReportDecision =
  | { readonly ack: 'stale' | 'unknown' | 'duplicate'; readonly effect: 'drop' }
  | { readonly ack: 'applied' | 'buffered'; readonly effect: 'settle' }
  /** A heartbeat; of a call that does not wait yet it says nothing new. */
  | { readonly ack: 'applied'; readonly effect: 'extend'; readonly deadline: number }
  | { readonly ack: 'buffered' | 'deferred'; readonly effect: 'nothing' }
  | { readonly ack: 'deferred'; readonly effect: 'defer'; readonly deferral: Deferral };

const FIRST_RETRY_MS = 1_000;
export const DEFERRAL_TRIES = 6;

/** `call` is null for an id the turn does not have; `bodyFound` is false when the report names a card that is not in the store. */
export function onReport(
  turn: TurnFacts,
  call: WaitingFacts | null,
  report: Pick<ToolResultReport, 'status' | 'turnEpoch'>,
  bodyFound: boolean,
  nowMs: number,
): ReportDecision {
  if (report.turnEpoch !== undefined && report.turnEpoch !== turn.turnEpoch) return { ack: 'stale', effect: 'drop' };
  if (!call) return { ack: turn.closed ? 'stale' : 'unknown', effect: 'drop' };
  // What the end of the turn dropped is stale; what had its answer before is a duplicate, also later.
  if (call.phase === 'settled') return { ack: 'duplicate', effect: 'drop' };
  if (call.phase === 'dropped' || turn.closed) return { ack: 'stale', effect: 'drop' };
  if (report.status === 'running') {
    if (call.phase === 'open') return { ack: 'buffered', effect: 'nothing' };
    return { ack: 'applied', effect: 'extend', deadline: nowMs + Math.min(call.windowMs, MAX_WAIT_MS) };
  }
  if (bodyFound) return { ack: call.phase === 'waiting' ? 'applied' : 'buffered', effect: 'settle' };
  if (call.deferral) return { ack: 'deferred', effect: 'nothing' };
  return { ack: 'deferred', effect: 'defer', deferral: { reason: 'card_not_found', ...retryAfter(0, nowMs) } };
}

export type ResolveDecision = 'settled' | 'time_out' | 'retry' | { readonly wakeAt: number };

/** Where a call of the waiting set stands at `nowMs`; `wakeAt` is when to look again. A pending report is tried before time is called. */
export function onResolve({ phase, deadline, deferral }: WaitingFacts, nowMs: number): ResolveDecision {
  if (phase !== 'waiting') return 'settled';
  if (deferral && (deferral.nextRetryAt <= nowMs || deadline <= nowMs)) return 'retry';
  if (deadline <= nowMs) return 'time_out';
  return { wakeAt: Math.min(deadline, deferral?.nextRetryAt ?? deadline) };
}

/** After a retry in vain; null when it was the last one, or the call's time is over. */
export function deferredAgain({ reason, retryCount }: Deferral, deadline: number, nowMs: number): Deferral | null {
  if (retryCount + 1 >= DEFERRAL_TRIES || deadline <= nowMs) return null;
  return { reason, ...retryAfter(retryCount + 1, nowMs) };
}

const retryAfter = (retryCount: number, nowMs: number): Pick<Deferral, 'retryCount' | 'nextRetryAt'> => ({
  retryCount,
  nextRetryAt: nowMs + FIRST_RETRY_MS * 2 ** retryCount,
});
