/**
 * The calls of a step, from proposal to result (K1, K7).
 *
 * Invariants
 * 1. `onResults` is the only place that commits results.
 * 2. A call that was approved is not asked about again; one whose arguments were changed is judged by the other stages again.
 */
import { UPDATE_PLAN, WAIT_FOR } from '../protocol/builtins.ts';
import type { ApprovalAsk, DeliverableSource, ExecuteToolsAction, RefusedCall } from './actions.ts';
import {
  type BatchVerdict,
  type CallName,
  type FinishedCall,
  isFinished,
  isWaiting,
  type ProposedCall,
  proposed,
  withDecisions,
  withOutcomes,
} from './calls.ts';
import { type Progress, rollbackReason } from './checkpoint.ts';
import { answerOf, done, isSubmission, terminationBy } from './ending.ts';
import type { ApprovalDecision, ToolResultsEvent } from './events.ts';
import { activated } from './exposure.ts';
import { nextModelCall } from './funnel.ts';
import { gate } from './gate.ts';
import { judge, takeSlot } from './governance.ts';
import { handleOf, merge } from './handles.ts';
import { emit, observed, type StepOutcome } from './outcome.ts';
import { phaseOf } from './phase.ts';
import { rollback } from './rollback.ts';
import type { KernelState } from './state.ts';

/** The calls of a message go through the gate; where all of them are settled already, the step is over at once. */
export function onProposals(state: KernelState, proposals: readonly ProposedCall[], nowMs: number): StepOutcome {
  const { run, refuse, ask, verdict, change, observations } = gate(state, proposals, nowMs);
  const calls = proposed(proposals, new Set(ask.map(({ callId }) => callId)));
  const phase = { kind: 'acting', calls, verdict } as const;
  const next: KernelState = { ...state, ...change, ...progressBy(state, proposals), phase };
  const outcome = calls.every(isFinished)
    ? afterBatch(next, calls, verdict, nowMs)
    : emit(next, execute(state.stepIndex, run, refuse, ask));
  return observed(observations, outcome);
}

/** What calls that are settled already have brought about: skills that were taken up, and a plan that was written. A rollback undoes it. */
function progressBy(
  { config, skills, planCall, stepIndex }: KernelState,
  proposals: readonly ProposedCall[],
): Pick<Progress, 'skills' | 'planCall'> {
  const succeeded = proposals.filter(({ settled }) => settled?.status === 'success');
  const taken = succeeded.flatMap(({ skill }) => skill ?? []);
  const planned = succeeded.findLast(({ tool }) => tool === UPDATE_PLAN);
  return {
    skills: taken.length > 0 ? activated(config.exposure?.skills ?? [], skills, taken, stepIndex) : skills,
    planCall: planned?.callId ?? planCall,
  };
}

const execute = (
  stepIndex: number,
  run: readonly CallName[],
  refuse: readonly RefusedCall[],
  ask: readonly ApprovalAsk[] = [],
): ExecuteToolsAction => ({
  type: 'execute_tools',
  stepIndex,
  calls: run.map(({ callId, tool }) => ({ callId, tool })),
  ...(refuse.length > 0 ? { refuse } : {}),
  ...(ask.length > 0 ? { ask } : {}),
});

/** Results came, and with them the deadlines of calls that wait on; the turn waits until all calls of the step are settled. */
export function onResults(state: KernelState, { settled, suspended, nowMs }: ToolResultsEvent): StepOutcome {
  const phase = phaseOf(state, 'acting');
  const calls = withOutcomes(phase.calls, settled, suspended);
  const handles = merge(state.handles, settled.map(handleOf));
  const next: KernelState = { ...state, handles, phase: { ...phase, calls } };
  if (calls.every(isFinished)) return afterBatch(next, calls, phase.verdict, nowMs);
  const waiting = calls.filter(isWaiting);
  const deadline = Math.min(...waiting.map((call) => call.deadline));
  const wait = waiting.some((call) => call.gated) ? 'approval' : 'tools';
  return emit(next, { type: 'await', wait, deadline });
}

