/** How the command line tells that something went wrong: what, and what to do about it; never a stack unless asked. */

import type { TurnView } from '../../workflows/contract/views.ts';
import { CodedError, FAILURES, type FailureCode, isFailureCode } from '../../workflows/protocol/failures.ts';
import type { CliIo, CommonOptions } from './environment.ts';

/** What is said of a failure; `cure` is absent where nothing general can be advised. */
export interface ShownFailure {
  readonly code: FailureCode | (string & {});
  readonly message: string;
  readonly cure?: string;
}

/** An error as it is shown: a code of the catalogue with its cure, or `internal_error`. */
export function shownFailure(error: unknown): ShownFailure {
  if (error instanceof CodedError) {
    const { code, message, cure } = error;
    return { code, message, cure: cure === FAILURES.invalid_request.cure ? MISTYPED : cure };
  }
  const message = error instanceof Error ? error.message : String(error);
  const cure = 'Run the command again with --debug for the stack, and report it.';
  return { code: 'internal_error', message: message || 'an error without a message', cure };
}

/** Why a turn did not succeed; undefined when it did, wholly or in part. An answer that was cut short is a part that nobody wanted as such. */
export function turnFailure({ status, errorCode, reason }: TurnView): ShownFailure | undefined {
  if (status === 'success' || (status === 'partial' && errorCode !== 'answer_truncated')) return undefined;
  const entry = isFailureCode(errorCode) ? FAILURES[errorCode] : undefined;
  const message = reason ?? entry?.message ?? `the turn ended as ${status}`;
  return { code: errorCode ?? status, message, ...(entry ? { cure: entry.cure } : {}) };
}

/** Prints a failure for people, on standard error. */
export function printFailure(io: Pick<CliIo, 'err'>, { code, message, cure }: ShownFailure): void {
  io.err(`error [${code}]: ${message}`);
  if (cure !== undefined) io.err(`cure: ${cure}`);
}

/** An error in how a command was called: what an option or an argument says cannot be. */
export class UsageError extends CodedError {}

/** What is advised where nothing better than the catalogue is known: whoever types a command knows no fields. */
const MISTYPED =
  'Correct the option or the argument that the message names; --help behind the command says what it takes.';

const isMistyped = (error: unknown): boolean =>
  error instanceof UsageError || (error instanceof CodedError && error.code === 'invalid_request');

/** Returns the exit code: 2 when the command line was wrong. */
export function fail(io: CliIo, options: CommonOptions, error: unknown): number {
  const report = shownFailure(error);
  if (options.json) io.out(JSON.stringify({ error: report }));
  else printFailure(io, report);
  if (options.debug && error instanceof Error) io.err(stackOf(error));
  return isMistyped(error) ? 2 : 1;
}

function stackOf(error: Error): string {
  const own = error.stack ?? error.message;
  return error.cause instanceof Error ? `${own}\ncaused by: ${stackOf(error.cause)}` : own;
}
