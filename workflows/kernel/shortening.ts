/** What follows when a summary has been made: it takes the place of what departs, and the model call it was made for comes (K15, K16). */
import type { Observation } from './actions.ts';
import { withUsage } from './budgets.ts';
import type { SummarizedEvent } from './events.ts';
import { withoutDeparted } from './eviction.ts';
import { callAgain } from './funnel.ts';
import { observed, type StepOutcome } from './outcome.ts';
import { phaseOf } from './phase.ts';
import type { KernelState } from './state.ts';

export function onSummarized(state: KernelState, { summary, usage, cost, nowMs }: SummarizedEvent): StepOutcome {
  const { departure, call } = phaseOf(state, 'shortening');
  const { units, seqs, mode } = departure;
  const { view, saved } = withoutDeparted(state, departure, summary);
  const sprint = state.context.sprint + (mode === 'sprint' ? 1 : 0);
  const next: KernelState = {
    ...state,
    ...view,
    ...withUsage(state, usage, cost),
    context: { ...view.context, sprint },
  };
  const seen: Observation = { type: 'shortened', mode, cards: units + seqs.length, tokens: saved };
  return observed([seen], callAgain(next, nowMs, call));
}
