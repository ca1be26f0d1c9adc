/** What a step yields, and the two ways in which its functions put that together. */
import type { KernelAction, Observation } from './actions.ts';
import type { KernelState } from './state.ts';

/** The state after an event, what the driver must do next, and what was observed. */
export interface StepOutcome {
  readonly state: KernelState;
  /** The one action that follows, or none: an event that does not apply, or `budgets`, asks nothing of the driver (K2). */
  readonly actions: readonly KernelAction[];
  /** In the order in which they were made. */
  readonly observations: readonly Observation[];
}

/** The state with the one action that leads out of it. */
export const emit = (state: KernelState, action: KernelAction): StepOutcome => ({
  state,
  actions: [action],
  observations: [],
});

/** The same outcome, with what was observed on the way to it before its own observations. */
export const observed = (before: readonly Observation[], outcome: StepOutcome): StepOutcome =>
  before.length === 0 ? outcome : { ...outcome, observations: [...before, ...outcome.observations] };
