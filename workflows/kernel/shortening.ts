/** What follows when a summary has been made of what departs: the model call that it makes room for (K15, K16). */
import type { Observation } from './actions.ts';
import { withUsage } from './budgets.ts';
import { withoutDeparted } from './departure.ts';
import type { SummarizedEvent } from './events.ts';
import { callAgain } from './funnel.ts';
import { observed, type StepOutcome } from './outcome.ts';
import { phaseOf } from './phase.ts';
import type { KernelState } from './state.ts';

/** The summary is in view, and the model is called if the budgets still allow it after what the summary cost. */
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
