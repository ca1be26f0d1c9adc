/**
 * The loop kernel: `step(state, event) → {state, actions, observations}`. Pure: no clock, ids, randomness, await or I/O.
 *
 * Invariants
 * 1. `callModel` is the only place that emits `call_llm`; `settle` the only one that commits tool results.
 * 2. Every event yields at most one action; an event that does not apply changes nothing and is observed (K1).
 * 3. After `done` nothing is emitted.
 */
import { SUBMIT_RESULT } from '../protocol/builtins.ts';
import { addUsage, type Termination } from '../protocol/turn.ts';
import type { CallLlmAction, DeliverableSource, KernelAction, Observation, StepOutcome } from './actions.ts';
import { exhaustedBudget } from './budgets.ts';
import type { KernelEvent, LlmFailedEvent, LlmResponseEvent, StartEvent, ToolResultsEvent } from './events.ts';
import { mismatch } from './legality.ts';
import { planOf } from './plan.ts';
import type { Handle, KernelState, OutstandingCall, SettledCall } from './state.ts';

export function step(state: KernelState, event: KernelEvent): StepOutcome {
  const reason = mismatch(state, event);
  if (reason !== null) {
    const ignored: Observation = { type: 'event_ignored', event: event.type, lifecycle: state.lifecycle, reason };
    return { state, actions: [], observations: [ignored] };
  }
  switch (event.type) {
    case 'start':
      return onStart(state, event);
    case 'llm_response':
      return onResponse(state, event);
    case 'llm_failed':
      return onModelFailure(state, event);
    case 'tool_results':
      return onToolResults(state, event);
    case 'stop':
      return done(state, { status: 'failed', errorCode: event.code, reason: event.reason }, { from: 'fallback' });
    default:
      return exhaustive(event);
  }
}

function onStart(state: KernelState, event: StartEvent): StepOutcome {
  const { outputBoxId, memory, instruction } = event;
  return callModel({ ...state, lifecycle: 'running', outputBoxId, memory, handles: [instruction] });
}

/** The funnel: budgets first, then the request. On a hit, one final report is asked for (K9). */
function callModel(
  state: KernelState,
  extra: Pick<CallLlmAction, 'onlyTools' | 'requireTool' | 'note'> = {},
): StepOutcome {
  const hit = exhaustedBudget(state);
  const stepIndex = state.stepIndex + 1;
  const next: KernelState = { ...state, lifecycle: 'running', phase: 'reason', stepIndex, outstanding: [] };
  if (hit === null) return emit(next, { type: 'call_llm', stepIndex, plan: planOf(next), ...extra });
  const { termination, used, limit } = hit;
  const report: CallLlmAction = {
    type: 'call_llm',
    stepIndex,
    plan: planOf(next),
    onlyTools: state.config.submitResult ? [SUBMIT_RESULT] : [],
    note: { kind: 'final_report', reason: termination.reason ?? '' },
  };
  return emit({ ...next, ending: termination }, report, [
    { type: 'budget_hit', code: termination.errorCode ?? '', used, limit },
  ]);
}

const REFUSAL: Termination = { status: 'failed', errorCode: 'provider_refusal', reason: 'the model refused' };

function onResponse(state: KernelState, event: LlmResponseEvent): StepOutcome {
  const outstanding: OutstandingCall[] = event.calls.map(({ callId, tool, settled }) => ({
    callId,
    tool,
    settled: settled ?? null,
    deadline: null,
  }));
  const settled = outstanding.flatMap((call) => (call.settled ? [call.settled] : []));
  const next: KernelState = {
    ...state,
    usage: addUsage(state.usage, event.usage),
    toolCalls: state.toolCalls + event.calls.length,
    handles: merge(state.handles, [...event.handles, ...settled.map(toHandle)]),
    lastThought: { cardId: event.thoughtCardId, hasText: event.hasText },
  };
  if (state.ending !== null && !event.refused) return finishReport(next, state.ending, outstanding);
  if (state.ending !== null) return done(next, { ...state.ending, status: 'failed' }, { from: 'fallback' });
  if (event.refused) return done(next, REFUSAL, { from: 'fallback' });
  if (outstanding.length === 0) return onAnswer(next);
  const calls = outstanding.filter((call) => call.settled === null).map(({ callId, tool }) => ({ callId, tool }));
  const acting: KernelState = { ...next, phase: 'act', outstanding };
  return calls.length === 0
    ? afterBatch(acting)
    : emit(acting, { type: 'execute_tools', stepIndex: state.stepIndex, calls });
}

