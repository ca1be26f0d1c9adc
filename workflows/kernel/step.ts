/**
 * The loop kernel: `step(state, event) → {state, actions, observations}`. Pure: no clock, ids, randomness, await or I/O.
 *
 * Invariants
 * 1. funnel.ts is the only place that emits `call_llm`; acting.ts the only one that commits tool results.
 * 2. Every event yields at most one action; an event that does not apply changes nothing and is observed (K1).
 * 3. After `done` nothing is emitted.
 */
import type { BudgetChange } from '../protocol/profile.ts';
import { onDecisions, onProposals, onResults } from './acting.ts';
import type { Observation } from './actions.ts';
import { onOperatorDecision } from './asking.ts';
import { withChangedBudgets } from './budgets.ts';
import { checkpointBeforeLastThought } from './checkpoint.ts';
import { NO_MARKS } from './context.ts';
import { done } from './ending.ts';
import type { ApprovalsAnsweredEvent, BudgetsEvent, KernelEvent, StartEvent } from './events.ts';
import { nextModelCall } from './funnel.ts';
import { merge } from './handles.ts';
import { mismatch } from './legality.ts';
import { observed, type StepOutcome } from './outcome.ts';
import { lifecycleOf } from './phase.ts';
import { onModelFailure, onResponse } from './reasoning.ts';
import { rollback } from './rollback.ts';
import { onSummarized } from './shortening.ts';
import type { KernelState } from './state.ts';

/** What becomes of a turn by an event, and what the driver must do next. */
export function step(state: KernelState, event: KernelEvent): StepOutcome {
  const reason = mismatch(state, event);
  if (reason !== null) {
    const lifecycle = lifecycleOf(state);
    return { state, actions: [], observations: [{ type: 'event_ignored', event: event.type, lifecycle, reason }] };
  }
  switch (event.type) {
    case 'start':
      return onStart(state, event);
    case 'llm_response':
      return onResponse(state, event);
    case 'llm_failed':
      return onModelFailure(state, event);
    case 'summarized':
      return onSummarized(state, event);
    case 'timeout':
      return rollback(state, event.message, event.nowMs);
    case 'tool_results':
      return onResults(state, event);
    case 'approval':
      return onAnswers(state, event);
    case 'budgets':
      return onBudgets(state, event);
    case 'delegated':
      return { state: { ...state, delegated: event.delegated }, actions: [], observations: [] };
    case 'stop':
      return done(state, { status: 'failed', errorCode: event.code, reason: event.reason }, { from: 'fallback' });
    default:
      return exhaustive(event);
  }
}

/** A conversation that is taken up again runs its unanswered calls before the model is called (K22). */
function onStart(state: KernelState, event: StartEvent): StepOutcome {
  const { outputBoxId, earlier, instruction, transcript = [], pending = [], nowMs } = event;
  const { snippets } = state.config;
  const started: KernelState = {
    ...state,
    startedAt: nowMs,
    outputBoxId,
    context: {
      ...state.context,
      earlier: earlier.filter((unit) => unit.boxId === outputBoxId),
      given: earlier.filter((unit) => unit.boxId !== outputBoxId),
      marks: snippets ? { ...NO_MARKS, [snippets]: instruction[0] - 1 } : NO_MARKS,
      activityAt: nowMs,
    },
    handles: merge([instruction], transcript),
  };
  if (pending.length === 0) return nextModelCall(started, nowMs);
  return onProposals({ ...started, checkpoint: checkpointBeforeLastThought(started.handles) }, pending, nowMs);
}

/** Decisions are an operator's about a budget, or those about calls that wait for approval. */
function onAnswers(state: KernelState, { answers, nowMs }: ApprovalsAnsweredEvent): StepOutcome {
  const seen = answers.map(({ callId, decision }): Observation => ({ type: 'approval_answered', callId, decision }));
  const [answer] = answers;
  const isOperator = state.phase.kind === 'asking' && answer !== undefined;
  return observed(seen, isOperator ? onOperatorDecision(state, answer, nowMs) : onDecisions(state, answers, nowMs));
}

/** A workflow that was reset gets the budgets again that it had got before: what is known already is not observed. */
function onBudgets(state: KernelState, { budgets }: BudgetsEvent): StepOutcome {
  const next: KernelState = { ...state, ...withChangedBudgets(state, budgets) };
  if (sameBudgets(next.budgets, state.budgets)) return { state, actions: [], observations: [] };
  return { state: next, actions: [], observations: [{ type: 'budgets_changed', budgets }] };
}

const sameBudgets = (a: BudgetChange, b: BudgetChange): boolean =>
  (Object.keys(a) as (keyof BudgetChange)[]).every((axis) => a[axis] === b[axis]);

function exhaustive(event: never): never {
  throw new TypeError(`unknown kernel event ${JSON.stringify(event)}`);
}
