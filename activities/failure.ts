/**
 * The one place where an error crosses into Temporal, as an ApplicationFailure whose type is a code of the catalogue.
 *
 * Invariant: what crosses stays in the history for as long as that is kept, so its message is one of ours. Causes, stacks and the words of
 * libraries and servers, which may quote a prompt or a password, go to the worker's log.
 */
import { Context } from '@temporalio/activity';
import { ApplicationFailure, CancelledFailure } from '@temporalio/common';
import { CodedError, FAILURES } from '../workflows/protocol/failures.ts';
import { clip } from '../workflows/protocol/sizes.ts';
import { redact } from './redact.ts';

/** The message of an error. Anything can be thrown, also a value without a string form, and each gives some sentence. */
export function describeError(error: unknown): string {
  try {
    return String(error instanceof Error ? error.message : error) || 'it failed without a message';
  } catch {
    return 'something without a string form was thrown';
  }
}

/** The codes of errors that heal by themselves, so that Temporal retries the activity. */
const RETRIED = new Set(['store_unavailable', 'store_locked', 'temporal_unreachable']);

/** Whether Temporal is to retry the activity that failed with this error. */
export const isRetried = ({ code }: CodedError): boolean => RETRIED.has(code) || FAILURES[code].retryable;

/** What is known about a retry besides the code of the error, from a provider's answer say. */
export interface RetryHint {
  /** How long to wait before the next attempt; the activity's retry policy decides when it is absent. */
  readonly retryAfterMs?: number | undefined;
  /** Whether another attempt makes no sense; the code of the error decides when it is absent. */
  readonly nonRetryable?: boolean;
}

/** The most that a message may add to a history. */
const MESSAGE_BYTES = 2_000;
/** The most that one error may add to a log. */
const LOGGED_BYTES = 16_000;

/** The error as Temporal is to see it: typed by its code, without secrets, and short. */
export const toApplicationFailure = (error: CodedError, hint: RetryHint = {}): ApplicationFailure =>
  ApplicationFailure.create({
    message: clip(redact(error.message), MESSAGE_BYTES),
    type: error.code,
    nonRetryable: hint.nonRetryable ?? !isRetried(error),
    ...(hint.retryAfterMs === undefined ? {} : { nextRetryDelay: hint.retryAfterMs }),
  });

/**
 * How often an error without a code is tried again, since it may pass: for about half an hour, where the retry policy has no bound of its
 * own.
 */
const UNFORESEEN_ATTEMPTS = 200;

/** Whether an error crosses as it is, because it was mapped before or is what the runtime reads as the end of an aborted activity. */
const isMapped = (error: unknown, signal: AbortSignal): boolean =>
  error instanceof ApplicationFailure ||
  error instanceof CancelledFailure ||
  (signal.aborted && (error === signal.reason || (error instanceof Error && error.name === 'AbortError')));

function crossing(name: string, error: unknown): unknown {
  const { cancellationSignal, info, log } = Context.current();
  if (isMapped(error, cancellationSignal)) return error;
  const { cause } = error instanceof Error ? error : {};
  if (!(error instanceof CodedError) || cause !== undefined)
    log.warn(`${name} failed`, { attempt: info.attempt, error: loggedError(error) });
  if (error instanceof CodedError) return toApplicationFailure(error);
  const message = `the activity ${name} failed in a way that nobody foresaw; the log of the worker says how`;
  const nonRetryable = info.attempt >= UNFORESEEN_ATTEMPTS;
  return ApplicationFailure.create({ message, type: 'internal_error', nonRetryable });
}

/** An error as the log of a worker has it: with its class, its stack and those of its causes, without secrets, and bounded. */
export const loggedError = (error: unknown): string => clip(redact(inFull(error)), LOGGED_BYTES);

/** The stack of an error and those of its causes. */
function inFull(error: unknown): string {
  const stackOf = (one: unknown) => (one instanceof Error ? one.stack : undefined) ?? describeError(one);
  return [error, ...causesOf(error)].map(stackOf).join('\ncaused by ');
}

/** How many causes of an error are followed. */
const MOST_CAUSES = 5;

/** The errors that led to an error, the nearest first and five at most: a chain may be long, or come back to where it began. */
export function causesOf(error: unknown): readonly unknown[] {
  const causes: unknown[] = [];
  for (let of = error; of instanceof Error && of.cause !== undefined && causes.length < MOST_CAUSES; of = of.cause)
    causes.push(of.cause);
  return causes;
}

/** The activities with every error that they throw mapped to what Temporal is to see. */
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
