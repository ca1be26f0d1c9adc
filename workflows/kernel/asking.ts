/** What follows when an operator who was asked for a larger budget has decided, or did not answer in time (K9). */
import type { Observation } from './actions.ts';
import { exhaustedBudget, withChangedBudgets } from './budgets.ts';
import type { ApprovalDecision } from './events.ts';
import { finalReport, nextModelCall } from './funnel.ts';
import { observed, type StepOutcome } from './outcome.ts';
import { phaseOf } from './phase.ts';
import type { KernelState } from './state.ts';

/** Acts on the answer about a used-up budget: with a larger one the turn goes on, else it makes its final report (K9). */
export function onOperatorDecision(
  state: KernelState,
  { decision, budgets }: ApprovalDecision,
  nowMs: number,
): StepOutcome {
  const { question, extra } = phaseOf(state, 'asking');
  if (decision === 'approved') {
    const seen: Observation = { type: 'budgets_changed', budgets: budgets ?? {} };
    return observed([seen], nextModelCall({ ...state, ...withChangedBudgets(state, budgets) }, nowMs, extra));
  }
  if (decision === 'unanswered' && exhaustedBudget(state, nowMs) === null) return nextModelCall(state, nowMs, extra);
  const { code, used, limit } = question;
  const reason = `${used} of ${limit} used, and nobody extended the budget (${code})`;
  return finalReport(state, { code, used, limit, reason }, nowMs);
}
