/**
 * The kernel's state: plain JSON, total. It is put together from the parts that the rules own; it holds handles of cards, never their
 * text (K3).
 *
 * Invariants
 * 1. `step(JSON.parse(JSON.stringify(state)), event)` equals `step(state, event)` for every reachable state (K22).
 * 2. `outstanding` is non-empty exactly while phase is `act`; each call id is in it once.
 * 3. `lifecycle` is `suspended` exactly when every outstanding call left unsettled waits for the outside, or an operator is asked.
 */
import type { GovernancePolicy } from '../protocol/governance.ts';
import type { Budgets } from '../protocol/profile.ts';
import type { Termination } from '../protocol/turn.ts';
import { type BudgetCode, type BudgetState, nothingUsed } from './budgets.ts';
import type { BatchVerdict, ErrorKind, OutstandingCall } from './calls.ts';
import { NOTHING_DONE, type RollbackState } from './checkpoint.ts';
import { type ContextConfig, EMPTY_VIEW, type ViewState } from './context.ts';
import type { Departure } from './eviction.ts';
import type { Exposure } from './exposure.ts';
import { type FuseState, NO_STREAKS } from './fuse.ts';
import { NO_SLOTS_TAKEN, type RateState } from './governance.ts';
import type { CallExtra } from './model-call.ts';

export interface KernelConfig {
  readonly budgets: Budgets;
  /** Tools of which one must end the turn; only names that are really offered (W13). */
  readonly mustEndWith: readonly string[];
  /** Whether `submit_result` is offered; the final report may use it (K9). */
  readonly submitResult: boolean;
  readonly context: ContextConfig;
  /** Absent: every tool of the profile is offered. */
  readonly exposure?: Exposure;
  /** Absent: every call is allowed. */
  readonly governance?: GovernancePolicy;
  /** Kinds of errors that take a step back, besides `fatal` and `user_interrupt` (K13). */
  readonly rollbackOn?: readonly ErrorKind[];
}

export type Lifecycle = 'ready' | 'running' | 'suspended' | 'done';

/** An exhausted budget that an operator may extend; `extra` is what the model call would have carried. */
export interface OperatorAsk {
  readonly askId: string;
  readonly code: BudgetCode;
  readonly used: number;
  readonly limit: number;
  readonly deadline: number;
  readonly extra: CallExtra;
}

/** What a summary is being made of, and the model call that waits for it. */
export interface Departing {
  readonly departure: Departure;
  readonly extra: CallExtra;
}

export interface KernelState extends BudgetState, FuseState, RateState, ViewState, RollbackState {
  readonly config: KernelConfig;
  readonly lifecycle: Lifecycle;
  /** `delta`: the conversation is being shortened; the model call `delayed` follows. */
  readonly phase: 'reason' | 'act' | 'delta';
  readonly departing: Departing | null;
  /** What the model call under way carries, to be asked for again (K11). */
  readonly asked: CallExtra;
  readonly outstanding: readonly OutstandingCall[];
  readonly verdict: BatchVerdict | null;
  readonly operator: OperatorAsk | null;
  /** Set when a budget is hit: the model call in flight is the final report (K9). */
  readonly ending: Termination | null;
  readonly termination: Termination | null;
}

export const initialState = (config: KernelConfig): KernelState => ({
  config,
  lifecycle: 'ready',
  phase: 'reason',
  ...nothingUsed(config.budgets),
  ...NO_STREAKS,
  ...NO_SLOTS_TAKEN,
  ...EMPTY_VIEW,
  ...NOTHING_DONE,
  departing: null,
  asked: {},
  outstanding: [],
  verdict: null,
  operator: null,
  ending: null,
  termination: null,
});
