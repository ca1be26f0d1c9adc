/** How a turn hands work to another agent, and what comes back (W12, T30). */
import type { ReportAnswer } from '../protocol/tool-result.ts';
import type { Fence } from '../protocol/turn.ts';
import type { CallAttempt, ClaimOutcome } from './calls.ts';
import type { Handover } from './lease.ts';

/**
 * Who is to do the work. `new`: a new agent of a profile; `reuse`: an agent with all it remembers; `clone`: a new agent with a copy of what
 * one remembers.
 */
export type DelegationTarget =
  | { readonly strategy: 'new'; readonly profile: string }
  | { readonly strategy: 'reuse' | 'clone'; readonly agentId: string };

/** A call of a delegation tool, and what it asks for. */
export interface Delegation extends CallAttempt {
  readonly target: DelegationTarget;
  readonly instruction: string;
  /** A box that the new turn reads: one that the caller owns, or the context box of its turn. */
  readonly contextBoxId?: string;
  /** Whether the new turn reads what the caller remembers. */
  readonly includeHistory?: boolean;
  /** How long the call waits for the new turn's end, ms; null: as long as the profile says; absent: it does not wait. */
  readonly waitMs?: number | null;
  /** What the new turn and all below it may spend of the caller's tokens; absent: an equal part. It gets less where less is left (K20). */
  readonly maxTokens?: number;
  /** What becomes of the new turn when the caller's turn ends without success. */
  readonly onParentEnd: ParentEndPolicy;
}

/** `stop`: the delegated turn is stopped, for nobody waits for it any more; `continue`: it goes on by itself. */
export const PARENT_END_POLICIES = ['stop', 'continue'] as const;
/** What becomes of a delegated turn when its caller's turn ends without success. */
export type ParentEndPolicy = (typeof PARENT_END_POLICIES)[number];

/** What a delegation has come to, for both sides. */
export interface DelegationOutcome {
  /** Where the call stands: it waits for the new turn, or has its result. */
  readonly call: Exclude<ClaimOutcome, { kind: 'go' }>;
  /** What follows for the other agent; null when no turn was made. */
  readonly handover: Handover | null;
}

/** The answer of a waiting parent to the end of its child. Agent, turn and call are the parent's. */
export interface DelegationSettlement {
  readonly ack: ReportAnswer;
  /** Whether the parent is to be woken: true only for the settlement that has just been applied. */
  readonly wake: boolean;
  /** What follows for the agent where no call waited and it was told; null otherwise. */
  readonly handover: Handover | null;
  readonly agentId: string;
  readonly agentTurnId: string;
  readonly callId: string;
}

/** Turns that hand work to other agents, and the way their ends come back. */
export interface DelegationStore {
  /**
   * Carries out a delegation call: its claim, the new turn, and the call's own result or wait, in one transaction (W10, T26, T27). What is
   * refused becomes the call's failed result, with `agent_not_found`, `profile_not_found`, `delegation_denied`, `recursion_depth_exceeded`,
   * `delegation_cycle`, `budget_tokens`, `budget_cost`, `box_unavailable`, `unauthorized_box`, `agent_stopped` or `inbox_full`. Idempotent
   * by the call: another attempt finds what the first one did, with the lease of a turn that has not started. Errors: `stale_epoch` (T5);
   * `protocol_violation` when the turn has no such call.
   */
  delegate(fence: Fence, delegation: Delegation): Promise<DelegationOutcome>;
  /**
   * Tells the waiting call of its parent that a turn has ended (T30). Idempotent by the turn: whoever comes second gets the recorded
   * answer, and wakes nobody. Null when no call waits for the turn, or the turn has not ended. Errors: `protocol_violation` when the turn
   * was never accepted.
   */
  settleDelegation(agentTurnId: string): Promise<DelegationSettlement | null>;
}
