/**
 * What a report, or the clock, means for one call of a turn (T13–T18). Pure: the store looks up the facts and carries out the decision.
 *
 * Invariants
 * 1. The store does both under the lock of the agent's head, so that of several reports about a call exactly one settles it (T14).
 * 2. A report about a call that is settled, or whose turn has ended, changes nothing and is acknowledged as such.
 */
import { MAX_WAIT_MS } from '../protocol/time.ts';
import type { ToolResultReport } from '../protocol/tool-result.ts';

/**
 * How far a call is in the store: proposed or running (`open`), in the waiting set (`waiting`), with its result (`settled`), or without one
 * when its turn ended (`dropped`).
 */
export type CallPhase = 'open' | 'waiting' | 'settled' | 'dropped';

/** What the store knows of a call that a report is about. */
export interface WaitingFacts {
  readonly phase: CallPhase;
  /** Until when the call waits, epoch ms; only meaningful while it does. */
  readonly deadline: number;
  /** How long the call may wait in all, ms: a heartbeat gives it this time anew (T16). */
  readonly windowMs: number;
  /** A report that came and could not be applied yet; null when there is none. */
  readonly deferral: Deferral | null;
}

/** A report that cannot be applied yet, because the card it names has not arrived (T18). */
export interface Deferral {
  readonly reason: 'card_not_found';
  /** How often the store has looked for the card again. */
  readonly retryCount: number;
  /** When it looks the next time, epoch ms. */
  readonly nextRetryAt: number;
}

/** What the store knows of the turn that a report is addressed to. */
export interface TurnFacts {
  /** Null before the turn was leased. */
  readonly turnEpoch: number | null;
  /** Whether the turn has ended, or is not the one that the agent's head points at. */
  readonly closed: boolean;
}

/** How a report is acknowledged, and what the store does with it. */
export type ReportDecision =
  /** The report is of no use: of another epoch or after the end, about no call of the turn, or about a call that has its result. */
  | { readonly ack: 'stale' | 'unknown' | 'duplicate'; readonly effect: 'drop' }
  /** The report is the result of the call; `buffered` when the call is not waiting for it yet. */
  | { readonly ack: 'applied' | 'buffered'; readonly effect: 'settle' }
  /** A heartbeat moves the deadline of a call that waits. */
  | { readonly ack: 'applied'; readonly effect: 'extend'; readonly deadline: number }
  /** A heartbeat of a call that does not wait yet, or a report whose card is being waited for already. */
  | { readonly ack: 'buffered' | 'deferred'; readonly effect: 'nothing' }
  /** The report is kept until its card arrives. */
  | { readonly ack: 'deferred'; readonly effect: 'defer'; readonly deferral: Deferral };

const FIRST_RETRY_MS = 1_000;
/** How often the store looks for the card of a report, each time after twice as long, before the call fails with `card_not_found` (T18). */
export const DEFERRAL_TRIES = 6;

/**
 * What becomes of a report. `call` is null for an id that the turn does not have; `bodyFound` is false when the report names a card that is
 * not in the store.
 */
export function onReport(
  turn: TurnFacts,
  call: WaitingFacts | null,
  report: Pick<ToolResultReport, 'status' | 'turnEpoch'>,
  bodyFound: boolean,
  nowMs: number,
): ReportDecision {
  if (report.turnEpoch !== undefined && report.turnEpoch !== turn.turnEpoch) return { ack: 'stale', effect: 'drop' };
  if (!call) return { ack: turn.closed ? 'stale' : 'unknown', effect: 'drop' };
  // A report about a call that had its answer is a duplicate, also after the turn; one about a call that the end dropped is stale.
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

/**
 * What to do about a call that waits: nothing, as it has its result; end it, as its time is over; try its deferred report again; or come back
 * at `wakeAt`, epoch ms.
 */
export type ResolveDecision = 'settled' | 'time_out' | 'retry' | { readonly wakeAt: number };

/** Where a call of the waiting set stands at `nowMs`. A deferred report is tried once more before the call times out. */
export function onResolve({ phase, deadline, deferral }: WaitingFacts, nowMs: number): ResolveDecision {
  if (phase !== 'waiting') return 'settled';
  if (deferral && (isRetryDue(deferral, nowMs) || deadline <= nowMs)) return 'retry';
  if (deadline <= nowMs) return 'time_out';
  return { wakeAt: Math.min(deadline, deferral?.nextRetryAt ?? deadline) };
}

/** The deferral after a try in vain; null when that was the last one, or the time of the call is over. */
export function deferredAgain({ reason, retryCount }: Deferral, deadline: number, nowMs: number): Deferral | null {
  if (retryCount + 1 >= DEFERRAL_TRIES || deadline <= nowMs) return null;
  return { reason, ...retryAfter(retryCount + 1, nowMs) };
}

/** The longest pause between two tries, ms. */
export const LONGEST_RETRY_PAUSE_MS = FIRST_RETRY_MS * 2 ** (DEFERRAL_TRIES - 1);

const retryPause = (retryCount: number): number => FIRST_RETRY_MS * 2 ** retryCount;

const retryAfter = (retryCount: number, nowMs: number): Pick<Deferral, 'retryCount' | 'nextRetryAt'> => ({
  retryCount,
  nextRetryAt: nowMs + retryPause(retryCount),
});

/** Whether the report is to be tried now: its time has come, or lies further ahead than any pause is, because a clock was ahead. */
const isRetryDue = (
  { retryCount, nextRetryAt }: Pick<Deferral, 'retryCount' | 'nextRetryAt'>,
  nowMs: number,
): boolean => nextRetryAt <= nowMs || nextRetryAt > nowMs + retryPause(retryCount);
