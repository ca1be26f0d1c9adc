/** The comparison with the bare workflow as a table. */
import { MANY_CALLERS } from './acks.ts';
import {
  type Figure,
  medianOf,
  type Round,
  ratioOf,
  type Side,
  totalCpuMs,
  VARIANTS,
  type Variant,
} from './comparison.ts';
import type { TurnCost } from './histories.ts';
import { short, table, whole } from './markdown.ts';
import { PARTS } from './probes.ts';
import type { Results } from './results.ts';
import type { Compared } from './workload.ts';

const PART_NAMES = {
  engine: 'Temporal server',
  worker: 'worker',
  client: 'callers',
  model: 'model server',
  database: 'PostgreSQL',
} as const satisfies Record<(typeof PARTS)[number], string>;

type Text = (value: number) => string;

const HEADINGS = { oneTool: 'one tool call', noTool: 'no tool call' } as const satisfies Record<Compared, string>;

export function comparisonTable({ histories, comparisons, store }: Results, compared: Compared): string {
  const { one, many, idle } = comparisons[compared];
  const row = (what: string, text: Text, value: (side: Side) => number, ratio: (variant: Variant) => number) => {
    const ours = VARIANTS.flatMap((variant) => [text(value(variant)), ratioText(ratio(variant))]);
    return [what, text(value('floor')), ...ours];
  };
  const counted = (what: string, cost: keyof TurnCost): string[] => {
    const value = (side: Side) => histories.costs[compared][side][cost];
    return row(what, whole, value, (variant) => value(variant) / value('floor'));
  };
  const timed = (what: string, text: Text, rounds: readonly Round[], figure: Figure): string[] => {
    const value = (side: Side) => medianOf(rounds, side, figure);
    return row(what, text, value, (variant) => ratioOf(rounds, variant, figure).ratio);
  };
  const parts = PARTS.filter((part) => part !== 'database' || store === 'postgres');
  const rows = [
    counted('history events', 'events'),
    counted('workflow tasks', 'workflowTasks'),
    counted('billable actions', 'actions'),
    timed('ms until the result, p50, 1 caller', whole, one, ({ p50Ms }) => p50Ms),
    timed('waits of the store for its disk a turn, 1 caller', short, one, ({ syncs }) => syncs),
    timed(`turns per second, ${MANY_CALLERS} callers`, short, many, ({ perSecond }) => perSecond),
    timed(`waits of the store for its disk a turn, ${MANY_CALLERS} callers`, short, many, ({ syncs }) => syncs),
    timed('ms of processor time a turn, all processes', whole, many, totalCpuMs),
    ...parts.map((part) => timed(`– ${PART_NAMES[part]}`, short, many, ({ cpuMs }) => cpuMs[part])),
  ];
  return [
    table([HEADINGS[compared], 'bare', 'fresh agents', 'ratio', 'standing agents', 'ratio'], rows),
    `${judgedOf(one, 'one caller')}; ${judgedOf(many, `${MANY_CALLERS} callers`)}. ` +
      `${whole(idle.agents)} idle agents keep ${whole(idle.workflows)} workflows running.`,
  ].join('\n\n');
}

/** No ratio is shown where the floor has nothing to compare with, as for the database. */
const ratioText = (ratio: number): string => (Number.isFinite(ratio) ? ratio.toFixed(2) : '–');

function judgedOf(rounds: readonly Round[], callers: string): string {
  const judged = Math.min(...VARIANTS.map((variant) => ratioOf(rounds, variant, totalCpuMs).judged));
  return `${judged} of ${rounds.length} rounds with ${callers} are judged`;
}
