/** What a turn got from its inbox, by kind. */
import type { InboxDelivery } from '../../workflows/contract/inbox.ts';
import type { BudgetChange } from '../../workflows/protocol/profile.ts';

/** The budgets of the delivery; undefined when it brings none. */
export const budgetsIn = ({ items = [] }: InboxDelivery<unknown>): BudgetChange | undefined =>
  items.flatMap((item) => (item.kind === 'budgets' ? item.budgets : [])).at(-1);

/** The answers of the delivery. */
export const answersIn = <T>({ items = [] }: InboxDelivery<T>): readonly T[] =>
  items.flatMap((item) => (item.kind === 'answer' ? item.answer : []));