/** A message without tool calls ends the turn, unless the profile wants it ended by a tool (W13). */
function onAnswer(state: KernelState): StepOutcome {
  const tools = state.config.mustEndWith;
  if (tools.length === 0 || state.requiredToolDone) {
    return done(state, { status: 'success' }, { from: 'thought', cardId: state.lastThought?.cardId ?? '' });
  }
  const reminded = callModel(state, { onlyTools: tools, requireTool: true, note: { kind: 'must_end_with', tools } });
  return { ...reminded, observations: [...reminded.observations, { type: 'reminded', tools }] };
}

function onModelFailure(state: KernelState, event: LlmFailedEvent): StepOutcome {
  if (state.ending !== null) return done(state, { ...state.ending, status: 'failed' }, { from: 'fallback' });
  return done(state, { status: 'failed', errorCode: event.code, reason: event.message }, { from: 'fallback' });
}

/** The response to the final report: its text or its submitted fields; other calls in it were refused unrun. */
function finishReport(state: KernelState, ending: Termination, calls: readonly OutstandingCall[]): StepOutcome {
  const submitted = calls.find(isSubmission);
  if (submitted) return done(state, ending, { from: 'submit_result', callId: submitted.callId });
  if (state.lastThought?.hasText) return done(state, ending, { from: 'thought', cardId: state.lastThought.cardId });
  return done(state, { ...ending, status: 'failed' }, { from: 'fallback' });
}

function onToolResults(state: KernelState, event: ToolResultsEvent): StepOutcome {
  const settled = new Map(event.settled.map((call) => [call.callId, call]));
  const deadlines = new Map(event.suspended.map((call) => [call.callId, call.deadline]));
  const outstanding = state.outstanding.map((call) => ({
    ...call,
    settled: call.settled ?? settled.get(call.callId) ?? null,
    deadline: deadlines.get(call.callId) ?? null,
  }));
  const next: KernelState = { ...state, outstanding, handles: merge(state.handles, event.settled.map(toHandle)) };
  if (event.suspended.length === 0) return afterBatch(next);
  const deadline = Math.min(...event.suspended.map((call) => call.deadline));
  return emit({ ...next, lifecycle: 'suspended' }, { type: 'await', wait: 'tools', deadline });
}

/** All calls of the step are settled: a terminating one ends the turn, else the model goes on (T19). */
function afterBatch(state: KernelState): StepOutcome {
  const settled = state.outstanding.flatMap((call) => (call.settled ? [call] : []));
  const submitted = settled.find(isSubmission);
  if (submitted) return done(state, { status: 'success' }, { from: 'submit_result', callId: submitted.callId });
  const terminating = settled.filter((call) => call.settled?.afterExecution === 'terminate');
  const deciding = terminating.find((call) => call.settled?.status !== 'success') ?? terminating[0];
  if (deciding?.settled) {
    const termination = terminationBy(deciding.tool, deciding.settled);
    return done(state, termination, { from: 'tool_result', callId: deciding.callId });
  }
  const requiredToolDone = settled.some(
    (call) => state.config.mustEndWith.includes(call.tool) && call.settled?.status === 'success',
  );
  return callModel({ ...state, requiredToolDone });
}

function terminationBy(tool: string, call: SettledCall): Termination {
  if (call.status === 'success' || call.status === 'partial')
    return { status: call.status === 'success' ? 'success' : 'partial' };
  const status = call.status === 'timeout' ? 'timeout' : call.status === 'canceled' ? 'canceled' : 'failed';
  return {
    status,
    errorCode: call.errorCode ?? 'tool_failed',
    reason: `the terminating tool ${tool} ended ${call.status}`,
  };
}

const isSubmission = (call: OutstandingCall): boolean =>
  call.tool === SUBMIT_RESULT && call.settled?.status === 'success';

const toHandle = (call: SettledCall): Handle => [call.seq, 'tool', call.tokens];

const merge = (handles: readonly Handle[], more: readonly Handle[]): readonly Handle[] =>
  [...handles, ...more].sort((a, b) => a[0] - b[0]);

function done(state: KernelState, termination: Termination, deliverable: DeliverableSource): StepOutcome {
  const next: KernelState = {
    ...state,
    lifecycle: 'done',
    phase: 'reason',
    outstanding: [],
    ending: null,
    termination,
  };
  return emit(next, { type: 'done', termination, deliverable });
}

const emit = (state: KernelState, action: KernelAction, observations: readonly Observation[] = []): StepOutcome => ({
  state,
  actions: [action],
  observations,
});

function exhaustive(event: never): never {
  throw new TypeError(`unknown kernel event ${JSON.stringify(event)}`);
}
