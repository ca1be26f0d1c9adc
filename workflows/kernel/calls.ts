/**
 * The calls of one step, from what the model proposed to what came of them. Only types: acting.ts decides what follows from them.
 */
import type { AfterExecution, ResultStatus, ToolError } from '../protocol/cards.ts';
import type { ArgumentFacts } from './governance.ts';

/** What kind of error a call ended with; the kinds that take a step back are a matter of the profile (K13). */
export type ErrorKind = NonNullable<ToolError['kind']> | 'governance_denied';

/** A call as the model wrote it, with what the kernel must know of its arguments. */
export interface ProposedCall {
  readonly callId: string;
  readonly tool: string;
  /** The digest of the canonical arguments, by which a repeated call is known (K4, K12). A call without one never counts as repeated. */
  readonly digest?: string;
  /** The name of the skill that this call puts to use; present only when the profile has that skill (K8). */
  readonly skill?: string;
  /** The arguments that governance rules look at; absent when no rule looks at any. */
  readonly facts?: ArgumentFacts;
  /** The result of a call that was settled while it was proposed: invalid arguments, or an accepted `submit_result`. */
  readonly settled?: SettledCall;
}

/** The result of a call, as far as the kernel must know it: its text stays in the card at `seq`. */
export interface SettledCall {
  readonly callId: string;
  readonly status: ResultStatus;
  /** What the turn does next, by the result, the report or the tool (T19). */
  readonly afterExecution: AfterExecution;
  readonly errorCode?: string;
  /** Absent when there is no error, or one that the model may recover from. */
  readonly errorKind?: ErrorKind;
  /** The place of the result's card in the output box. */
  readonly seq: number;
  readonly tokens: number;
}

/** A call of the step that is under way. */
export interface OutstandingCall {
  readonly callId: string;
  readonly tool: string;
  readonly settled: SettledCall | null;
  /** Deadline in epoch ms while the call waits for the outside, else null. */
  readonly deadline: number | null;
  /** Why it was gated, while it waits for an approval. */
  readonly gated?: string;
}

/** What a denied call does to its whole step where the policy says so (K6): the step is taken back, or the turn ends. */
export interface BatchVerdict {
  readonly outcome: 'rollback' | 'end';
  readonly reason: string;
}
