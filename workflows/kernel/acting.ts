/**
 * The calls of a step, from proposal to result (K1, K7).
 *
 * Invariants
 * 1. `onResults` is the only place that commits results.
 * 2. A call that was approved is not asked about again; one whose arguments were changed is judged by the other stages again.
 */
import { UPDATE_PLAN } from '../protocol/builtins.ts';
import type { ExecuteToolsAction, Observation, RefusedCall } from './actions.ts';
import { exhaustedBudget, withChangedBudgets } from './budgets.ts';
import type { OutstandingCall, ProposedCall, SettledCall } from './calls.ts';
import { rollbackReason } from './checkpoint.ts';
import { done, isSubmission, terminationBy } from './ending.ts';
import type { ApprovalDecision, ApprovalsAnsweredEvent, ToolResultsEvent } from './events.ts';
import { activated } from './exposure.ts';
import { callModel, finalReport } from './funnel.ts';
import { type Gated, gate } from './gate.ts';
import { judge, takeSlot } from './governance.ts';
import { type Handle, merge } from './handles.ts';
import { emit, observed, type StepOutcome } from './outcome.ts';
import { rollback } from './rollback.ts';
import type { KernelState, OperatorAsk } from './state.ts';

export function onProposals(state: KernelState, calls: readonly ProposedCall[], nowMs: number): StepOutcome {
  const gated = gate(state, calls, nowMs);
  const reasons = new Map(gated.ask.map((ask) => [ask.callId, ask.reason]));
  const outstanding = calls.map(({ callId, tool, settled }): OutstandingCall => {
    const reason = reasons.get(callId);
    const gate = reason === undefined ? {} : { gated: reason };
    return { callId, tool, settled: settled ?? null, deadline: null, ...gate };
  });
  const taken = calls.flatMap(({ skill, settled }) =>
    skill !== undefined && settled?.status === 'success' ? [skill] : [],
  );
  const { exposure } = state.config;
  const skills =
    taken.length > 0 ? activated(exposure?.skills ?? [], state.skills, taken, state.stepIndex) : state.skills;
  const planned = calls.findLast(({ tool, settled }) => tool === UPDATE_PLAN && settled?.status === 'success');
  const planCall = planned?.callId ?? state.planCall;
  const next: KernelState = { ...state, ...gated.change, skills, planCall, phase: 'act', outstanding };
  const isOver = outstanding.every((call) => call.settled !== null);
  return observed(gated.observations, isOver ? afterBatch(next, nowMs) : emit(next, execute(state.stepIndex, gated)));
}

function execute(
  stepIndex: number,
  { run, refuse, ask }: Pick<Gated, 'refuse' | 'ask'> & { run: readonly { callId: string; tool: string }[] },
): ExecuteToolsAction {
  return {
    type: 'execute_tools',
    stepIndex,
    calls: run.map(({ callId, tool }) => ({ callId, tool })),
    ...(refuse.length > 0 ? { refuse } : {}),
    ...(ask.length > 0 ? { ask } : {}),
  };
}

export function onResults(state: KernelState, event: ToolResultsEvent): StepOutcome {
  const settled = new Map(event.settled.map((call) => [call.callId, call]));
  const deadlines = new Map(event.suspended.map((call) => [call.callId, call.deadline]));
  const outstanding = state.outstanding.map((call) => ({
    ...call,
    settled: call.settled ?? settled.get(call.callId) ?? null,
    deadline: settled.has(call.callId) ? null : (deadlines.get(call.callId) ?? call.deadline),
  }));
  const next: KernelState = {
    ...state,
    outstanding,
    handles: merge(state.handles, event.settled.map(toHandle)),
  };
  const waiting = outstanding.filter((call) => call.settled === null);
  if (waiting.length === 0) return afterBatch(next, event.nowMs);
  const deadline = Math.min(...waiting.map((call) => call.deadline ?? Number.POSITIVE_INFINITY));
  const wait = waiting.some((call) => call.gated !== undefined) ? 'approval' : 'tools';
  return emit({ ...next, lifecycle: 'suspended' }, { type: 'await', wait, deadline });
}

