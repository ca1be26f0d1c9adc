/** The results as Markdown tables, padded so that they read well in a terminal too. */
import { type AckResults, MANY_CALLERS } from './acks.ts';
import type { BudgetLine } from './budget.ts';
import type { Facts, MachineFacts } from './facts.ts';
import type { HistoryResults, HistorySize } from './histories.ts';
import type { StoreKind } from './lab.ts';
import type { MemoryRow } from './memory.ts';
import type { Spread } from './numbers.ts';
import type { Latency, Throughput } from './speed.ts';

const STORE_NAMES: Readonly<Record<StoreKind, string>> = { sqlite: 'store on SQLite', postgres: 'store on PostgreSQL' };

export interface Results {
  readonly store: StoreKind;
  readonly facts: Facts;
  readonly histories: HistoryResults;
  readonly budget: readonly BudgetLine[];
  readonly latency: Latency;
  readonly throughput: Throughput;
  readonly memory: readonly MemoryRow[];
  readonly acks: { readonly idle: AckResults; readonly busy: AckResults };
  readonly seconds: number;
}

export function toMarkdown(results: Results): string {
  return [
    machineLine(results.facts, results.store, results.seconds),
    section('History', historyTable(results.histories)),
    section('History per further step', stepTable(results.histories)),
    section('Budget', budgetTable(results.budget)),
    section('Beside a bare workflow', ratioTable(results)),
    section('Acknowledgement of an enqueue', ackTable(results.acks)),
    section('Memory of a worker with open turns', memoryTable(results.memory)),
  ].join('\n\n');
}

/** What depends on the store. */
export function toShortMarkdown(results: Results): string {
  return [
    machineLine(results.facts, results.store, results.seconds),
    section('Beside a bare workflow', ratioTable(results)),
    section('Acknowledgement of an enqueue', ackTable(results.acks)),
  ].join('\n\n');
}

export function machineLine(facts: Facts, store: StoreKind, seconds?: number): string {
  const { node, temporalServer, loadAtStart } = facts;
  const software = `Node ${node}, Temporal dev server ${temporalServer}`;
  const took = seconds === undefined ? '' : `; the run took ${Math.round(seconds)} s`;
  return `${hardwareLine(facts)}; ${software}; ${STORE_NAMES[store]}; load at the start ${loadAtStart.toFixed(2)}${took}.`;
}

export const hardwareLine = ({ date, cpu, cores, memoryGiB, system }: MachineFacts): string =>
  `${date}, ${cores} cores (${cpu}), ${memoryGiB} GiB, ${system}`;

export const section = (title: string, body: string): string => `### ${title}\n\n${body}`;

const historyTable = ({ sizes }: HistoryResults): string =>
  table(
    ['turn', 'events', 'bytes', 'agent, first turn', 'bytes', 'agent, further turn', 'bytes', 'bare workflow', 'bytes'],
    sizes.map(({ shape, turn, agentFirst, agentFurther, floor }) => [
      shape,
      ...cells(turn),
      ...cells(agentFirst),
      ...cells(agentFurther),
      ...cells(floor),
    ]),
  );

const cells = (size: HistorySize | null): string[] => (size ? [whole(size.events), whole(size.bytes)] : ['–', '–']);

const stepTable = ({ steps }: HistoryResults): string =>
  table(
    ['calls', 'events per step', 'bytes per step'],
    steps.map(({ from, to, eventsPerStep, bytesPerStep }) => [
      `${from} → ${to}`,
      short(eventsPerStep),
      whole(bytesPerStep),
    ]),
  );

export const budgetTable = (budget: readonly BudgetLine[]): string =>
  table(
    ['what', 'measured', 'limit', ''],
    budget.map(({ what, measured, limit, ok }) => [what, short(measured), whole(limit), ok ? 'ok' : 'OVER']),
  );

function ratioTable({ histories, latency, throughput }: Results): string {
  const one = histories.sizes.find((size) => size.calls === 1);
  const events = (one?.turn.events ?? 0) + (one?.agentFurther?.events ?? 0);
  const { ours, oursClosed, floor, floorWithoutDelivery } = latency;
  const { oursPerSecond, floorPerSecond, loops, turns } = throughput;
  return table(
    ['one tool call', 'ours', 'bare', 'ratio'],
    [
      ['events, turn and agent', ...compared(events, one?.floor?.events ?? Number.NaN, whole)],
      [`ms until the result, p50 of ${ours.n}`, ...compared(ours.p50, floor.p50, whole)],
      ['ms until the result, slowest', ...compared(ours.p99, floor.p99, whole)],
      ['ms until the workflow is closed, p50', ...compared(oursClosed.p50, floor.p50, whole)],
      [
        'ms until the result, p50, bare without its last activity',
        ...compared(ours.p50, floorWithoutDelivery.p50, whole),
      ],
      [`turns per second, ${turns} turns in ${loops} loops`, ...compared(oursPerSecond, floorPerSecond, short)],
    ],
  );
}

const compared = (ours: number, bare: number, text: (value: number) => string): string[] => [
  text(ours),
  text(bare),
  (ours / bare).toFixed(2),
];

function ackTable({ idle, busy }: Results['acks']): string {
  const row = (what: string, { n, p50, p99 }: Spread): string[] => [what, whole(n), short(p50), short(p99)];
  return table(
    ['enqueue', 'calls', 'p50 ms', 'p99 ms'],
    [
      row('1 caller, no worker running', idle.one),
      row(`${MANY_CALLERS} callers, no worker running`, idle.many),
      row('1 caller, a worker running the turns', busy.one),
      row(`${MANY_CALLERS} callers, a worker running the turns`, busy.many),
    ],
  );
}

const memoryTable = (rows: readonly MemoryRow[]): string =>
  table(
    ['worker', 'open turns', 'RSS before, MB', 'RSS with them, MB', 'MB per turn'],
    rows.map(({ limits, openTurns, beforeBytes, afterBytes }) => [
      limits,
      whole(openTurns),
      whole(beforeBytes / 1e6),
      whole(afterBytes / 1e6),
      ((afterBytes - beforeBytes) / openTurns / 1e6).toFixed(2),
    ]),
  );

export const whole = (value: number): string => Math.round(value).toLocaleString('en-US');
/** One digit after the point, where it says something. */
export const short = (value: number): string =>
  value.toLocaleString('en-US', { maximumFractionDigits: value < 100 ? 1 : 0 });

/** The first column to the left, the numbers to the right. */
export function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const widths = head.map((title, column) => Math.max(3, title.length, ...rows.map((row) => row[column]?.length ?? 0)));
  const render = (row: readonly string[]): string =>
    `| ${row.map((cell, column) => (column === 0 ? cell.padEnd(widths[0] ?? 0) : cell.padStart(widths[column] ?? 0))).join(' | ')} |`;
  const rule = widths.map((width, column) => (column === 0 ? '-'.repeat(width) : `${'-'.repeat(width - 1)}:`));
  return [render(head), render(rule), ...rows.map(render)].join('\n');
}
