/**
 * The funnel: the only place that asks for a model call (K3).
 *
 * Invariants
 * 1. Budgets come first; on a hit one final report is asked for, or an operator (K9).
 * 2. Every request for a model call leaves a checkpoint to return to (K13).
 */
import { SUBMIT_RESULT } from '../protocol/builtins.ts';
import type { CallLlmAction, Observation, StateLine, StepOutcome } from './actions.ts';
import { type BudgetHit, exhaustedBudget, terminationOf } from './budgets.ts';
import { emit } from './ending.ts';
import { FUSE_WARNS, toolOf } from './fuse.ts';
import { planOf } from './plan.ts';
import type { CallExtra, KernelState } from './state.ts';

/** How long an operator has, when the profile's approvals say nothing else. */
const OPERATOR_DEADLINE_MS = 24 * 3_600_000;

/** The model is told when this many steps are left, the one asked for included (K10). */
const STEPS_LEFT_TOLD = 2;

export function callModel(
  state: KernelState,
  nowMs: number,
  extra: CallExtra = {},
  observations: readonly Observation[] = [],
): StepOutcome {
  const hit = exhaustedBudget(state, nowMs);
  if (hit === null) return request(state, onLastStep(state, extra), observations);
  const seen: Observation = { type: 'budget_hit', code: hit.code, used: hit.used, limit: hit.limit };
  const askable = state.limits.onExhausted === 'ask' && hit.code !== 'no_progress';
  return askable
    ? askOperator(state, hit, nowMs, extra, [...observations, seen])
    : finalReport(state, hit, [...observations, seen]);
}

export function finalReport(
  state: KernelState,
  hit: BudgetHit,
  observations: readonly Observation[] = [],
): StepOutcome {
  const termination = terminationOf(hit);
  const extra: CallExtra = {
    onlyTools: state.config.submitResult ? [SUBMIT_RESULT] : [],
    note: { kind: 'final_report', reason: hit.reason },
  };
  return request({ ...state, ending: termination }, extra, observations);
}

function request(state: KernelState, extra: CallExtra, observations: readonly Observation[]): StepOutcome {
  const stepIndex = state.stepIndex + 1;
  const { lastThought, requiredToolDone, toHide, handles } = state;
  const next: KernelState = {
    ...state,
    lifecycle: 'running',
    phase: 'reason',
    stepIndex,
    outstanding: [],
    operator: null,
    toHide: [],
    checkpoint: { seq: handles.at(-1)?.[0] ?? 0, lastThought, requiredToolDone },
  };
  const stateBlock = stateLines(next);
  const action: CallLlmAction = {
    type: 'call_llm',
    stepIndex,
    plan: planOf(next),
    ...extra,
    ...(stateBlock.length > 0 ? { stateBlock } : {}),
    ...(toHide.length > 0 ? { hide: toHide } : {}),
  };
  return emit(next, action, observations);
}

/** A turn that must end with a tool gets its last chance to call one (K10). */
function onLastStep(state: KernelState, extra: CallExtra): CallExtra {
  const { mustEndWith } = state.config;
  const last = state.stepIndex + 1 === state.limits.maxSteps;
  if (!last || mustEndWith.length === 0 || state.requiredToolDone) return extra;
  return { ...extra, onlyTools: mustEndWith, requireTool: true };
}

function stateLines({ ending, stepIndex, limits, streaks }: KernelState): readonly StateLine[] {
  if (ending !== null) return [];
  const steps = limits.maxSteps - stepIndex + 1;
  const left: StateLine[] = steps <= STEPS_LEFT_TOLD ? [{ kind: 'steps_left', steps }] : [];
  const repeating = Object.entries(streaks)
    .filter(([, times]) => times >= FUSE_WARNS)
    .map(([signature, times]): StateLine => ({ kind: 'repeating', tool: toolOf(signature), times }));
  return [...left, ...repeating];
}

function askOperator(
  state: KernelState,
  { code, used, limit }: BudgetHit,
  nowMs: number,
  extra: CallExtra,
  observations: readonly Observation[],
): StepOutcome {
  const deadline = nowMs + (state.config.governance?.approvals.deadlineMs ?? OPERATOR_DEADLINE_MS);
  const askId = `budget-${state.stepIndex}-${code}`;
  const asked = { askId, code, used, limit, deadline };
  const next: KernelState = {
    ...state,
    lifecycle: 'suspended',
    phase: 'reason',
    outstanding: [],
    operator: { ...asked, extra },
  };
  return emit(next, { type: 'await', wait: 'operator', ...asked }, observations);
}
