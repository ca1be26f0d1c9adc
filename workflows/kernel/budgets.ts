/** Budgets, checked at the one funnel before each model call (K9). */
import type { Termination } from '../protocol/turn.ts';
import type { KernelState } from './state.ts';

export interface BudgetHit {
  readonly termination: Termination;
  readonly used: number;
  readonly limit: number;
}

export function exhaustedBudget(state: KernelState): BudgetHit | null {
  const { maxSteps, maxTokens } = state.config.budgets;
  if (state.stepIndex >= maxSteps) {
    return hit('max_steps_reached', state.stepIndex, maxSteps, `${maxSteps} steps are used up`);
  }
  const tokens = state.usage.input + state.usage.output;
  if (tokens >= maxTokens) return hit('budget_tokens', tokens, maxTokens, `${tokens} of ${maxTokens} tokens are used`);
  return null;
}

const hit = (errorCode: string, used: number, limit: number, reason: string): BudgetHit => ({
  termination: { status: 'partial', errorCode, reason },
  used,
  limit,
});
