/** What an error says of an attempt at a burst. */
import { ApplicationFailure } from '@temporalio/common';
import { CodedError } from '../../workflows/protocol/failures.ts';

/** Whether it is the error of that code. */
export const isCoded = (error: unknown, code: CodedError['code']): boolean =>
  error instanceof CodedError && error.code === code;

/** Whether an error says when the call is to be made again. */
export const isTriedAgain = (error: unknown): boolean =>
  error instanceof ApplicationFailure && error.nonRetryable !== true;

/** Whether an error says that this attempt is over, and not that a model call has failed. */
export const endsAttempt = (error: unknown): boolean =>
  isCoded(error, 'stale_epoch') || isCoded(error, 'call_overtaken');
