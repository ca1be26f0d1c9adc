/** The model calls of a turn: a step, and the summary that makes room for one. */
import { isCancellation } from '@temporalio/workflow';
import type { StepClose, StepOutcomeRecord } from '../contract/steps.ts';
import type { CallLlmAction, SummarizeAction } from '../kernel/actions.ts';
import type { KernelEvent } from '../kernel/events.ts';
import { modelFailure } from './outcomes.ts';
import type { TurnParts } from './parts.ts';
import { responseEvent } from './response.ts';

/** Errors: the cancellation of the turn, and a lost lease. Whatever else the model or its provider does is an event. */
export async function runStep(turn: TurnParts, request: CallLlmAction): Promise<KernelEvent> {
  const { fence, meter, kernel, inbox, lease } = turn;
  const opening = { ...kernel.takeNoticed(), ...inbox.mark };
  try {
    const { callModel } = meter.model(`step ${request.stepIndex}: model`);
    return answered(turn, await callModel({ ...fence, profileHash: lease.profileHash, request, ...opening }));
  } catch (error) {
    if (isCancellation(error)) throw error;
    return stepFailed(turn, request, error, opening);
  }
}

/** What follows from a model call that failed. Errors: the cancellation of the turn, and a lost lease. */
export async function stepFailed(
  turn: TurnParts,
  { stepIndex }: CallLlmAction,
  error: unknown,
  opening: Omit<StepClose, 'stepIndex'>,
): Promise<KernelEvent> {
  const { fence, meter } = turn;
  const failed = modelFailure(error, stepIndex);
  // An attempt that was given up for lost may still be at work: it has answered by now, or its answer does not count any more.
  const late = await meter.store.closeStep({ ...fence, stepIndex, ...opening });
  return late ? answered(turn, late) : failed;
}

/** Shows what a model call has brought; the event that the kernel is to be told. */
export function answered(
  { display, kernel, inbox }: TurnParts,
  record: StepOutcomeRecord,
  nowMs = Date.now(),
): KernelEvent {
  display.thought(record);
  inbox.noteRead(record);
  kernel.take(record, nowMs);
  return responseEvent(record, nowMs);
}

/** Has a summary written, by a model or by rule. Errors: the cancellation of the turn, and a lost lease. */
export async function runSummary({ fence, meter, lease }: TurnParts, request: SummarizeAction): Promise<KernelEvent> {
  const { stepIndex, mode } = request;
  const activities = meter.model(mode === 'sprint' ? 'a new sprint' : 'summary of the oldest messages');
  const { profileHash } = lease;
  const { seq, tokens, usage, cost } = await activities.summarize({ ...fence, profileHash, request });
  return { type: 'summarized', nowMs: Date.now(), stepIndex, summary: [seq, 'summary', tokens], usage, cost };
}
