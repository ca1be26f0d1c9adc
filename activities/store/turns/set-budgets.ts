/** Budgets that an operator sets while a turn runs (K9): kept with the turn, whichever way they came. */
import { withBudgets } from '../../../workflows/kernel/budgets.ts';
import type { BudgetChange, Budgets } from '../../../workflows/protocol/profile.ts';
import type { Tx } from '../context.ts';
import { decoded, encoded } from '../schema/json.ts';
import type { TurnRow } from '../schema/turn-row.ts';

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
 * Adds budgets to those that were set before, and returns all of them. The caller holds the head row, and has made sure that a delegated
 * turn may get so much.
 */
export async function addBudgets(tx: Tx, turn: TurnRow, budgets: BudgetChange): Promise<BudgetChange> {
  const merged = withBudgets(setBudgetsOf(turn) ?? {}, budgets);
  const change = {
    budgets: encoded(merged),
    given_tokens: most(turn.given_tokens, budgets.maxTokens),
    given_cost: most(turn.given_cost, budgets.maxCost),
  };
  await tx.db.updateTable('turns').set(change).where('agent_turn_id', '=', turn.agent_turn_id).execute();
  return merged;
}

/** What was given only rises; a turn without that limit goes on without it. */
const most = (given: number | null, limit: number | undefined): number | null =>
  given === null ? null : Math.max(given, limit ?? 0);
