/**
 * The funnel: the only place that asks for a model call (K3).
 *
 * Invariants
 * 1. Budgets come first; on a hit one final report is asked for, or an operator (K9).
 * 2. Then room is made for the prompt; a summary comes before the call it makes room for (K15).
 * 3. Every request for a model call leaves a checkpoint to return to (K13).
 */
import { SUBMIT_RESULT } from '../protocol/builtins.ts';
import type { CallLlmAction, Observation, StateLine, SummarizeAction } from './actions.ts';
import { type BudgetHit, costUsed, exhaustedBudget, terminationOf, withUsage } from './budgets.ts';
import { checkpointOf } from './checkpoint.ts';
import { withMarks } from './context.ts';
import { done } from './ending.ts';
import type { SummarizedEvent } from './events.ts';
import { type Departure, departingExtents, makeRoom, summaryTokens, withoutDeparted } from './eviction.ts';
import { inUse, offeredTools } from './exposure.ts';
import { FUSE_WARNS, toolOf } from './fuse.ts';
import { userMessages } from './handles.ts';
import type { CallExtra } from './model-call.ts';
import { emit, observed, type StepOutcome } from './outcome.ts';
import { planOf, planOfDeparting } from './plan.ts';
import { roomLeft } from './pressure.ts';
import type { KernelState } from './state.ts';

/** How long an operator has, when the profile's approvals say nothing else. */
const OPERATOR_DEADLINE_MS = 24 * 3_600_000;

/** The model is told when this many steps are left, the one asked for included (K10). */
const STEPS_LEFT_SAID = 2;

export function callModel(state: KernelState, nowMs: number, extra: CallExtra = {}, forced = false): StepOutcome {
  const hit = exhaustedBudget(state, nowMs);
  if (hit === null) return withRoom(state, nowMs, onLastStep(state, extra), forced);
  const seen: Observation = { type: 'budget_hit', code: hit.code, used: hit.used, limit: hit.limit };
  const asks = state.budgets.onExhausted === 'ask' && extendable(state, hit);
  return observed([seen], asks ? askOperator(state, hit, nowMs, extra) : finalReport(state, hit, nowMs, forced));
}

/** Nothing lifts the fuse, nor a limit of what nobody can count. */
const extendable = (state: KernelState, { code }: BudgetHit): boolean =>
  code !== 'no_progress' && (code !== 'budget_cost' || costUsed(state) !== null);

export function finalReport(state: KernelState, hit: BudgetHit, nowMs: number, forced = false): StepOutcome {
  const termination = terminationOf(hit);
  const extra: CallExtra = {
    onlyTools: state.config.submitResult ? [SUBMIT_RESULT] : [],
    note: { kind: 'final_report', reason: hit.reason },
  };
  return withRoom({ ...state, ending: termination }, nowMs, extra, forced);
}

const OVERFLOW = {
  status: 'failed',
  errorCode: 'context_overflow',
  reason: 'the conversation does not fit the window of the model, however much of it is left out',
} as const;

/** `forced`: the provider found the last prompt too long (K11). */
export function withRoom(state: KernelState, nowMs: number, extra: CallExtra, forced = false): StepOutcome {
  const room = makeRoom(state, nowMs, forced);
  const next = withMarks(state, room.marks);
  if (room.kind === 'fits') return request(next, room.tokens, extra);
  if (room.kind === 'overflow') return done(next, OVERFLOW, { from: 'fallback' });
  return summarize(next, room.departure, extra);
}

function summarize(state: KernelState, departure: Departure, extra: CallExtra): StepOutcome {
  const hide = departingExtents(state, departure);
  const action: SummarizeAction = {
    type: 'summarize',
    stepIndex: state.stepIndex + 1,
    mode: departure.mode,
    ...(state.ending === null ? {} : { byRule: true as const }),
    plan: planOfDeparting(state, hide),
    hide,
    maxTokens: summaryTokens(state),
  };
  const departing = { departure, extra };
  return emit({ ...state, lifecycle: 'running', phase: 'delta', outstanding: [], operator: null, departing }, action);
}

