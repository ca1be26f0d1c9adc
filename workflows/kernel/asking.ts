/** What follows when an operator who was asked for a larger budget has decided, or did not answer in time (K9). */
import { exhaustedBudget } from './budgets.ts';
import type { ApprovalDecision } from './events.ts';
import { finalReport, nextModelCall } from './funnel.ts';
import type { StepOutcome } from './outcome.ts';
import { phaseOf } from './phase.ts';
import type { KernelState } from './state.ts';

/**
 * Acts on the answer about a used-up budget: with a larger one, which came before the answer, the turn goes on; else it makes its final
 * report (K9).
 */
export function onOperatorDecision(state: KernelState, { decision }: ApprovalDecision, nowMs: number): StepOutcome {
  const { question, extra } = phaseOf(state, 'asking');
  const isLifted = exhaustedBudget(state, nowMs) === null;
  if (decision === 'approved' || (decision === 'unanswered' && isLifted)) return nextModelCall(state, nowMs, extra);
  const { code, used, limit } = question;
  const reason = `${used} of ${limit} used, and nobody extended the budget (${code})`;
  return finalReport(state, { code, used, limit, reason }, nowMs);
}
