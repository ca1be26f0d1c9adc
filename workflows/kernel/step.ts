/**
 * The loop kernel: `step(state, event) → {state, actions, observations}`. Pure: no clock, ids, randomness, await or I/O.
 *
 * Invariants
 * 1. funnel.ts is the only place that emits `call_llm`; calls.ts the only one that commits tool results.
 * 2. Every event yields at most one action; an event that does not apply changes nothing and is observed (K1).
 * 3. After `done` nothing is emitted.
 */
import type { Termination } from '../protocol/turn.ts';
import type { Observation, StepOutcome } from './actions.ts';
import { withLimits } from './budgets.ts';
import { merge, onApproval, onProposals, onResults, toHandle, withUsage } from './calls.ts';
import { answerOf, done, finishReport, withoutReport } from './ending.ts';
import type { KernelEvent, LimitsEvent, LlmFailedEvent, LlmResponseEvent, StartEvent } from './events.ts';
import { callModel } from './funnel.ts';
import { mismatch } from './legality.ts';
import { rollback } from './rollback.ts';
import type { KernelState, OutstandingCall } from './state.ts';

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
    case 'timeout':
      return rollback(state, event.message, event.nowMs);
    case 'tool_results':
      return onResults(state, event);
    case 'approval':
      return onApproval(state, event);
    case 'limits':
      return onLimits(state, event);
    case 'stop':
      return done(state, { status: 'failed', errorCode: event.code, reason: event.reason }, { from: 'fallback' });
    default:
      return exhaustive(event);
  }
}

function onStart(state: KernelState, { outputBoxId, memory, instruction, nowMs }: StartEvent): StepOutcome {
  const started: KernelState = {
    ...state,
    lifecycle: 'running',
    startedAt: nowMs,
    outputBoxId,
    memory,
    handles: [instruction],
  };
  return callModel(started, nowMs);
}

const REFUSAL: Termination = { status: 'failed', errorCode: 'provider_refusal', reason: 'the model refused' };

function onResponse(state: KernelState, event: LlmResponseEvent): StepOutcome {
  const settled = event.calls.flatMap((call) => call.settled ?? []);
  const next: KernelState = {
    ...state,
    ...withUsage(state, event.usage, event.cost),
    handles: merge(state.handles, [...event.handles, ...settled.map(toHandle)]),
    lastThought: { cardId: event.thoughtCardId, hasText: event.hasText },
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
  const next = { ...state, answerParts: [...answerParts, ...(lastThought ? [lastThought.cardId] : [])] };
  return callModel(next, nowMs, { note: { kind: 'go_on' } }, [seen]);
}

/** A message without tool calls ends the turn, unless the profile wants it ended by a tool (W13). */
function onAnswer(state: KernelState, nowMs: number): StepOutcome {
  const tools = state.config.mustEndWith;
  if (tools.length === 0 || state.requiredToolDone) return done(state, { status: 'success' }, answerOf(state));
  const extra = { onlyTools: tools, requireTool: true, note: { kind: 'must_end_with', tools } } as const;
  const reminded = callModel({ ...state, answerParts: [] }, nowMs, extra);
  return { ...reminded, observations: [...reminded.observations, { type: 'reminded', tools }] };
}

function onModelFailure(state: KernelState, event: LlmFailedEvent): StepOutcome {
  if (state.ending !== null) return withoutReport(state, state.ending);
  return done(state, { status: 'failed', errorCode: event.code, reason: event.message }, { from: 'fallback' });
}

function onLimits(state: KernelState, { limits }: LimitsEvent): StepOutcome {
  const seen: Observation = { type: 'limits_changed', limits };
  return { state: { ...state, limits: withLimits(state.limits, limits) }, actions: [], observations: [seen] };
}

function exhaustive(event: never): never {
  throw new TypeError(`unknown kernel event ${JSON.stringify(event)}`);
}
