/**
 * A burst: several actions of a turn, performed one after the other by one activity that runs the kernel itself. The workflow feeds what
 * happened to its own kernel, which comes to the same state: history still decides, and a replay still proves it.
 */
import type { CallLlmAction, ExecuteToolsAction, SummarizeAction } from '../kernel/actions.ts';
import type { SettledCall } from '../kernel/calls.ts';
import type { KernelState } from '../kernel/state.ts';
import type { BurstLimits } from '../protocol/profile.ts';
import type { EngineUsage, Fence } from '../protocol/turn.ts';
import type { BetweenSteps } from './between-steps.ts';
import type { InboxMark } from './inbox.ts';
import type { TurnEnd } from './lease.ts';
import type { Notice } from './notices.ts';
import type { StepOutcomeRecord } from './steps.ts';
import type { Suspension } from './suspension.ts';

/** What a burst can perform; waits are the workflow's. */
export type BurstAction = CallLlmAction | SummarizeAction | ExecuteToolsAction;

/** The index of the step that a burst opens first, when it comes so far. */
export const firstStepOf = (action: BurstAction): number =>
  action.type === 'execute_tools' ? action.stepIndex + 1 : action.stepIndex;

/** The state of the kernel, its cards in the short form of short-state.ts. */
export type ShortState = Omit<KernelState, 'handles'> & { readonly handles: string };

/** A turn between two events, from which a burst goes on. */
export interface BurstInput extends Fence, InboxMark {
  /** The version of the workflow's kernel; a worker whose own is another one leaves the action to the workflow. */
  readonly kernel: string;
  readonly profileHash: string;
  readonly state: ShortState;
  /** What the kernel asked for last. */
  readonly action: BurstAction;
  /** What the kernel did on its own account since the last step began; absent when it did nothing. */
  readonly noticed?: readonly Notice[];
  /** The time by the clock of the workflow when it asked for the burst, epoch ms. */
  readonly nowMs: number;
  /** What the engine has spent on the turn so far, for a burst that ends it. */
  readonly engine: EngineUsage;
  /** Absent where the profile sets none. */
  readonly limits?: BurstLimits;
  /** As in the lease. */
  readonly parallelCalls?: number;
  /** Present where an attempt at an earlier burst was lost, which may have gone further than the workflow was told. */
  readonly again?: true;
  /** As in the lease. */
  readonly privateTitles?: true;
}

/** One thing that happened in a burst, in the order in which the kernel was told. */
export type BurstItem =
  | BetweenSteps
  | { readonly kind: 'step'; readonly nowMs: number; readonly record: StepOutcomeRecord };

/** The calls of a burst's last action, some of which wait now. */
export interface SuspendedCalls {
  readonly settled: readonly SettledCall[];
  readonly waiting: readonly (Suspension & { readonly tool: string })[];
}

/** An item without what is as usual. */
export type ShortItem = { readonly kind: BurstItem['kind'] } & { readonly [key: string]: unknown };

/** What a burst has done. */
export interface BurstOutcome {
  /** In the short form of burst-items.ts. */
  readonly items: readonly ShortItem[];
  /** How many notices of the kernel the store has not been told of: the last ones. */
  readonly untold: number;
  /** Absent when no call waits. */
  readonly suspended?: SuspendedCalls;
  /** Present when the next action is to be performed by activities of its own. */
  readonly apart?: true;
  /** Present when an attempt at this burst was lost, which may have gone further. */
  readonly again?: true;
  /** The recorded end of the turn; absent while it goes on. */
  readonly end?: TurnEnd;
}
