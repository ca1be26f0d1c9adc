/** What the outside answered a turn, as events of the kernel. */
import { ActivityFailure, ApplicationFailure, TimeoutFailure } from '@temporalio/workflow';
import type { Lease } from '../contract/lease.ts';
import type { KernelEvent } from '../kernel/events.ts';
import type { Handle } from '../kernel/handles.ts';
import { FAILURES, isFailureCode } from '../protocol/failures.ts';
import { clip } from '../protocol/sizes.ts';

/** The event that starts the kernel, from the lease. */
export function startEvent({ outputBoxId, earlier, instructionSeq, instructionTokens }: Lease): KernelEvent {
  const instruction: Handle = [instructionSeq, 'user', instructionTokens];
  return { type: 'start', nowMs: Date.now(), outputBoxId, earlier, instruction };
}

/** A catalogued failure ends the turn by the table in T8; a lost lease ends the workflow; anything else is ours. */
export function modelFailure(error: unknown, stepIndex: number): KernelEvent {
  const violation = leaseLost(error);
  if (violation) throw violation;
  if (error instanceof ActivityFailure && error.cause instanceof TimeoutFailure)
    return { type: 'timeout', nowMs: Date.now(), stepIndex, message: 'the model did not answer in time' };
  const cause = error instanceof ActivityFailure ? error.cause : error;
  const type = cause instanceof ApplicationFailure ? cause.type : undefined;
  if (type === 'worker_lost') return { type: 'timeout', nowMs: Date.now(), stepIndex, message: messageOf(cause) };
  // This run was reset to before a step that its turn has given up: it goes on without it, as it did then.
  if (type === 'step_closed')
    return { type: 'timeout', nowMs: Date.now(), stepIndex, message: 'the step was given up' };
  const code = isFailureCode(type) && FAILURES[type].scope === 'turn' ? type : 'provider_error';
  return { type: 'llm_failed', nowMs: Date.now(), stepIndex, code, message: messageOf(cause) };
}

/** The failure of a workflow whose lease is over; null for any other error. */
export function leaseLost(error: unknown): ApplicationFailure | null {
  const cause = error instanceof ActivityFailure ? error.cause : undefined;
  if (!(cause instanceof ApplicationFailure)) return null;
  if (cause.type !== 'stale_epoch' && cause.type !== 'protocol_violation') return null;
  return ApplicationFailure.nonRetryable(cause.message, 'protocol_violation');
}

/** Bytes of what is said of a failure. */
const REASON_BYTES = 500;

const messageOf = (error: unknown): string =>
  clip(error instanceof Error ? error.message : String(error), REASON_BYTES);
