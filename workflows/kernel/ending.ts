/** How a turn ends: what is said about it, and where its deliverable comes from (T6, T8). */
import { SUBMIT_RESULT } from '../protocol/builtins.ts';
import type { Termination } from '../protocol/turn.ts';
import type { DeliverableSource } from './actions.ts';
import type { OutstandingCall, SettledCall } from './calls.ts';
import { emit, type StepOutcome } from './outcome.ts';
import type { KernelState } from './state.ts';

export function done(state: KernelState, termination: Termination, deliverable: DeliverableSource): StepOutcome {
  const next: KernelState = {
    ...state,
    lifecycle: 'done',
    phase: 'reason',
    outstanding: [],
    operator: null,
    ending: null,
    termination,
  };
  const hide = state.toHide.length > 0 ? { hide: state.toHide } : {};
  return emit(next, { type: 'done', termination, deliverable, ...hide });
}

/** The last thought, with those before it that belong to the same answer. */
export const answerOf = ({ lastThought, answerParts: parts }: KernelState): DeliverableSource => {
  const cardId = lastThought?.cardId ?? '';
  return parts.length === 0 ? { from: 'thought', cardId } : { from: 'thought', cardId, parts };
};

/** The response to the final report: its text or its submitted fields; other calls in it were refused unrun. */
export function finishReport(state: KernelState, ending: Termination, calls: readonly OutstandingCall[]): StepOutcome {
  const submitted = calls.find(isSubmission);
  if (submitted) return done(state, ending, { from: 'submit_result', callId: submitted.callId });
  if (state.lastThought?.hasText) return done(state, ending, { from: 'thought', cardId: state.lastThought.cardId });
  return withoutReport(state, ending);
}

/** The report was asked for and did not come. */
export const withoutReport = (state: KernelState, ending: Termination): StepOutcome =>
  done(state, { ...ending, status: 'failed' }, { from: 'fallback' });

export function terminationBy(tool: string, call: SettledCall): Termination {
  if (call.status === 'success' || call.status === 'partial')
    return { status: call.status === 'success' ? 'success' : 'partial' };
  const status = call.status === 'timeout' ? 'timeout' : call.status === 'canceled' ? 'canceled' : 'failed';
  return {
    status,
    errorCode: call.errorCode ?? 'tool_failed',
    reason: `the terminating tool ${tool} ended ${call.status}`,
  };
}

export const isSubmission = (call: OutstandingCall): boolean =>
  call.tool === SUBMIT_RESULT && call.settled?.status === 'success';
