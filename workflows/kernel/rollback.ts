/**
 * Rollback (K13): the conversation returns to where it was before the last model call, and the model is told why.
 *
 * Invariants
 * 1. Steps, tokens, rate windows and streaks are spent all the same, so that a loop of rollbacks ends by a budget.
 * 2. The third rollback in a row fails the turn.
 */
import type { Observation } from './actions.ts';
import { withoutLastStep } from './checkpoint.ts';
import { done, withoutReport } from './ending.ts';
import { callModel } from './funnel.ts';
import type { Note } from './model-call.ts';
import { observed, type StepOutcome } from './outcome.ts';
import type { KernelState } from './state.ts';

const MOST_IN_A_ROW = 3;

export function rollback(state: KernelState, reason: string, nowMs: number): StepOutcome {
  if (state.ending !== null) return withoutReport(state, state.ending);
  const { change, cards } = withoutLastStep(state);
  const next: KernelState = { ...state, ...change, outstanding: [], verdict: null };
  const { rollbacks } = next;
  const note: Note = state.answerParts.length > 0 ? { kind: 'go_on' } : { kind: 'rolled_back', reason };
  const seen: Observation = { type: 'rolled_back', reason, cards, inARow: rollbacks };
  if (rollbacks < MOST_IN_A_ROW) return observed([seen], callModel(next, nowMs, { note }));
  const termination = {
    status: 'failed',
    errorCode: 'no_progress',
    reason: `${rollbacks} steps in a row had to be taken back; the last because ${reason}`,
  } as const;
  return observed([seen], done(next, termination, { from: 'fallback' }));
}