/** All calls of the step are settled: a submission, a verdict or a terminating tool ends the turn, else the model goes on (T19). */
function afterBatch(
  state: KernelState,
  calls: readonly FinishedCall[],
  verdict: BatchVerdict | null,
  nowMs: number,
): StepOutcome {
  const { mustEndWith, rollbackOn } = state.config;
  const submitted = calls.find(({ tool, result }) => isSubmission(tool, result));
  if (submitted) return done(state, { status: 'success' }, { from: 'submit_result', callId: submitted.callId });
  if (verdict?.outcome === 'end') {
    const termination = { status: 'failed', errorCode: 'policy_denied', reason: verdict.reason } as const;
    return done(state, termination, { from: 'fallback' });
  }
  const last = terminating(calls);
  if (last) return done(state, terminationBy(last.tool, last.result), deliverableOf(state, last));
  // The turn goes on: what was said until here is no part of its answer (K11).
  const next = { ...state, answerParts: [] };
  const reason = verdict?.reason ?? rollbackReason(calls, rollbackOn);
  if (reason !== null) return rollback(next, reason, nowMs);
  const requiredToolDone = calls.some(({ tool, result }) => mustEndWith.includes(tool) && result.status === 'success');
  return nextModelCall({ ...next, requiredToolDone, rollbacks: 0 }, nowMs);
}

/** What a terminating tool returns; of an agent that waits, what it said beside its call and before it, if it said anything (A8, K11). */
const deliverableOf = (state: KernelState, { tool, callId }: FinishedCall): DeliverableSource =>
  tool === WAIT_FOR && (state.lastThought?.hasText || state.answerParts.length > 0)
    ? answerOf(state)
    : { from: 'tool_result', callId };

/** The call that ends the turn: of several the first that did not succeed, so that a failure is never reported as success. */
function terminating(calls: readonly FinishedCall[]): FinishedCall | undefined {
  const ends = calls.filter(({ result }) => result.afterExecution === 'terminate');
  return ends.find(({ result }) => result.status !== 'success') ?? ends[0];
}

/** People have decided about calls that waited for approval: these run or get their refusals, while others of the step may wait on. */
export function onDecisions(state: KernelState, decisions: readonly ApprovalDecision[], nowMs: number): StepOutcome {
  const phase = phaseOf(state, 'acting');
  const byId = new Map(decisions.map((decision) => [decision.callId, decision]));
  let next = state;
  const run: CallName[] = [];
  const refuse: RefusedCall[] = [];
  for (const call of phase.calls) {
    const decision = byId.get(call.callId);
    if (!decision) continue;
    const refusal = refusalOf(state, call, decision, nowMs);
    if (refusal) refuse.push(refusal);
    else run.push(call);
    next = refusal ? { ...next, toolCalls: next.toolCalls - 1 } : withSlot(next, call.tool, nowMs);
  }
  const calls = withDecisions(phase.calls, new Set(byId.keys()));
  return emit({ ...next, phase: { ...phase, calls } }, execute(state.stepIndex, run, refuse));
}

/** Why a call does not run although it was waited for; null when it does. Arguments that were changed are judged again (K7). */
function refusalOf(
  { config, rateWindows }: KernelState,
  { callId, tool }: CallName,
  { decision, by, reason, edited }: ApprovalDecision,
  nowMs: number,
): RefusedCall | null {
  const why = reason ? `: ${reason}` : '';
  if (decision === 'denied')
    return { callId, tool, code: 'approval_denied', message: `${by ?? 'an approver'} denied ${tool}${why}` };
  if (decision === 'unanswered')
    return { callId, tool, code: 'approval_unanswered', message: `nobody approved ${tool} in time; it was not run` };
  if (!edited || !config.governance) return null;
  const { verdict } = judge(config.governance, rateWindows, tool, edited.facts, nowMs);
  return verdict.decision === 'deny'
    ? { callId, tool, code: 'governance_denied', message: `${tool} was not run as edited: ${verdict.reason}` }
    : null;
}

const withSlot = (state: KernelState, tool: string, nowMs: number): KernelState =>
  state.config.governance
    ? { ...state, rateWindows: takeSlot(state.config.governance, state.rateWindows, tool, nowMs) }
    : state;