/** The budgets may have been used up by the summary itself: they are asked again, unless this is the report already. */
export function onSummarized(state: KernelState, event: SummarizedEvent): StepOutcome {
  const { departing, ending } = state;
  if (!departing) throw new TypeError('a summary nobody waits for');
  const { departure, extra } = departing;
  const { view, saved } = withoutDeparted(state, departure, event.summary);
  const sprint = state.context.sprint + (departure.mode === 'sprint' ? 1 : 0);
  const next: KernelState = {
    ...state,
    ...view,
    ...withUsage(state, event.usage, event.cost),
    phase: 'reason',
    departing: null,
    context: { ...view.context, sprint },
  };
  const { units, seqs, mode } = departure;
  const seen: Observation = { type: 'shortened', mode, cards: units + seqs.length, tokens: saved };
  const ask = ending === null ? callModel : withRoom;
  return observed([seen], ask(next, event.nowMs, extra));
}

function request(state: KernelState, tokens: number, extra: CallExtra): StepOutcome {
  const stepIndex = state.stepIndex + 1;
  const { toHide } = state;
  const skills = inUse(state.skills, stepIndex);
  const next: KernelState = {
    ...state,
    lifecycle: 'running',
    phase: 'reason',
    stepIndex,
    skills,
    outstanding: [],
    operator: null,
    asks: [],
    asked: extra,
    context: { ...state.context, estimate: tokens },
    checkpoint: checkpointOf({ ...state, skills }),
  };
  const stateBlock = stateLines(next);
  const offered = offeredTools(next.config.exposure, next.skills);
  const action: CallLlmAction = {
    type: 'call_llm',
    stepIndex,
    plan: planOf(next),
    room: roomLeft(next, tokens),
    ...(offered ? { onlyTools: offered } : {}),
    ...extra,
    ...(stateBlock.length > 0 ? { stateBlock } : {}),
    ...(toHide.length > 0 ? { hide: toHide } : {}),
  };
  return emit(next, action);
}

/** A turn that must end with a tool gets its last chance to call one (K10). */
function onLastStep(state: KernelState, extra: CallExtra): CallExtra {
  const { mustEndWith } = state.config;
  const last = state.stepIndex + 1 === state.budgets.maxSteps;
  if (!last || mustEndWith.length === 0 || state.requiredToolDone) return extra;
  return { ...extra, onlyTools: mustEndWith, requireTool: true };
}

/** What users said is said again when so many cards have come behind it (K14). */
const FAR = 10;

/** As many messages as leave eight when some of them say the same. */
const MOST_MESSAGES = 16;

function farBehind({ handles }: KernelState): readonly number[] {
  const near = handles[handles.length - FAR]?.[0] ?? 0;
  return near === 0 ? [] : userMessages(handles, MOST_MESSAGES).filter((seq) => seq < near);
}

function stateLines(state: KernelState): readonly StateLine[] {
  const { ending, stepIndex, budgets, streaks, planCall, outputBoxId: boxId } = state;
  const seqs = farBehind(state);
  const told: StateLine[] = seqs.length === 0 ? [] : [{ kind: 'user_messages', boxId, seqs }];
  const kept: StateLine[] = planCall === null ? told : [...told, { kind: 'plan', callId: planCall }];
  if (ending !== null) return kept;
  const steps = budgets.maxSteps - stepIndex + 1;
  const left: StateLine[] = steps <= STEPS_LEFT_SAID ? [{ kind: 'steps_left', steps }] : [];
  const repeating = Object.entries(streaks)
    .filter(([, times]) => times >= FUSE_WARNS)
    .map(([signature, times]): StateLine => ({ kind: 'repeating', tool: toolOf(signature), times }));
  return [...kept, ...left, ...repeating];
}

function askOperator(
  state: KernelState,
  { code, used, limit }: BudgetHit,
  nowMs: number,
  extra: CallExtra,
): StepOutcome {
  const deadline = nowMs + (state.config.governance?.approvals.deadlineMs ?? OPERATOR_DEADLINE_MS);
  // Asked again before the next model call, it is another question: the answer to the first one has been given.
  const times = state.asks.filter((asked) => asked === code).length;
  const askId = `budget-${state.stepIndex}-${code}${times === 0 ? '' : `-${times + 1}`}`;
  const asked = { askId, code, used, limit, deadline };
  const next: KernelState = {
    ...state,
    lifecycle: 'suspended',
    phase: 'reason',
    outstanding: [],
    operator: { ...asked, extra },
    asks: [...state.asks, code],
  };
  return emit(next, { type: 'await', wait: 'operator', ...asked });
}
