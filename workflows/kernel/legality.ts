/**
 * Which event may come when (K1). Pure.
 *
 * Invariants
 * 1. A turn that is done takes no event; a suspended one takes what it waits for, new budgets and a stop.
 * 2. An event that is legal by the table applies only if it fits the phase: it is about the open step, about calls that are open, about
 *    questions that were asked.
 * 3. The check is complete: the functions that handle an event rely on the phase it has made sure of.
 */
import { isRunning } from './calls.ts';
import type { KernelEvent } from './events.ts';
import { type Lifecycle, lifecycleOf, openCalls, openQuestion, waitingCalls } from './phase.ts';
import type { KernelState } from './state.ts';

/** For each kind of event whether it may come. */
type Legality = Readonly<Record<KernelEvent['type'], boolean>>;

const NOTHING: Legality = {
  start: false,
  llm_response: false,
  llm_failed: false,
  summarized: false,
  timeout: false,
  tool_results: false,
  approval: false,
  budgets: false,
  delegated: false,
  stop: false,
};

/** The kinds of events that a turn may take, by lifecycle. */
export const LEGAL: Readonly<Record<Lifecycle, Legality>> = {
  ready: { ...NOTHING, start: true, stop: true },
  running: {
    ...NOTHING,
    llm_response: true,
    llm_failed: true,
    summarized: true,
    timeout: true,
    tool_results: true,
    budgets: true,
    delegated: true,
    stop: true,
  },
  suspended: { ...NOTHING, tool_results: true, approval: true, budgets: true, delegated: true, stop: true },
  done: NOTHING,
};

/** Why the event must change nothing; null when it applies. */
export function mismatch(state: KernelState, event: KernelEvent): string | null {
  const lifecycle = lifecycleOf(state);
  if (!LEGAL[lifecycle][event.type]) return `not legal while ${lifecycle}`;
  const phase = state.phase.kind;
  switch (event.type) {
    case 'llm_response':
    case 'llm_failed':
    case 'timeout':
      if (phase !== 'reasoning') return 'no model call is open';
      return event.stepIndex === state.stepIndex
        ? null
        : `step ${event.stepIndex} is not the open step ${state.stepIndex}`;
    case 'summarized':
      if (phase !== 'shortening') return 'no summary is being made';
      if (event.summary[0] <= (state.context.summary?.[0] ?? 0)) return `summary ${event.summary[0]} is not a new one`;
      return event.stepIndex === state.stepIndex + 1 ? null : `step ${event.stepIndex} does not wait for a summary`;
    case 'tool_results':
      return coverage(state, event);
    case 'approval':
      return unasked(state, event);
    default:
      return null;
  }
}

/** The outcomes must cover exactly the calls that run; while none runs, exactly those that wait (K1). */
function coverage(state: KernelState, event: Extract<KernelEvent, { type: 'tool_results' }>): string | null {
  if (state.phase.kind !== 'acting') return 'no tool call is open';
  const unsettled = openCalls(state);
  const running = unsettled.filter(isRunning);
  const open = new Set((running.length > 0 ? running : unsettled).map((call) => call.callId));
  for (const { callId } of [...event.settled, ...event.suspended]) {
    if (!open.delete(callId)) return `call ${callId} is not open, or came twice`;
  }
  const missing = [...open];
  return missing.length === 0 ? null : `calls without outcome: ${missing.join(', ')}`;
}

/** The decisions must be about approvals that are waited for, each about another one. */
function unasked(state: KernelState, { answers }: Extract<KernelEvent, { type: 'approval' }>): string | null {
  const question = openQuestion(state);
  const gated = waitingCalls(state).filter((call) => call.gated);
  const asked = new Set(question ? [question.askId] : gated.map((call) => call.callId));
  for (const { callId } of answers)
    if (!asked.delete(callId)) return `nobody is asked about ${callId}, or it came twice`;
  return answers.length > 0 ? null : 'it answers nothing';
}
