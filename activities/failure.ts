/**
 * The one place where an error crosses into Temporal: an ApplicationFailure whose type is the catalogue code.
 *
 * Invariant: what crosses stays in the history for as long as that is kept, so it has messages of ours only. Causes, stacks and the words of
 * libraries and servers, which may quote a prompt or a password, go to the worker's log.
 */
import { Context } from '@temporalio/activity';
import { ApplicationFailure, CancelledFailure } from '@temporalio/common';
import { CodedError, FAILURES } from '../workflows/protocol/failures.ts';
import { clip } from '../workflows/protocol/sizes.ts';
import { redact } from './redact.ts';

/** What went wrong, in words; anything can be thrown, also what has no string form. */
export function describeError(error: unknown): string {
  try {
    return String(error instanceof Error ? error.message : error) || 'it failed without a message';
  } catch {
    return 'something without a string form was thrown';
  }
}

/** Errors of these codes heal by themselves; Temporal retries the activity. */
const RETRIED = new Set(['store_unavailable', 'store_locked', 'temporal_unreachable']);

export const isRetried = ({ code }: CodedError): boolean => RETRIED.has(code) || FAILURES[code].retryable;

export interface RetryHint {
  readonly retryAfterMs?: number | undefined;
  readonly nonRetryable?: boolean;
}

const MESSAGE_BYTES = 2_000;
const LOGGED_BYTES = 16_000;

export const toApplicationFailure = (error: CodedError, hint: RetryHint = {}): ApplicationFailure =>
  ApplicationFailure.create({
    message: clip(redact(error.message), MESSAGE_BYTES),
    type: error.code,
    nonRetryable: hint.nonRetryable ?? !isRetried(error),
    ...(hint.retryAfterMs === undefined ? {} : { nextRetryDelay: hint.retryAfterMs }),
  });

/** What nobody foresaw may pass, and is tried again; for about half an hour where the policy has no bound of its own. */
const UNFORESEEN_ATTEMPTS = 200;

/** What was mapped before stays as it is, and so does what the runtime reads as the end of an aborted activity. */
const isMapped = (error: unknown, signal: AbortSignal): boolean =>
  error instanceof ApplicationFailure ||
  error instanceof CancelledFailure ||
  (signal.aborted && (error === signal.reason || (error instanceof Error && error.name === 'AbortError')));

function crossing(name: string, error: unknown): unknown {
  const { cancellationSignal, info, log } = Context.current();
  if (isMapped(error, cancellationSignal)) return error;
  const { cause } = error instanceof Error ? error : {};
  if (!(error instanceof CodedError) || cause !== undefined)
    log.warn(`${name} failed`, { attempt: info.attempt, error: clip(redact(inFull(error)), LOGGED_BYTES) });
  if (error instanceof CodedError) return toApplicationFailure(error);
  const message = `the activity ${name} failed in a way that nobody foresaw; the log of the worker says how`;
  const nonRetryable = info.attempt >= UNFORESEEN_ATTEMPTS;
  return ApplicationFailure.create({ message, type: 'internal_error', nonRetryable });
}

/** With stacks and causes. */
function inFull(error: unknown): string {
  const stackOf = (one: unknown) => (one instanceof Error ? one.stack : undefined) ?? describeError(one);
  return [error, ...causesOf(error)].map(stackOf).join('\ncaused by ');
}

const MOST_CAUSES = 5;

/** What led to an error, the nearest first; a chain may be long, or come back to where it began. */
export function causesOf(error: unknown): readonly unknown[] {
  const causes: unknown[] = [];
  for (let of = error; of instanceof Error && of.cause !== undefined && causes.length < MOST_CAUSES; of = of.cause)
    causes.push(of.cause);
  return causes;
}

/** Wraps every function of an activity set so that what it throws is mapped. */
export function mapFailures<T extends object>(activities: T): T {
  const wrapped = Object.entries(activities).map(([name, run]) => [
    name,
    async (...args: unknown[]) => {
      try {
        return await run(...args);
      } catch (error) {
        throw crossing(name, error);
      }
    },
  ]);
  return Object.fromEntries(wrapped) as T;
}
