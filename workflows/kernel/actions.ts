/** What the kernel asks of its driver, and what it lets observers know. All of it is data. */
import type { BudgetChange } from '../protocol/profile.ts';
import type { Termination } from '../protocol/turn.ts';
import type { BudgetQuestion } from './budgets.ts';
import type { BoxExtent } from './handles.ts';
import type { CallExtra } from './model-call.ts';
import type { Lifecycle } from './phase.ts';
import type { Residency } from './pressure.ts';

/** What to render, as ranges: about constant in size however long the turn (K3). */
export interface Plan {
  readonly ranges: readonly PlanRange[];
}

/** Results of tools in it are rendered with that residency; absent = whole. */
export interface PlanRange extends BoxExtent {
  readonly residency?: Exclude<Residency, 'full'>;
}

/** Said to the model after everything else, and not kept: it is about this one call (K14). */
export type StateLine =
  /** What lies far behind: the task, then messages of users, oldest first; places in the output box. */
  | { readonly kind: 'user_messages'; readonly boxId: string; readonly seqs: readonly number[] }
  /** What the call of `update_plan` wrote down. */
  | { readonly kind: 'plan'; readonly callId: string }
  | { readonly kind: 'steps_left'; readonly steps: number }
  | { readonly kind: 'repeating'; readonly tool: string; readonly times: number };

export interface CallLlmAction extends CallExtra {
  readonly type: 'call_llm';
  readonly stepIndex: number;
  readonly plan: Plan;
  /** Absent when there is nothing to say. */
  readonly stateBlock?: readonly StateLine[];
  /** Tokens that messages for the turn may add to the prompt, which it has not read yet and the plan does not know (T22). */
  readonly room: number;
  /** Cards of the output box that a rollback took back; to be hidden before anything else (K13). */
  readonly hide?: readonly number[];
}

/**
 * A summary takes the place of what `plan` names: written by a model, or by rule for a sprint, before the report or when the model fails
 * (K15, K16). The cards of `hide` leave the view.
 */
export interface SummarizeAction {
  readonly type: 'summarize';
  /** Of the model call that waits for it. */
  readonly stepIndex: number;
  readonly mode: 'summary' | 'sprint';
  /** No model is asked: the turn has a budget used up, and only its report is still to come (K9). */
  readonly byRule?: true;
  readonly plan: Plan;
  readonly hide: readonly BoxExtent[];
  readonly maxTokens: number;
}

/** A call that is not run: its result says why. */
export interface RefusedCall {
  readonly callId: string;
  readonly tool: string;
  readonly code: RefusedCallCode;
  readonly message: string;
}

export type RefusedCallCode =
  | 'governance_denied'
  | 'rate_limited'
  | 'approval_denied'
  | 'approval_unanswered'
  | 'repeated_call'
  | 'budget_tool_calls'
  | 'not_run';

/** A call that needs approval (K7). */
export interface ApprovalAsk {
  readonly callId: string;
  readonly tool: string;
  readonly reason: string;
}

/** `calls` are run, side by side; the lists that are absent are empty. */
export interface ExecuteToolsAction {
  readonly type: 'execute_tools';
  readonly stepIndex: number;
  readonly calls: readonly { readonly callId: string; readonly tool: string }[];
  readonly refuse?: readonly RefusedCall[];
  readonly ask?: readonly ApprovalAsk[];
}

export type AwaitAction =
  | {
      readonly type: 'await';
      readonly wait: 'tools' | 'approval';
      /** The nearest deadline of the waiting calls, epoch ms (T13). */
      readonly deadline: number;
    }
  /** An operator may extend the budget that is used up; asked under `askId` (K9). */
  | ({ readonly type: 'await'; readonly wait: 'operator' } & BudgetQuestion);

/** Where the deliverable comes from (T6, T8): the text of a thought, the submitted fields, a tool's result, or a fallback. */
export type DeliverableSource =
  /** `parts` come before it: the answer was longer than the model may write at once (K11). */
  | { readonly from: 'thought'; readonly cardId: string; readonly parts?: readonly string[] }
  | { readonly from: 'submit_result'; readonly callId: string }
  | { readonly from: 'tool_result'; readonly callId: string }
  | { readonly from: 'fallback' };

export interface DoneAction {
  readonly type: 'done';
  readonly termination: Termination;
  readonly deliverable: DeliverableSource;
  /** Cards that a rollback took back and no model call has hidden for certain (K13). */
  readonly hide?: readonly number[];
}

export type KernelAction = CallLlmAction | SummarizeAction | ExecuteToolsAction | AwaitAction | DoneAction;

/** What happened that no action says; each becomes a log line (K4). */
export type Observation =
  | { readonly type: 'event_ignored'; readonly event: string; readonly lifecycle: Lifecycle; readonly reason: string }
  | { readonly type: 'budget_hit'; readonly code: string; readonly used: number; readonly limit: number }
  | { readonly type: 'budgets_changed'; readonly budgets: BudgetChange }
  | { readonly type: 'reminded'; readonly tools: readonly string[] }
  | {
      readonly type: 'tool_gated';
      readonly callId: string;
      readonly tool: string;
      readonly decision: 'deny' | 'ask' | 'rate_limited';
      readonly stage: string;
      readonly reason: string;
    }
  | { readonly type: 'approval_answered'; readonly callId: string; readonly decision: string }
  | { readonly type: 'repeating'; readonly tool: string; readonly times: number }
  | { readonly type: 'rolled_back'; readonly reason: string; readonly cards: number; readonly inARow: number }
  | { readonly type: 'truncated'; readonly part: number }
  | { readonly type: 'shortened'; readonly mode: 'summary' | 'sprint'; readonly cards: number; readonly tokens: number }
  | { readonly type: 'overflow'; readonly time: number };
