/** `step` with a check of everything that must hold at each of its calls. The invariants are listed in state.ts, phase.ts and step.ts. */
import { isDeepStrictEqual } from 'node:util';
import type { Plan } from '../../../workflows/kernel/actions.ts';
import type { KernelEvent } from '../../../workflows/kernel/events.ts';
import type { StepOutcome } from '../../../workflows/kernel/outcome.ts';
import { openCalls } from '../../../workflows/kernel/phase.ts';
import { estimatedTokens, fits } from '../../../workflows/kernel/pressure.ts';
import type { KernelState } from '../../../workflows/kernel/state.ts';
import { step } from '../../../workflows/kernel/step.ts';

export function checkedStep(state: KernelState, event: KernelEvent): StepOutcome {
  const outcome = step(deepFreeze(state), deepFreeze(event));
  const restored = step(throughJson(state), throughJson(event));
  // Compared by value, because a state that a step does not change is the very same object only where it did not go through JSON.
  check(isDeepStrictEqual(outcome, restored), 'a state that went through JSON steps differently', {
    outcome,
    restored,
  });
  check(isDeepStrictEqual(throughJson(outcome.state), outcome.state), 'the state is not plain JSON', outcome.state);
  check(outcome.actions.length <= 1, 'an event yields at most one action', outcome.actions);
  const ignored = outcome.observations.some((observation) => observation.type === 'event_ignored');
  const silent = ignored || event.type === 'budgets' || event.type === 'delegated';
  check(silent === (outcome.actions.length === 0), 'what yields nothing is observed, and nothing else', outcome);
  if (ignored) check(outcome.state === state, 'an ignored event changes nothing', event);
  if (state.phase.kind === 'done') check(ignored, 'a state that is done absorbs every event', event);
  checkState(outcome.state);
  for (const action of outcome.actions) if (action.type === 'call_llm') checkPlan(outcome.state, action.plan);
  return outcome;
}

function checkState(state: KernelState): void {
  if (state.phase.kind !== 'acting') return;
  const ids = state.phase.calls.map((call) => call.callId);
  check(new Set(ids).size === ids.length, 'a call id is outstanding twice', ids);
  check(openCalls(state).length > 0, 'a step whose calls are all settled is over', state);
}

/** But for the summary, the ranges of a box ascend and never overlap; every card in view is in one of them, and all fit the window. */
function checkPlan(state: KernelState, { ranges }: Plan): void {
  const { summary } = state.context;
  const rest = summary === null ? ranges : ranges.slice(1);
  if (summary) check(ranges[0]?.fromSeq === summary[0], 'the summary comes first', ranges);
  const ends = new Map<string, number>();
  for (const { boxId, fromSeq, toSeq } of rest) {
    check(fromSeq <= toSeq, 'a range is empty', ranges);
    check(fromSeq > (ends.get(boxId) ?? 0), 'ranges of a box overlap or go back', ranges);
    ends.set(boxId, toSeq);
    const twice = summary !== null && boxId === state.outputBoxId && fromSeq <= summary[0] && summary[0] <= toSeq;
    check(!twice, 'the summary is in the plan twice', ranges);
  }
  for (const [seq] of state.handles) {
    const covered = rest.some(
      (range) => range.boxId === state.outputBoxId && range.fromSeq <= seq && seq <= range.toSeq,
    );
    check(covered, `card ${seq} of the turn is not in the plan`, ranges);
  }
  check(ranges.length <= 40, 'the plan is long', ranges);
  check(fits(state, estimatedTokens(state)), 'the plan does not fit the window', state);
}

function check(holds: boolean, rule: string, subject: unknown): void {
  if (!holds) throw new Error(`${rule}: ${JSON.stringify(subject)}`);
}

const throughJson = <T>(value: T): T => JSON.parse(JSON.stringify(value)) as T;

export function deepFreeze<T>(value: T): T {
  if (typeof value === 'object' && value !== null && !Object.isFrozen(value)) {
    Object.freeze(value);
    for (const part of Object.values(value)) deepFreeze(part);
  }
  return value;
}
