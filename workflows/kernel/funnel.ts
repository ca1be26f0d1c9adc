/**
 * The funnel: the only place that asks for a model call (K3).
 *
 * Invariants
 * 1. Budgets come first. When one is used up, one final report is asked for, or an operator (K9).
 * 2. Then room is made for the prompt; a summary comes before the call that it makes room for (K15).
 * 3. Every request for a model call leaves a checkpoint to return to (K13).
 */
import { SUBMIT_RESULT } from '../protocol/builtins.ts';
import type { CallLlmAction, Observation, SummarizeAction } from './actions.ts';
import { type BudgetHit, costUsed, exhaustedBudget, questionAbout, terminationOf } from './budgets.ts';
import { checkpointOf } from './checkpoint.ts';
import { withMarks } from './context.ts';
import { type Departure, departingExtents } from './departure.ts';
import { done } from './ending.ts';
import { makeRoom, summaryTokens } from './eviction.ts';
import { inUse, offeredTools } from './exposure.ts';
import type { CallExtra, ModelCall } from './model-call.ts';
import { emit, observed, type StepOutcome } from './outcome.ts';
import { planOf, planOfDeparting } from './plan.ts';
import { roomLeft } from './pressure.ts';
import type { KernelState } from './state.ts';
import { stateLines } from './state-block.ts';

/** How long an operator has to answer where the profile's approvals say nothing else. */
const OPERATOR_DEADLINE_MS = 24 * 3_600_000;

/**
 * The next step: the model is called, unless a budget is used up. `forced` after the provider found the last prompt too long: everything
 * that may go goes (K11).
 */
export function nextModelCall(state: KernelState, nowMs: number, extra: CallExtra = {}, forced = false): StepOutcome {
  const hit = exhaustedBudget(state, nowMs);
  if (hit === null) return withRoom(state, nowMs, { extra: onLastStep(state, extra), ending: null }, forced);
  const seen: Observation = { type: 'budget_hit', code: hit.code, used: hit.used, limit: hit.limit };
  const asks = state.budgets.onExhausted === 'ask' && extendable(state, hit);
  return observed([seen], asks ? askOperator(state, hit, nowMs, extra) : finalReport(state, hit, nowMs, forced));
}

/**
 * The same call once more, after a summary or with a shorter prompt. The budgets may have been used up meanwhile and are checked again,
 * but not for the final report, which comes after them.
 */
export const callAgain = (state: KernelState, nowMs: number, call: ModelCall, forced = false): StepOutcome =>
  call.ending === null ? nextModelCall(state, nowMs, call.extra, forced) : withRoom(state, nowMs, call, forced);

/** The one model call that a turn still gets when a budget is used up (K9). */
export function finalReport(state: KernelState, hit: BudgetHit, nowMs: number, forced = false): StepOutcome {
  const extra: CallExtra = {
    onlyTools: state.config.submitResult ? [SUBMIT_RESULT] : [],
    note: { kind: 'final_report', reason: hit.reason },
  };
  return withRoom(state, nowMs, { extra, ending: terminationOf(hit) }, forced);
}

/** Whether an operator can extend the budget: nothing lifts the fuse, nor a limit of money that nobody can count. */
const extendable = (state: KernelState, { code }: BudgetHit): boolean =>
  code !== 'no_progress' && (code !== 'budget_cost' || costUsed(state) !== null);

function askOperator(state: KernelState, hit: BudgetHit, nowMs: number, extra: CallExtra): StepOutcome {
  const deadline = nowMs + (state.config.governance?.approvals.deadlineMs ?? OPERATOR_DEADLINE_MS);
  const question = questionAbout(state, hit, deadline);
  const next: KernelState = { ...state, phase: { kind: 'asking', question, extra }, asks: [...state.asks, hit.code] };
  return emit(next, { type: 'await', wait: 'operator', ...question });
}

const OVERFLOW = {
  status: 'failed',
  errorCode: 'context_overflow',
  reason: 'the conversation does not fit the window of the model, however much of it is left out',
} as const;

function withRoom(state: KernelState, nowMs: number, call: ModelCall, forced: boolean): StepOutcome {
  const room = makeRoom(state, nowMs, forced);
  const next = withMarks(state, room.marks);
  switch (room.kind) {
    case 'fits':
      return request(next, room.tokens, call);
    case 'depart':
      return summarize(next, room.departure, call);
    case 'overflow':
      return done(next, OVERFLOW, { from: 'fallback' });
  }
}

function summarize(state: KernelState, departure: Departure, call: ModelCall): StepOutcome {
  const hide = departingExtents(state, departure);
  const action: SummarizeAction = {
    type: 'summarize',
    stepIndex: state.stepIndex + 1,
    mode: departure.mode,
    ...(call.ending === null ? {} : { byRule: true as const }),
    plan: planOfDeparting(state, hide),
    hide,
    maxTokens: summaryTokens(state),
  };
  return emit({ ...state, phase: { kind: 'shortening', departure, call } }, action);
}

function request(state: KernelState, tokens: number, call: ModelCall): StepOutcome {
  const stepIndex = state.stepIndex + 1;
  const skills = inUse(state.skills, stepIndex);
  const next: KernelState = {
    ...state,
    phase: { kind: 'reasoning', call },
    stepIndex,
    skills,
    asks: [],
    context: { ...state.context, estimate: tokens },
    checkpoint: checkpointOf({ ...state, skills }),
  };
  return emit(next, llmAction(next, tokens, call));
}

function llmAction(state: KernelState, tokens: number, { extra, ending }: ModelCall): CallLlmAction {
  const { stepIndex, toHide, config, skills } = state;
  const offered = offeredTools(config.exposure, skills);
  const stateBlock = stateLines(state, ending !== null);
  return {
    type: 'call_llm',
    stepIndex,
    plan: planOf(state),
    room: roomLeft(state, tokens),
    ...(offered ? { onlyTools: offered } : {}),
    ...extra,
    ...(stateBlock.length > 0 ? { stateBlock } : {}),
    ...(toHide.length > 0 ? { hide: toHide } : {}),
  };
}

/** A turn that must end with a tool is offered only that tool on its last step (K10). */
function onLastStep(state: KernelState, extra: CallExtra): CallExtra {
  const { mustEndWith } = state.config;
  const last = state.stepIndex + 1 === state.budgets.maxSteps;
  if (!last || mustEndWith.length === 0 || state.requiredToolDone) return extra;
  return { ...extra, onlyTools: mustEndWith, requireTool: true };
}
