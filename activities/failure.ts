/** The one place where an error crosses into Temporal: an ApplicationFailure whose type is the catalogue code. */
import { ApplicationFailure } from '@temporalio/common';
import { CodedError, FAILURES } from '../workflows/protocol/failures.ts';

/** What went wrong, in words; anything can be thrown, also what has no string form. */
export function describeError(error: unknown): string {
  try {
    return (error instanceof Error ? error.message : String(error)) || 'it failed without a message';
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

export function toApplicationFailure(error: unknown, hint: RetryHint = {}): unknown {
  if (!(error instanceof CodedError)) return error;
  return ApplicationFailure.create({
    message: error.message,
    type: error.code,
    nonRetryable: hint.nonRetryable ?? !isRetried(error),
    ...(error.cause instanceof Error ? { cause: error.cause } : {}),
    ...(hint.retryAfterMs === undefined ? {} : { nextRetryDelay: hint.retryAfterMs }),
  });
}

/** Wraps every function of an activity set so that what it throws is mapped. */
export function mapFailures<T extends object>(activities: T): T {
  const wrapped = Object.entries(activities).map(([name, run]) => [
    name,
    async (...args: unknown[]) => {
      try {
        return await run(...args);
      } catch (error) {
        throw toApplicationFailure(error);
      }
    },
  ]);
  return Object.fromEntries(wrapped) as T;
}
