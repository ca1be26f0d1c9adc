/** What a turn may cost in history and, over the bare workflow, in time; and a worker with thousands of waiting turns in memory. */
import {
  type Comparison,
  ENOUGH_ROUNDS,
  type Figure,
  medianOf,
  type Round,
  ratioOf,
  type Side,
  totalCpuMs,
  VARIANTS,
  type Variant,
} from './comparison.ts';
import type { HistoryResults, TurnCost } from './histories.ts';
import type { StoreKind } from './lab.ts';
import type { SuspendedResults } from './suspended.ts';
import { COMPARED_NAMES, type Compared } from './workload.ts';

export interface BudgetLine {
  readonly what: string;
  readonly measured: number;
  readonly limit: number;
  /** The limit is the least that is allowed; without this it is the most. */
  readonly atLeast?: boolean;
  /** Null: not judged, because the run was short, or too few blocks were undisturbed. */
  readonly ok: boolean | null;
}

const LIMITS = {
  shortTurnEvents: 12,
  shortTurnTasks: 2,
  furtherStepEvents: 1,
  suspendingStepEvents: 16,
  furtherStepBytes: 700,
  idleWorkflows: 0,
  /** One for each transaction: to accept, for the step that proposes the call, its result, and the step that ends the turn, with its openings. */
  storeSyncs: { oneTool: 7, noTool: 4 },
} as const;

/**
 * Over the bare workflow; each transaction on PostgreSQL costs round trips that a file does not. A turn without tools has as many events and
 * tasks as the bare workflow, so what the store costs comes on top.
 */
const RATIOS = {
  sqlite: { oneTool: { p50: 0.75, rate: 1.3, cpu: 0.9 }, noTool: { p50: 1, rate: 0.75, cpu: 1.35 } },
  postgres: { oneTool: { p50: 0.9, rate: 1.1, cpu: 0.9 }, noTool: { p50: 1.2, rate: 0.65, cpu: 1.5 } },
} as const satisfies Record<StoreKind, Record<Compared, { p50: number; rate: number; cpu: number }>>;

const NAMES = {
  oneTool: 'a one-tool turn',
  noTool: 'a turn without tools',
} as const satisfies Record<Compared, string>;

/** Of one worker, however many turns wait. */
const SUSPENDED_WORKER_BYTES = 600e6;

export function suspendedBudget({ failed, worker }: SuspendedResults): string[] {
  const peak = Math.max(worker.suspending.peakBytes, worker.resting.peakBytes, worker.completing.peakBytes);
  return [
    ...(failed > 0 ? [`${failed} turns did not end with success`] : []),
    ...(peak > SUSPENDED_WORKER_BYTES ? [`the worker used ${Math.round(peak / 1e6)} MB`] : []),
  ];
}

/** `judgesTime`: false for a short run, on a machine that others may use: then only what does not depend on it is judged. */
export function checkBudget(
  histories: HistoryResults,
  comparisons: Readonly<Record<Compared, Comparison>>,
  { judgesTime, store }: { readonly judgesTime: boolean; readonly store: StoreKind },
): BudgetLine[] {
  const { costs, steps, suspendingStepEvents, timedOutStepEvents } = histories;
  return [
    ...COMPARED_NAMES.flatMap((compared) => {
      const timed = timedLines(compared, comparisons[compared], store);
      return [
        ...countedLines(compared, costs[compared], comparisons[compared]),
        ...(judgesTime ? timed : timed.map((unjudged) => ({ ...unjudged, ok: null }))),
      ];
    }),
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

function countedLines(compared: Compared, costs: Record<Side, TurnCost>, { one, idle }: Comparison): BudgetLine[] {
  const what = NAMES[compared];
  return [
    ...VARIANTS.flatMap((variant) => [
      line(`events of ${what}, ${variant} agent`, costs[variant].events, LIMITS.shortTurnEvents),
      line(`workflow tasks of ${what}, ${variant} agent`, costs[variant].workflowTasks, LIMITS.shortTurnTasks),
      line(`disk waits of ${what}, ${variant} agent`, syncsOf(one, variant), LIMITS.storeSyncs[compared]),
    ]),
    line(`workflows of idle agents after ${what}`, idle.workflows, LIMITS.idleWorkflows),
  ];
}

function timedLines(compared: Compared, { one, many }: Comparison, store: StoreKind): BudgetLine[] {
  const ratios = RATIOS[store][compared];
  const what = NAMES[compared];
  return [
    ...ratioLines(`p50 of ${what} over the bare one`, one, ({ p50Ms }) => p50Ms, ratios.p50),
    ...ratioLines(`rate of ${what} over the bare one`, many, ({ perSecond }) => perSecond, ratios.rate, true),
    ...ratioLines(`processor time of ${what} over the bare one`, many, totalCpuMs, ratios.cpu),
  ];
}

/** With one caller, so that no commit is shared; what the store does beside turns is in the blocks of the bare workflow too. */
const syncsOf = (one: readonly Round[], variant: Variant): number =>
  medianOf(one, variant, ({ syncs }) => syncs) - medianOf(one, 'floor', ({ syncs }) => syncs);

const ratioLines = (
  what: string,
  rounds: readonly Round[],
  figure: Figure,
  limit: number,
  atLeast = false,
): BudgetLine[] =>
  VARIANTS.map((variant) => {
    const { ratio, judged } = ratioOf(rounds, variant, figure);
    const judgedLine = line(`${what}, ${variant} agent`, ratio, limit, atLeast);
    return judged >= ENOUGH_ROUNDS ? judgedLine : { ...judgedLine, ok: null };
  });

const line = (what: string, measured: number, limit: number, atLeast = false): BudgetLine => ({
  what,
  measured,
  limit,
  atLeast,
  ok: atLeast ? measured >= limit : measured <= limit,
});
