/** How a turn hands work to another agent, and what comes back (W12, T30). */
import type { ClaimOutcome } from './store.ts';
import type { ReportAnswer } from './tool-result.ts';

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
}

export interface DelegationOutcome {
  readonly call: Exclude<ClaimOutcome, { kind: 'go' }>;
  /** The turn to ring for; null when the delegation was refused. */
  readonly child: { readonly agentId: string; readonly agentTurnId: string } | null;
}

/** The answer of a waiting parent to the end of its child, and whom to wake. */
export interface DelegationReport {
  readonly ack: ReportAnswer;
  readonly agentId: string;
  readonly agentTurnId: string;
  readonly callId: string;
}
