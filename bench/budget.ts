/** What a turn may cost in history, and a worker with thousands of waiting turns in memory. Time has no budget: it depends on the machine. */
import type { HistoryResults, TurnSize } from './histories.ts';
import type { SuspendedResults } from './suspended.ts';

export interface BudgetLine {
  readonly what: string;
  readonly measured: number;
  readonly limit: number;
  readonly ok: boolean;
}

const LIMITS = {
  oneToolTurnEvents: 28,
  oneToolAgentEvents: 18,
  furtherStepEvents: 12,
  suspendingStepEvents: 24,
  furtherStepBytes: 4 * 1024,
} as const;

/** Of one worker, however many turns wait. */
const SUSPENDED_WORKER_BYTES = 700e6;

export function suspendedBudget({ failed, worker }: SuspendedResults): string[] {
  const peak = Math.max(worker.suspending.peakBytes, worker.resting.peakBytes, worker.completing.peakBytes);
  return [
    ...(failed > 0 ? [`${failed} turns did not end with success`] : []),
    ...(peak > SUSPENDED_WORKER_BYTES ? [`the worker used ${Math.round(peak / 1e6)} MB`] : []),
  ];
}

export function checkBudget({ sizes, steps, suspendingStepEvents, timedOutStepEvents }: HistoryResults): BudgetLine[] {
  const oneTool = sizes.find((size) => size.calls === 1);
  if (!oneTool) throw new RangeError('the budget is about a turn with one call, and none was measured');
  return [
    line('events of a turn with one tool call', oneTool.turn.events, LIMITS.oneToolTurnEvents),
    line('events of its agent, at most', agentEvents(oneTool), LIMITS.oneToolAgentEvents),
    ...steps.map(({ from, to, eventsPerStep }) =>
      line(`events per further step, ${from} → ${to} calls`, eventsPerStep, LIMITS.furtherStepEvents),
    ),
    line('events of a suspending step, answered', suspendingStepEvents, LIMITS.suspendingStepEvents),
    line('events of a suspending step, timed out', timedOutStepEvents, LIMITS.suspendingStepEvents),
    ...steps.map(({ from, to, bytesPerStep }) =>
      line(`bytes per further step, ${from} → ${to} calls`, bytesPerStep, LIMITS.furtherStepBytes),
    ),
  ];
}

const agentEvents = ({ agentFirst, agentFurther }: TurnSize): number =>
  Math.max(agentFirst.events, agentFurther?.events ?? 0);

const line = (what: string, measured: number, limit: number): BudgetLine => ({
  what,
  measured,
  limit,
  ok: measured <= limit,
});
