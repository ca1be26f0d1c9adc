/** What the driver feeds the kernel. Time comes inside every event; the kernel reads no clock. */
import type { FailureCode } from '../protocol/failures.ts';
import type { BudgetChange } from '../protocol/profile.ts';
import type { Usage } from '../protocol/turn.ts';
import type { Delegated } from './budgets.ts';
import type { ProposedCall, SettledCall } from './calls.ts';
import type { ContextUnit } from './context.ts';
import type { ArgumentFacts } from './governance.ts';
import type { Handle } from './handles.ts';

interface Timed {
  /** Epoch ms. */
  readonly nowMs: number;
}

export interface StartEvent extends Timed {
  readonly type: 'start';
  readonly outputBoxId: string;
  /** Earlier turns in the output box, oldest first, and what came with the request. */
  readonly earlier: readonly ContextUnit[];
  readonly instruction: Handle;
  /** Of a conversation that is taken up again: what was said after the instruction, and its calls that nobody answered (K22). */
  readonly transcript?: readonly Handle[];
  readonly pending?: readonly ProposedCall[];
}

export interface LlmResponseEvent extends Timed {
  readonly type: 'llm_response';
  readonly stepIndex: number;
  /** The cards this step put into the output box before any tool ran: a note if one was asked for, the thought. */
  readonly handles: readonly Handle[];
  readonly thoughtCardId: string;
  readonly hasText: boolean;
  readonly refused: boolean;
  readonly calls: readonly ProposedCall[];
  readonly usage: Usage;
  /** In the currency of the price list; null when the price is not known. */
  readonly cost?: number | null;
  /** The model was cut short by its output limit (K11). */
  readonly truncated?: true;
}

export interface LlmFailedEvent extends Timed {
  readonly type: 'llm_failed';
  readonly stepIndex: number;
  readonly code: FailureCode;
  readonly message: string;
}

/** The summary that was asked for is in the output box; what it stands for is out of view. */
export interface SummarizedEvent extends Timed {
  readonly type: 'summarized';
  readonly stepIndex: number;
  readonly summary: Handle;
  readonly usage: Usage;
  readonly cost: number | null;
}

/** The model did not answer in all the time it had (K13). */
export interface TimeoutEvent extends Timed {
  readonly type: 'timeout';
  readonly stepIndex: number;
  readonly message: string;
}

/** Settled and suspended calls together cover exactly the calls that were running, or those that wait when none was (K1). */
export interface ToolResultsEvent extends Timed {
  readonly type: 'tool_results';
  readonly settled: readonly SettledCall[];
  readonly suspended: readonly { readonly callId: string; readonly deadline: number }[];
}

export interface ApprovalDecision {
  /** Of the gated call, or the id under which an operator was asked. */
  readonly callId: string;
  readonly decision: 'approved' | 'denied' | 'unanswered';
  readonly by?: string;
  readonly reason?: string;
  /** Present when the approver changed the arguments: they are judged again (K7). */
  readonly edited?: { readonly facts: ArgumentFacts };
  /** The budgets an operator set (K9). */
  readonly budgets?: BudgetChange;
}

/** Answers to some of the approvals that are waited for. */
export interface ApprovalsAnsweredEvent extends Timed {
  readonly type: 'approval';
  readonly answers: readonly ApprovalDecision[];
}

/** Where the budgets stand, as the store knows it: what operators set, and what delegated turns use of them; yields no action (K9). */
export interface BudgetsEvent extends Timed {
  readonly type: 'budgets';
  readonly budgets: BudgetChange;
  /** Takes the place of what was known; absent: that stays. */
  readonly delegated?: Delegated;
}

export interface StopEvent extends Timed {
  readonly type: 'stop';
  readonly code: 'stopped' | 'terminated';
  readonly reason: string;
}

export type KernelEvent =
  | StartEvent
  | LlmResponseEvent
  | LlmFailedEvent
  | SummarizedEvent
  | TimeoutEvent
  | ToolResultsEvent
  | ApprovalsAnsweredEvent
  | BudgetsEvent
  | StopEvent;
