/**
 * The kernel's state: plain JSON, total, put together from the parts that the rules own.
 *
 * Invariants
 * 1. `step(JSON.parse(JSON.stringify(state)), event)` equals `step(state, event)` for every reachable state (K22).
 * 2. The state holds handles of cards, never their text (K3).
 */
import type { GovernancePolicy } from '../protocol/governance.ts';
import type { Budgets } from '../protocol/profile.ts';
import { type BudgetState, nothingUsed } from './budgets.ts';
import type { ErrorKind } from './calls.ts';
import { NOTHING_DONE, type RollbackState } from './checkpoint.ts';
import { type ContextConfig, EMPTY_VIEW, type ViewState } from './context.ts';
import type { Exposure } from './exposure.ts';
import { type FuseState, NO_STREAKS } from './fuse.ts';
import { NO_SLOTS_TAKEN, type RateState } from './governance.ts';
import { NOT_STARTED, type PhaseState } from './phase.ts';
import type { Residency } from './pressure.ts';

/** What the kernel must know of a profile and a request; it does not change while the turn runs. */
export interface KernelConfig {
  /** The budgets at the start. */
  readonly budgets: Budgets;
  /** The tools of which one must end the turn; only names that are really offered (W13). Empty when a message may end it. */
  readonly mustEndWith: readonly string[];
  /** Whether `submit_result` is offered; the final report may use it (K9). */
  readonly submitResult: boolean;
  readonly context: ContextConfig;
  /** With how much of it a result of an earlier turn is shown at most; the window decides alone when it is absent (C7). */
  readonly snippets?: Exclude<Residency, 'full'>;
  /** Absent when every tool of the profile is always offered (K8). */
  readonly exposure?: Exposure;
  /** Absent when every call is allowed (K5). */
  readonly governance?: GovernancePolicy;
  /** The kinds of errors that take a step back, besides `fatal` and `user_interrupt`; absent when there are no others (K13). */
  readonly rollbackOn?: readonly ErrorKind[];
}

/** Everything the kernel knows of a turn. Each part is documented where its rule is. */
export interface KernelState extends PhaseState, BudgetState, FuseState, RateState, ViewState, RollbackState {
  readonly config: KernelConfig;
}

/** The state before `start`. */
export const initialState = (config: KernelConfig): KernelState => ({
  config,
  ...NOT_STARTED,
  ...nothingUsed(config.budgets),
  ...NO_STREAKS,
  ...NO_SLOTS_TAKEN,
  ...EMPTY_VIEW,
  ...NOTHING_DONE,
});
