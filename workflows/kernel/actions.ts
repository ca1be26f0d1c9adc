/** What the kernel asks of its driver (K2), and what it lets observers know (K4). All of it is data: the kernel does nothing itself. */
import type { BudgetChange } from '../protocol/profile.ts';
import type { Termination } from '../protocol/turn.ts';
import type { BudgetQuestion } from './budgets.ts';
import type { CallName } from './calls.ts';
import type { BoxExtent } from './handles.ts';
import type { CallExtra } from './model-call.ts';
import type { Lifecycle } from './phase.ts';
import type { Residency } from './pressure.ts';

/** The cards to render into a prompt, in this order. It names ranges, so that it stays short however long the turn is (K3). */
export interface Plan {
  readonly ranges: readonly PlanRange[];
}

/** Neighbouring cards that are rendered alike. */
export interface PlanRange extends BoxExtent {
  /** With how much of them results of tools are rendered; absent when they are rendered whole. */
  readonly residency?: Exclude<Residency, 'full'>;
}

/** A line that the model reads after everything else. It is about this one call and becomes no card (K14). */
export type StateLine =
  /** Messages of users that lie far behind: the task first, then the newest, oldest of them first. `seqs` are places in the output box. */
  | { readonly kind: 'user_messages'; readonly boxId: string; readonly seqs: readonly number[] }
  /** The plan that this call of `update_plan` wrote down. */
  | { readonly kind: 'plan'; readonly callId: string }
  /** How many steps are left, the one that is asked for included (K10). */
  | { readonly kind: 'steps_left'; readonly steps: number }
  /** In how many steps in a row the same call of this tool was proposed (K12). */
  | { readonly kind: 'repeating'; readonly tool: string; readonly times: number };

/** The model is called: one step of the turn begins. The driver answers with `llm_response`, `llm_failed` or `timeout`. */
export interface CallLlmAction extends CallExtra {
  readonly type: 'call_llm';
  readonly stepIndex: number;
  readonly plan: Plan;
  /** Absent when there is nothing to say. */
  readonly stateBlock?: readonly StateLine[];
  /** How many tokens messages of users may add to the prompt that came meanwhile and are not in the plan (T22). */
  readonly room: number;
  /** The places of cards in the output box that were taken back; the store hides them before it does anything else (K13). Absent when none. */
  readonly hide?: readonly number[];
}

/**
 * A summary is written of the cards that `plan` renders, and takes the place of the cards of `hide` (K15). A model writes it; a rule does
 * for a sprint (K16), before the final report, or when the model fails. The driver answers with `summarized`.
 */
export interface SummarizeAction {
  readonly type: 'summarize';
  /** The index of the model call that waits for the summary. */
  readonly stepIndex: number;
  readonly mode: 'summary' | 'sprint';
  /** Present when no model may be asked, because a budget is used up and only the final report is still to come (K9). */
  readonly byRule?: true;
  readonly plan: Plan;
  readonly hide: readonly BoxExtent[];
  /** The most tokens that the summary may have. */
  readonly maxTokens: number;
}

/** A call that is not run. It gets an error result with this code and message, which the model sees like any other result. */
export interface RefusedCall extends CallName {
  readonly code: RefusedCallCode;
  readonly message: string;
}

/** Why a call is not run; `not_run` is for the siblings of a denied call that takes its whole step back or ends the turn (K6). */
export type RefusedCallCode =
  | 'governance_denied'
  | 'rate_limited'
  | 'approval_denied'
  | 'approval_unanswered'
  | 'repeated_call'
  | 'budget_tool_calls'
  | 'not_run';

/** A call that runs only with an approval (K7). */
export interface ApprovalAsk extends CallName {
  /** Why a person is asked; the person reads it. */
  readonly reason: string;
}

/**
 * The calls of a step are run side by side, refused, or put before a person. A list that is absent is empty. The driver answers with
 * `tool_results`, which say of every call that it is settled or waits.
 */
export interface ExecuteToolsAction {
  readonly type: 'execute_tools';
  readonly stepIndex: number;
  /** The calls that run. */
  readonly calls: readonly CallName[];
  readonly refuse?: readonly RefusedCall[];
  readonly ask?: readonly ApprovalAsk[];
}

/** The turn is suspended until something comes from outside, or until the deadline. */
export type AwaitAction =
  /** Calls wait for reports (`tools`), or at least one of them for a person (`approval`); the nearest of their deadlines, epoch ms (T13). */
  | { readonly type: 'await'; readonly wait: 'tools' | 'approval'; readonly deadline: number }
  /** A budget is used up, and an operator may extend it (K9). */
  | ({ readonly type: 'await'; readonly wait: 'operator' } & BudgetQuestion);

/** The card from which the deliverable is made (T6, T8). */
export type DeliverableSource =
  /** The text of a message. `parts` are the messages before it that belong to the same answer, which was cut short (K11). */
  | { readonly from: 'thought'; readonly cardId: string; readonly parts?: readonly string[] }
  /** The fields of an accepted `submit_result`. */
  | { readonly from: 'submit_result'; readonly callId: string }
  /** The result of a terminating tool. */
  | { readonly from: 'tool_result'; readonly callId: string }
  /** There is none; the store makes the best of what the turn has (T7). */
  | { readonly from: 'fallback' };

/** The turn has ended; no event changes it any more. */
export interface DoneAction {
  readonly type: 'done';
  readonly termination: Termination;
  readonly deliverable: DeliverableSource;
  /** The places of cards that were taken back and that no model call has hidden for certain (K13). Absent when none. */
  readonly hide?: readonly number[];
}

/** What the driver is to do next. */
export type KernelAction = CallLlmAction | SummarizeAction | ExecuteToolsAction | AwaitAction | DoneAction;

/** What happened that no action says; each becomes a log line, and some a notice (K4). */
export type Observation =
  /** The event did not apply, and changed nothing. */
  | { readonly type: 'event_ignored'; readonly event: string; readonly lifecycle: Lifecycle; readonly reason: string }
  | { readonly type: 'budget_hit'; readonly code: string; readonly used: number; readonly limit: number }
  | { readonly type: 'budgets_changed'; readonly budgets: BudgetChange }
  /** The model ended without one of the tools it must end with (W13). */
  | { readonly type: 'reminded'; readonly tools: readonly string[] }
  /** Governance let a call run only with an approval, or not at all; `stage` is the one that decided (K5). */
  | {
      readonly type: 'tool_gated';
      readonly callId: string;
      readonly tool: string;
      readonly decision: 'deny' | 'ask' | 'rate_limited';
      readonly stage: string;
      readonly reason: string;
    }
  | { readonly type: 'approval_answered'; readonly callId: string; readonly decision: string }
  /** The same call was proposed in this many steps in a row (K12). */
  | { readonly type: 'repeating'; readonly tool: string; readonly times: number }
  /** The last step was taken back, with this many cards; it is the `inARow`-th of its kind (K13). */
  | { readonly type: 'rolled_back'; readonly reason: string; readonly cards: number; readonly inARow: number }
  /** The answer was cut short by the output limit; this is the number of the part (K11). */
  | { readonly type: 'truncated'; readonly part: number }
  /** A summary took the place of these many cards and context units, which saves that many tokens (K15, K16). */
  | { readonly type: 'shortened'; readonly mode: 'summary' | 'sprint'; readonly cards: number; readonly tokens: number }
  /** The provider found the prompt too long, for the `time`-th time since it last took one (K11). */
  | { readonly type: 'overflow'; readonly time: number };
