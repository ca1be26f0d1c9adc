/**
 * The loop kernel: `step(state, event) → {state, actions, observations}`. Pure: no clock, ids, randomness, await or I/O.
 *
 * Invariants
 * 1. funnel.ts is the only place that emits `call_llm`; calls.ts the only one that commits tool results.
 * 2. Every event yields at most one action; an event that does not apply changes nothing and is observed (K1).
 * 3. After `done` nothing is emitted.
 */
import type { BudgetChange } from '../protocol/profile.ts';
import type { Termination } from '../protocol/turn.ts';
import { onApproval, onProposals, onResults, toHandle } from './acting.ts';
import type { Observation } from './actions.ts';
import { withChangedBudgets, withUsage } from './budgets.ts';
import type { OutstandingCall } from './calls.ts';
import { checkpointBeforeLastThought } from './checkpoint.ts';
import type { ContextState } from './context.ts';
import { answerOf, done, finishReport, withoutReport } from './ending.ts';
import type { BudgetsEvent, KernelEvent, LlmFailedEvent, LlmResponseEvent, StartEvent } from './events.ts';
import { callModel, onSummarized, withRoom } from './funnel.ts';
import { type Handle, merge } from './handles.ts';
import { mismatch } from './legality.ts';
import { observed, type StepOutcome } from './outcome.ts';
import { corrected, promptLimit } from './pressure.ts';
import { rollback } from './rollback.ts';
import type { KernelState } from './state.ts';

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
    case 'summarized':
      return onSummarized(state, event);
    case 'timeout':
      return rollback(state, event.message, event.nowMs);
    case 'tool_results':
      return onResults(state, event);
    case 'approval':
      return onApproval(state, event);
    case 'budgets':
      return onBudgets(state, event);
    case 'stop':
      return done(state, { status: 'failed', errorCode: event.code, reason: event.reason }, { from: 'fallback' });
    default:
      return exhaustive(event);
  }
}

function onStart(state: KernelState, event: StartEvent): StepOutcome {
  const { outputBoxId, earlier, instruction, transcript = [], pending = [], nowMs } = event;
  const context: ContextState = {
    ...state.context,
    earlier: earlier.filter((unit) => unit.boxId === outputBoxId),
    given: earlier.filter((unit) => unit.boxId !== outputBoxId),
    activityAt: nowMs,
  };
  const started: KernelState = {
    ...state,
    lifecycle: 'running',
    startedAt: nowMs,
    outputBoxId,
    context,
    handles: merge([instruction], transcript),
  };
  if (pending.length === 0) return callModel(started, nowMs);
  return onProposals({ ...started, checkpoint: checkpointBeforeLastThought(started.handles) }, pending, nowMs);
}

/** Messages of users, and a note, that the model was shown in the prompt of its answer and no handle stood for before. */
const shownIn = ({ handles }: LlmResponseEvent): readonly Handle[] =>
  handles.filter(([, role]) => role !== 'assistant');

const REFUSAL: Termination = { status: 'failed', errorCode: 'provider_refusal', reason: 'the model refused' };

function onResponse(state: KernelState, event: LlmResponseEvent): StepOutcome {
  const settled = event.calls.flatMap((call) => call.settled ?? []);
  const next: KernelState = {
    ...state,
    ...withUsage(state, event.usage, event.cost),
    context: {
      ...state.context,
      correction: corrected(state, event.usage, shownIn(event)),
      overflows: 0,
      activityAt: event.nowMs,
    },
    handles: merge(state.handles, [...event.handles, ...settled.map(toHandle)]),
    lastThought: { cardId: event.thoughtCardId, hasText: event.hasText },
    toHide: [],
  };
  if (state.ending !== null && event.refused) return withoutReport(next, state.ending);
  if (state.ending !== null) return finishReport(next, state.ending, event.calls.map(outstandingOf));
  if (event.refused) return done(next, REFUSAL, { from: 'fallback' });
  if (event.calls.length > 0) return onProposals({ ...next, answerParts: [] }, event.calls, event.nowMs);
  return event.truncated ? onTruncated(next, event.nowMs) : onAnswer(next, event.nowMs);
}

const outstandingOf = ({ callId, tool, settled }: LlmResponseEvent['calls'][number]): OutstandingCall => ({
  callId,
  tool,
  settled: settled ?? null,
  deadline: null,
});

/** How often the model is asked to go on with an answer that was cut short (K11). */
const CONTINUATIONS = 3;

function onTruncated(state: KernelState, nowMs: number): StepOutcome {
  const { answerParts, lastThought } = state;
  const part = answerParts.length + 1;
  const seen: Observation = { type: 'truncated', part };
  if (part > CONTINUATIONS) return { ...onAnswer(state, nowMs), observations: [seen] };
  const next = { ...state, rollbacks: 0, answerParts: [...answerParts, ...(lastThought ? [lastThought.cardId] : [])] };
  return observed([seen], callModel(next, nowMs, { note: { kind: 'go_on' } }));
}

/** A message without tool calls ends the turn, unless the profile wants it ended by a tool (W13). */
function onAnswer(state: KernelState, nowMs: number): StepOutcome {
  const tools = state.config.mustEndWith;
  if (tools.length === 0 || state.requiredToolDone) return done(state, { status: 'success' }, answerOf(state));
  const extra = { onlyTools: tools, requireTool: true, note: { kind: 'must_end_with', tools } } as const;
  const reminded = callModel({ ...state, rollbacks: 0, answerParts: [] }, nowMs, extra);
  return { ...reminded, observations: [...reminded.observations, { type: 'reminded', tools }] };
}

/** How often a prompt that the provider finds too long is made shorter and sent again (K11). */
const FORCED_COMPACTIONS = 2;

/** Our count was wrong: everything that may go goes, and the model is asked for the same again, as a step of its own. */
function onOverflow(state: KernelState, nowMs: number): StepOutcome {
  const overflows = state.context.overflows + 1;
  const { estimate } = state.context;
  const correction = Math.max(state.context.correction, estimate === 0 ? 1 : promptLimit(state) / estimate);
  const next = { ...state, context: { ...state.context, overflows, correction } };
  const seen: Observation = { type: 'overflow', time: overflows };
  const ask = state.ending === null ? callModel : withRoom;
  return observed([seen], ask(next, nowMs, state.asked, true));
}

function onModelFailure(state: KernelState, event: LlmFailedEvent): StepOutcome {
  if (event.code === 'context_overflow' && state.context.overflows < FORCED_COMPACTIONS)
    return onOverflow(state, event.nowMs);
  if (state.ending !== null) return withoutReport(state, state.ending);
  return done(state, { status: 'failed', errorCode: event.code, reason: event.message }, { from: 'fallback' });
}

/** Told again and again, for a signal may be lost: what is known already changes nothing. */
function onBudgets(known: KernelState, { budgets, delegated }: BudgetsEvent): StepOutcome {
  const state = delegated ? { ...known, delegated } : known;
  const next: KernelState = { ...state, ...withChangedBudgets(state, budgets) };
  if (sameBudgets(next.budgets, state.budgets)) return { state, actions: [], observations: [] };
  return { state: next, actions: [], observations: [{ type: 'budgets_changed', budgets }] };
}

const sameBudgets = (a: BudgetChange, b: BudgetChange): boolean =>
  (Object.keys(a) as (keyof BudgetChange)[]).every((axis) => a[axis] === b[axis]);

function exhaustive(event: never): never {
  throw new TypeError(`unknown kernel event ${JSON.stringify(event)}`);
}