/** All calls of the step are settled: a terminating one ends the turn, else the model goes on (T19). */
function afterBatch(state: KernelState, nowMs: number): StepOutcome {
  const { config, outstanding, verdict } = state;
  const settled = outstanding.flatMap((call) => (call.settled ? [call] : []));
  const submitted = settled.find(isSubmission);
  if (submitted) return done(state, { status: 'success' }, { from: 'submit_result', callId: submitted.callId });
  if (verdict?.outcome === 'end') {
    const termination = { status: 'failed', errorCode: 'policy_denied', reason: verdict.reason } as const;
    return done(state, termination, { from: 'fallback' });
  }
  const terminating = settled.filter((call) => call.settled?.afterExecution === 'terminate');
  const deciding = terminating.find((call) => call.settled?.status !== 'success') ?? terminating[0];
  if (deciding?.settled) {
    const termination = terminationBy(deciding.tool, deciding.settled);
    return done(state, termination, { from: 'tool_result', callId: deciding.callId });
  }
  const reason = verdict?.reason ?? rollbackReason(settled, config.rollbackOn);
  if (reason !== null) return rollback(state, reason, nowMs);
  const requiredToolDone = settled.some(
    (call) => config.mustEndWith.includes(call.tool) && call.settled?.status === 'success',
  );
  return callModel({ ...state, requiredToolDone, rollbacks: 0 }, nowMs);
}

export function onApproval(state: KernelState, { answers, nowMs }: ApprovalsAnsweredEvent): StepOutcome {
  const observations = answers.map(
    ({ callId, decision }): Observation => ({ type: 'approval_answered', callId, decision }),
  );
  const [answer] = answers;
  if (state.operator && answer) return observed(observations, onOperator(state, state.operator, answer, nowMs));
  const byId = new Map(answers.map((one) => [one.callId, one]));
  let next = state;
  const run: OutstandingCall[] = [];
  const refuse: RefusedCall[] = [];
  for (const call of state.outstanding) {
    const given = byId.get(call.callId);
    if (!given) continue;
    const refusal = refusalOf(state, call, given, nowMs);
    if (refusal) refuse.push(refusal);
    else run.push(call);
    next = refusal ? { ...next, toolCalls: next.toolCalls - 1 } : withSlot(next, call.tool, nowMs);
  }
  const outstanding = state.outstanding.map((call) => {
    if (!byId.has(call.callId)) return call;
    const { gated: _, ...running } = call;
    return { ...running, deadline: null };
  });
  const action = execute(state.stepIndex, { run, refuse, ask: [] });
  return observed(observations, emit({ ...next, lifecycle: 'running', outstanding }, action));
}

function refusalOf(
  { config, rateWindows }: KernelState,
  { callId, tool }: OutstandingCall,
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

/** Extended, be it by other means, the turn goes on as if the budget had been larger; else it reports (K9). */
function onOperator(
  state: KernelState,
  { code, used, limit, extra }: OperatorAsk,
  { decision, budgets }: ApprovalDecision,
  nowMs: number,
): StepOutcome {
  if (decision === 'approved') {
    const extended: KernelState = { ...state, ...withChangedBudgets(state, budgets), operator: null };
    const seen: Observation = { type: 'budgets_changed', budgets: budgets ?? {} };
    return observed([seen], callModel(extended, nowMs, extra));
  }
  if (decision === 'unanswered' && exhaustedBudget(state, nowMs) === null)
    return callModel({ ...state, operator: null }, nowMs, extra);
  const hit = {
    code,
    used,
    limit,
    reason: `${used} of ${limit} used, and nobody extended the budget (${code})`,
  };
  return finalReport(state, hit, nowMs);
}

export const toHandle = (call: SettledCall): Handle => [call.seq, 'tool', call.tokens];
