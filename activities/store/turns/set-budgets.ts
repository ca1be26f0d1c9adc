/** Budgets that an operator sets while a turn runs (K9): kept with the turn, whichever way they came. */
import type { InboxItem, InboxMark } from '../../../workflows/contract/inbox.ts';
import { withBudgets } from '../../../workflows/kernel/budgets.ts';
import type { BudgetChange, Budgets } from '../../../workflows/protocol/profile.ts';
import { canonicalDigest } from '../../canonical.ts';
import type { Tx } from '../context.ts';
import { decoded, encoded } from '../schema/json.ts';
import type { TurnRow } from '../schema/turn-row.ts';
import { findItem, type InboxKey, markItem, putItem } from './inbox.ts';

/** The budgets that operators set so far; null when they set none. */
export const setBudgetsOf = ({ budgets }: Pick<TurnRow, 'budgets'>): BudgetChange | null =>
  budgets === null ? null : decoded(budgets);

/** A turn's budgets as they stand: those of its profile, as operators changed them, and never more than it was given (K20). */
export function budgetsOf(turn: Pick<TurnRow, 'budgets' | 'given_tokens' | 'given_cost'>, ofProfile: Budgets): Budgets {
  const set = withBudgets(ofProfile, setBudgetsOf(turn) ?? {});
  return withBudgets(set, {
    maxTokens: turn.given_tokens === null ? undefined : Math.min(set.maxTokens, turn.given_tokens),
    maxCost: turn.given_cost === null ? undefined : Math.min(set.maxCost ?? turn.given_cost, turn.given_cost),
  });
}

/**
 * Adds budgets to those that were set before, and returns all of them; null when they are the same as before. The caller holds the head
 * row, and has made sure that a delegated turn may get so much.
 */
export async function addBudgets(tx: Tx, turn: TurnRow, budgets: BudgetChange): Promise<BudgetChange | null> {
  const before = setBudgetsOf(turn) ?? {};
  const merged = withBudgets(before, budgets);
  if (canonicalDigest(merged) === canonicalDigest(before)) return null;
  const change = {
    budgets: encoded(merged),
    given_tokens: most(turn.given_tokens, budgets.maxTokens),
    given_cost: most(turn.given_cost, budgets.maxCost),
  };
  await tx.db.updateTable('turns').set(change).where('agent_turn_id', '=', turn.agent_turn_id).execute();
  // A turn that is leased later gets them with its lease.
  if (turn.status !== 'queued') await putItem(tx, budgetsKey(turn));
  return merged;
}

/** The budgets that operators set, as an item; none when the turn has read them, or there are none. */
export async function unreadBudgets(
  tx: Tx,
  turn: TurnRow,
  { inboxRead = 0 }: InboxMark,
): Promise<readonly InboxItem<never>[]> {
  const budgets = setBudgetsOf(turn);
  const key = budgetsKey(turn);
  const item = budgets ? await findItem(tx, key) : undefined;
  if (!budgets || !item || item.seq <= inboxRead) return [];
  if (item.status === 'pending') await markItem(tx, key, { status: 'consumed' });
  return [{ kind: 'budgets', seq: item.seq, budgets }];
}

/** The row of the budgets in the turn's inbox. */
const budgetsKey = ({ agent_turn_id }: Pick<TurnRow, 'agent_turn_id'>): InboxKey => ({
  agent_turn_id,
  kind: 'budgets',
  ref: '',
});

/** What was given only rises; a turn without that limit goes on without it. */
const most = (given: number | null, limit: number | undefined): number | null =>
  given === null ? null : Math.max(given, limit ?? 0);
