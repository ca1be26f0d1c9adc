/**
 * Rollback (K13): the conversation returns to where it was before the last model call.
 *
 * Invariants
 * 1. What users said meanwhile stays; every other card of the step goes out of view, and the counts of tokens with it.
 * 2. Steps, tokens, rate windows and streaks are spent all the same, so that a loop of rollbacks ends by a budget.
 * 3. Three in a row fail the turn.
 * 4. The parts of an answer that is being continued are behind the checkpoint and stay: the model is told to go on with them, not another way.
 */
import type { Observation, StepOutcome } from './actions.ts';
import { done, withoutReport } from './ending.ts';
import { callModel } from './funnel.ts';
import { indexAfter } from './handles.ts';
import type { ErrorKind, KernelConfig, KernelState, Note, OutstandingCall } from './state.ts';

const MOST_ON_END = 3;

export function rollback(state: KernelState, reason: string, nowMs: number): StepOutcome {
  const { checkpoint, ending } = state;
  if (ending !== null) return withoutReport(state, ending);
  const since = checkpoint?.seq ?? 0;
  const kept = indexAfter(state.handles, since);
  const step = state.handles.slice(kept);
  const gone = step.filter(([, role]) => role !== 'user').map(([seq]) => seq);
  const rollbacks = state.rollbacks + 1;
  const next: KernelState = {
    ...state,
    handles: state.handles.slice(0, kept).concat(step.filter(([, role]) => role === 'user')),
    outstanding: [],
    lastThought: checkpoint?.lastThought ?? null,
    requiredToolDone: checkpoint?.requiredToolDone ?? false,
    planCall: checkpoint?.planCall ?? null,
    skills: checkpoint?.skills ?? [],
    verdict: null,
    toHide: [...state.toHide, ...gone],
    rollbacks,
  };
  const note: Note = state.answerParts.length > 0 ? { kind: 'go_on' } : { kind: 'rolled_back', reason };
  const seen: Observation = { type: 'rolled_back', reason, cards: gone.length, inARow: rollbacks };
  if (rollbacks < MOST_ON_END) return callModel(next, nowMs, { note }, [seen]);
  const termination = {
    status: 'failed',
    errorCode: 'no_progress',
    reason: `${rollbacks} steps in a row had to be taken back; the last because ${reason}`,
  } as const;
  return done(next, termination, { from: 'fallback' }, [seen]);
}

/** Why the calls of a step take it back, or null. */
export function rollbackReason(config: KernelConfig, calls: readonly OutstandingCall[]): string | null {
  const kinds: ReadonlySet<ErrorKind> = new Set(['fatal', 'user_interrupt', ...(config.rollbackOn ?? [])]);
  const call = calls.find(({ settled }) => {
    const kind = settled?.errorKind ?? (settled?.errorCode === 'governance_denied' ? 'governance_denied' : null);
    return kind !== null && kinds.has(kind);
  });
  if (!call) return null;
  return call.settled?.errorKind === 'user_interrupt'
    ? `${call.tool} was interrupted by a person`
    : `${call.tool} failed (${call.settled?.errorCode ?? 'tool_failed'}); try another way`;
}
