/** What the driver feeds the kernel (K2). Time comes inside every event, because the kernel reads no clock. */
import type { FailureCode } from '../protocol/failures.ts';
import type { BudgetChange } from '../protocol/profile.ts';
import type { AnswerLimit, Usage } from '../protocol/turn.ts';
import type { Delegated } from './budgets.ts';
import type { ProposedCall, SettledCall } from './calls.ts';
import type { ContextUnit } from './context.ts';
import type { ArgumentFacts } from './governance.ts';
import type { Handle } from './handles.ts';

interface Timed {
  /** Epoch ms by the clock of the workflow. */
  readonly nowMs: number;
}

/** The turn begins. */
export interface StartEvent extends Timed {
  readonly type: 'start';
  readonly outputBoxId: string;
  /** Earlier turns in the output box, oldest first, and the context boxes that came with the request. */
  readonly earlier: readonly ContextUnit[];
  readonly instruction: Handle;
  /** The cards behind the instruction of a conversation that is taken up again (K22); absent when there are none. */
  readonly transcript?: readonly Handle[];
  /** The calls of such a conversation that have no result; absent when there are none. */
  readonly pending?: readonly ProposedCall[];
}

/** The model has answered, and its message is stored. */
export interface LlmResponseEvent extends Timed {
  readonly type: 'llm_response';
  readonly stepIndex: number;
  /** The cards that this step put into the output box before any tool ran: messages of users, a note if one was asked for, the thought. */
  readonly handles: readonly Handle[];
  readonly thoughtCardId: string;
  readonly hasText: boolean;
  /** Whether the model, or the filter of its provider, refused to answer (W14). */
  readonly refused: boolean;
  readonly calls: readonly ProposedCall[];
  readonly usage: Usage;
  /** The cost in the currency of the price list; null when the price is not known, absent when the call costs nothing. */
  readonly cost?: number | null;
  /** Whose limit cut the answer short; absent when none did (K11). */
  readonly truncated?: AnswerLimit;
}

/** The model has not answered, for a reason that trying again does not change. */
export interface LlmFailedEvent extends Timed {
  readonly type: 'llm_failed';
  readonly stepIndex: number;
  readonly code: FailureCode;
  readonly message: string;
}

/** The summary that was asked for is in the output box, and the cards it stands for are hidden. */
export interface SummarizedEvent extends Timed {
  readonly type: 'summarized';
  /** The index of the model call that waits for the summary. */
  readonly stepIndex: number;
  readonly summary: Handle;
  readonly usage: Usage;
  /** As in `LlmResponseEvent`. */
  readonly cost: number | null;
}

/** The model did not answer in all the time it had (K13). */
export interface TimeoutEvent extends Timed {
  readonly type: 'timeout';
  readonly stepIndex: number;
  readonly message: string;
}

/**
 * What became of the calls of the step. Settled and suspended calls together are exactly the calls that were running; when none was, they
 * are exactly those that waited (K1).
 */
export interface ToolResultsEvent extends Timed {
  readonly type: 'tool_results';
  readonly settled: readonly SettledCall[];
  /** The calls that wait for the outside, with their deadlines in epoch ms by the clock of the workflow. */
  readonly suspended: readonly { readonly callId: string; readonly deadline: number }[];
}

/** What a person decided about a call, or an operator about a budget; `unanswered` when the time was over first. */
export interface ApprovalDecision {
  /** The id of the call that waits for approval, or of the question to an operator. */
  readonly callId: string;
  readonly decision: 'approved' | 'denied' | 'unanswered';
  /** Who decided; absent when it is not known. */
  readonly by?: string;
  readonly reason?: string;
  /** Present when the approver changed the arguments: they are judged again by these facts (K7). */
  readonly edited?: { readonly facts: ArgumentFacts };
}

/** Decisions about some of the approvals that are waited for. */
export interface ApprovalsAnsweredEvent extends Timed {
  readonly type: 'approval';
  readonly answers: readonly ApprovalDecision[];
}

/** An operator has set budgets. It yields no action: the next model call or tool call is judged by them (K9). */
export interface BudgetsEvent extends Timed {
  readonly type: 'budgets';
  readonly budgets: BudgetChange;
}

/** What delegated turns use of the budgets, instead of what was known of it before. It yields no action (K9). */
export interface DelegatedEvent extends Timed {
  readonly type: 'delegated';
  readonly delegated: Delegated;
}

/** The turn is stopped by a person (`stopped`), or its workflow from outside (`terminated`). */
export interface StopEvent extends Timed {
  readonly type: 'stop';
  readonly code: 'stopped' | 'terminated';
  readonly reason: string;
}

/** What may happen to a turn; legality.ts says when each may come. */
export type KernelEvent =
  | StartEvent
  | LlmResponseEvent
  | LlmFailedEvent
  | SummarizedEvent
  | TimeoutEvent
  | ToolResultsEvent
  | ApprovalsAnsweredEvent
  | BudgetsEvent
  | DelegatedEvent
  | StopEvent;
