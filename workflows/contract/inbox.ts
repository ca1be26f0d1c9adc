/**
 * The inbox of a running turn: what came for it since it was leased, in one order. Items are rows of the store; a turn gets them when it
 * opens a step or checks its waits, and the `wake` signal only tells it that there is something (T3, T22, K7, K9).
 */
import type { Delegated } from '../kernel/budgets.ts';
import type { ApprovalDecision } from '../kernel/events.ts';
import type { BudgetChange } from '../protocol/profile.ts';

/**
 * An item that becomes an event of the kernel. Steers are items too; they come with the step that shows them to the model, as cards of the
 * conversation.
 */
export type InboxItem<Answer = ApprovalDecision> =
  /** All budgets that operators have set so far. */
  | { readonly kind: 'budgets'; readonly seq: number; readonly budgets: BudgetChange }
  /** The answer to a question that the turn waits for. */
  | { readonly kind: 'answer'; readonly seq: number; readonly answer: Answer };

/** What a turn gets from its inbox, and what the turns that it delegated use of its budgets by then. */
export interface InboxDelivery<Answer = ApprovalDecision> {
  /** In the order in which they came, the answers last; absent when there are none. */
  readonly items?: readonly InboxItem<Answer>[];
  /** Absent when the turn has delegated nothing. */
  readonly delegated?: Delegated;
}

/** Marks how far a turn has read. */
export interface InboxMark {
  /**
   * The place of the last item that the turn has got: only later ones are delivered, except for answers, which come by their questions.
   * Absent when it has got none.
   */
  readonly inboxRead?: number;
}
