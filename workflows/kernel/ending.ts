/** How a turn ends: what is said about it, and where its deliverable comes from (T6, T8). */
import { SUBMIT_RESULT } from '../protocol/builtins.ts';
import type { Termination } from '../protocol/turn.ts';
import type { DeliverableSource } from './actions.ts';
import type { ProposedCall, SettledCall } from './calls.ts';
import { emit, type StepOutcome } from './outcome.ts';
import type { KernelState } from './state.ts';

/** The turn ends. Cards that no model call has hidden for certain are hidden with the end (K13). */
export function done(state: KernelState, termination: Termination, deliverable: DeliverableSource): StepOutcome {
  const hide = state.toHide.length > 0 ? { hide: state.toHide } : {};
  return emit({ ...state, phase: { kind: 'done', termination } }, { type: 'done', termination, deliverable, ...hide });
}

/** The last message of the model as the deliverable, with the messages before it that belong to the same answer (K11). */
export const answerOf = ({ lastThought, answerParts: parts }: KernelState): DeliverableSource => {
  const cardId = lastThought?.cardId ?? '';
  return parts.length === 0 ? { from: 'thought', cardId } : { from: 'thought', cardId, parts };
};

/**
 * The final report is in (K9): its submitted fields, or else its text, are the deliverable. Other calls in it are not run.
 */
export function finishReport(state: KernelState, ending: Termination, calls: readonly ProposedCall[]): StepOutcome {
  const submitted = calls.find(({ tool, settled }) => settled && isSubmission(tool, settled));
  if (submitted) return done(state, ending, { from: 'submit_result', callId: submitted.callId });
  if (state.lastThought?.hasText) return done(state, ending, { from: 'thought', cardId: state.lastThought.cardId });
  return withoutReport(state, ending);
}

/** The final report was asked for and did not come: the turn fails, with the code of the budget that was used up. */
export const withoutReport = (state: KernelState, ending: Termination): StepOutcome =>
  done(state, { ...ending, status: 'failed' }, { from: 'fallback' });

/** How a terminating tool ends the turn, by the status of its result (T8, T19). */
export function terminationBy(tool: string, { status, errorCode }: SettledCall): Termination {
  if (status === 'success' || status === 'partial') return { status };
  return {
    status: status === 'timeout' || status === 'canceled' ? status : 'failed',
    errorCode: errorCode ?? 'tool_failed',
    reason: `the terminating tool ${tool} ended ${status}`,
  };
}

/** Whether this result is an accepted `submit_result`, which is the turn's deliverable (T28). */
export const isSubmission = (tool: string, { status }: SettledCall): boolean =>
  tool === SUBMIT_RESULT && status === 'success';
