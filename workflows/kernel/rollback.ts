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
import { nextModelCall } from './funnel.ts';
import type { Note } from './model-call.ts';
import { observed, type StepOutcome } from './outcome.ts';
import { endingOf } from './phase.ts';
import type { KernelState } from './state.ts';

const MOST_IN_A_ROW = 3;

/** The last step is taken back for this reason. The final report is not asked for again: without it the turn fails (K9). */
export function rollback(state: KernelState, reason: string, nowMs: number): StepOutcome {
  const ending = endingOf(state);
  if (ending !== null) return withoutReport(state, ending);
  const { change, cards } = withoutLastStep(state);
  const next: KernelState = { ...state, ...change };
  const { rollbacks } = next;
  const seen: Observation = { type: 'rolled_back', reason, cards, inARow: rollbacks };
  if (rollbacks >= MOST_IN_A_ROW) return observed([seen], tooMany(next, reason));
  const note: Note = state.answerParts.length > 0 ? { kind: 'go_on' } : { kind: 'rolled_back', reason };
  return observed([seen], nextModelCall(next, nowMs, { note }));
}

const tooMany = (state: KernelState, reason: string): StepOutcome =>
  done(
    state,
    {
      status: 'failed',
      errorCode: 'no_progress',
      reason: `${state.rollbacks} steps in a row had to be taken back; the last because ${reason}`,
    },
    { from: 'fallback' },
  );
