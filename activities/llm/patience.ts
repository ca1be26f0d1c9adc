/**
 * Patience with a provider that fails: the turn waits, and the call is tried again, until the patience of its profile is used up (W14).
 *
 * Invariants
 * 1. Only what may heal without the turn is waited for: a provider that does not answer, fails or asks to wait, and credentials that an
 *    operator can correct. A request that the provider does not take is final at once.
 * 2. The time counts from the first failure of the step, whoever makes the attempts. Time without a worker before it does not count.
 * 3. Attempts that were lost with their worker are counted beside those that the provider failed, and have a bound of their own.
 */
import { Context } from '@temporalio/activity';
import { ApplicationFailure } from '@temporalio/common';
import type { OpenOutage, ProviderOutage, StepOpening, StepStore } from '../../workflows/contract/steps.ts';
import { CodedError } from '../../workflows/protocol/failures.ts';
import { shownTime } from '../../workflows/protocol/time.ts';
import type { Fence } from '../../workflows/protocol/turn.ts';
import { toApplicationFailure } from '../failure.ts';
import { outlastOutage } from '../store-outage.ts';

/** The first pause and the longest one, in ms; each pause is twice the one before. */
interface Pauses {
  readonly firstMs: number;
  readonly longestMs: number;
}

/** Credentials are corrected by a person, so they are tried less often. */
const PAUSES: Readonly<Record<ProviderOutage['code'], Pauses>> = {
  provider_error: { firstMs: 1_000, longestMs: 60_000 },
  provider_auth: { firstMs: 5_000, longestMs: 5 * 60_000 },
};

/** How long to wait after so many failures in a row, in ms, where the provider does not say it. */
export function pauseMs(code: ProviderOutage['code'], failures: number): number {
  const { firstMs, longestMs } = PAUSES[code];
  return Math.min(firstMs * 2 ** Math.min(failures - 1, 20), longestMs);
}

/** Attempts at one model call that may be lost with their worker, or fail in a way that nobody foresaw. */
const MOST_LOST = 8;

/** Refuses one more attempt at a call of which too many were lost. Errors: `worker_lost`, as a failure that is not retried. */
export function refuseLost({ openings, outage }: Pick<StepOpening, 'openings' | 'outage'>): void {
  const lost = openings - 1 - (outage?.failures ?? 0);
  if (lost < MOST_LOST) return;
  const message = `${lost} attempts at this model call were lost; the logs of the workers say how they ended`;
  throw toApplicationFailure(new CodedError('worker_lost', message), { nonRetryable: true });
}

/** The model call of a step, and the patience that it is made with. */
export interface PatientCall {
  readonly store: Pick<StepStore, 'noteOutage'>;
  readonly fence: Fence;
  readonly stepIndex: number;
  /** The outage as the attempt found it; null when the provider has not failed this call before. */
  readonly outage: OpenOutage | null;
  /** When the attempt found it, by `performance.now()`. */
  readonly foundAt: number;
  readonly patienceMs: number;
  readonly signal: AbortSignal;
}

/**
 * What follows a failed model call; it always throws. A failure that may heal is thrown with the time of the next attempt, when that is written
 * down; one that cannot, or that the patience does not cover, is final.
 */
export async function waitOut(call: PatientCall, error: unknown): Promise<never> {
  const code = error instanceof ApplicationFailure ? waitedFor(error) : null;
  if (code === null || !(error instanceof ApplicationFailure)) throw error;
  const { store, fence, stepIndex, outage, foundAt, patienceMs, signal } = call;
  const { message, nextRetryDelay } = error;
  const failures = (outage?.failures ?? 0) + 1;
  const waitedMs = outage === null ? 0 : outage.forMs + performance.now() - foundAt;
  // A provider that asks for less than the first pause would be asked many times a second for as long as the patience lasts.
  const retryInMs =
    typeof nextRetryDelay === 'number' ? Math.max(nextRetryDelay, PAUSES[code].firstMs) : pauseMs(code, failures);
  if (waitedMs + retryInMs > patienceMs) {
    const tried = failures === 1 ? '' : `; it was tried ${failures} times in ${Math.round(waitedMs / 1_000)} s`;
    throw toApplicationFailure(new CodedError(code, `${message}${tried}`), { nonRetryable: true });
  }
  const { currentAttemptScheduledTimestampMs: attempt } = Context.current().info;
  const failed = { stepIndex, attempt, code, message, retryInMs };
  const noted = await outlastOutage(signal, () => store.noteOutage(fence, failed));
  // The Web UI shows the message beside the pending activity, and has no other place where it could say since when the provider fails.
  const shown = noted === null ? message : `${message} (${outageText(noted)})`;
  throw toApplicationFailure(new CodedError(code, shown), { nonRetryable: false, retryAfterMs: retryInMs });
}

const outageText = ({ failures, since, nextTryAt }: ProviderOutage): string =>
  `failed ${failures === 1 ? 'once' : `${failures} times`} since ${shownTime(since)}, next try at ${shownTime(nextTryAt)}`;

/** The code of a failure that is waited for; null for a final one. */
function waitedFor({ type, nonRetryable }: ApplicationFailure): ProviderOutage['code'] | null {
  if (type === 'provider_auth') return type;
  return type === 'provider_error' && !nonRetryable ? type : null;
}
