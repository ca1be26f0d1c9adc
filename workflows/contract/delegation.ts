/** How a turn hands work to another agent, and what comes back (W12, T30). */

import type { ReportAnswer } from '../protocol/tool-result.ts';
import type { ClaimOutcome, Handover } from './store.ts';

/** `new`: a new agent of a profile; `reuse`: an agent with all it remembers; `clone`: a new agent with a copy of what one remembers. */
export type DelegationTarget =
  | { readonly strategy: 'new'; readonly profile: string }
  | { readonly strategy: 'reuse' | 'clone'; readonly agentId: string };

export interface Delegation {
  readonly callId: string;
  readonly attempt: number;
  readonly target: DelegationTarget;
  readonly instruction: string;
  /** A box the new turn reads: one of the caller's own. */
  readonly contextBoxId?: string;
  /** The new turn reads what the caller remembers. */
  readonly includeHistory?: boolean;
  /** The call waits for the new turn's end, at most `waitMs`; absent: it does not wait. Null: as long as the profile says. */
  readonly waitMs?: number | null;
  /** What the new turn and all below it may spend of the caller's tokens; absent: an equal part. Less where less is left. */
  readonly maxTokens?: number;
  /** What becomes of the new turn when the caller's turn ends without success. */
  readonly onParentEnd: ParentEndPolicy;
}

/** `stop`: it is stopped, for nobody waits for it any more; `continue`: it goes on by itself. */
export const PARENT_END_POLICIES = ['stop', 'continue'] as const;
export type ParentEndPolicy = (typeof PARENT_END_POLICIES)[number];

export interface DelegationOutcome {
  readonly call: Exclude<ClaimOutcome, { kind: 'go' }>;
  /** What follows for the other agent; null when no turn was made. */
  readonly handover: Handover | null;
}

/** The answer of a waiting parent to the end of its child. */
export interface DelegationSettlement {
  readonly ack: ReportAnswer;
  /** The parent is to be woken: the report has just been applied. */
  readonly wake: boolean;
  readonly agentId: string;
  readonly agentTurnId: string;
  readonly callId: string;
}
