/** The results as Markdown tables, padded so that they read well in a terminal too. */
import { MANY_CALLERS } from './acks.ts';
import type { BudgetLine } from './budget.ts';
import { comparisonTable } from './comparison-report.ts';
import type { Facts, MachineFacts } from './facts.ts';
import type { HistoryResults, HistorySize } from './histories.ts';
import type { StoreKind } from './lab.ts';
import { precise, section, short, table, whole } from './markdown.ts';
import type { MemoryResults } from './memory.ts';
import type { Spread } from './numbers.ts';
import type { Results } from './results.ts';
import { COMPARED_NAMES } from './workload.ts';

export const STORE_NAMES: Readonly<Record<StoreKind, string>> = {
  sqlite: 'store on SQLite',
  postgres: 'store on PostgreSQL',
};

export function toMarkdown(results: Results): string {
  return [
    toShortMarkdown(results),
    section('History', historyTable(results.histories)),
    section('Memory of a worker with open turns', memoryTable(results.memory)),
  ].join('\n\n');
}

/** What depends on the store. */
export function toShortMarkdown(results: Results): string {
  return [
    machineLine(results.facts, results.store, results.seconds),
    section(
      'Beside a bare workflow',
      COMPARED_NAMES.map((compared) => comparisonTable(results, compared)).join('\n\n'),
    ),
    section('Budget', budgetTable(results.budget)),
    section('Acknowledgement of an enqueue', ackTable(results.acks)),
  ].join('\n\n');
}

export function machineLine(facts: Facts, store: StoreKind, seconds?: number): string {
  const { node, temporalServer, pooler, loadAtStart } = facts;
  const software = `Node ${node}, Temporal dev server ${temporalServer}`;
  const took = seconds === undefined ? '' : `; the run took ${Math.round(seconds)} s`;
  return `${hardwareLine(facts)}; ${software}; ${STORE_NAMES[store]}${pooler === null ? '' : ` through PgBouncer ${pooler}`}; load at the start ${loadAtStart.toFixed(2)}${took}.`;
}

export const hardwareLine = ({ date, cpu, cores, memoryGiB, system }: MachineFacts): string =>
  `${date}, ${cores} cores (${cpu}), ${memoryGiB} GiB, ${system}`;

const historyTable = ({ sizes }: HistoryResults): string =>
  table(
    ['turn', 'events', 'bytes', 'bare workflow', 'bytes'],
    sizes.map(({ shape, turn, floor }) => [shape, ...cells(turn), ...cells(floor)]),
  );

const cells = (size: HistorySize | null): string[] => (size ? [whole(size.events), whole(size.bytes)] : ['–', '–']);

export const budgetTable = (budget: readonly BudgetLine[]): string =>
  table(
    ['what', 'measured', 'limit', ''],
    budget.map(({ what, measured, limit, atLeast, ok }) => [
      what,
      Number.isNaN(measured) ? '–' : precise(measured),
      `${atLeast ? 'at least ' : ''}${precise(limit)}`,
      ok === null ? 'not judged: too short, or disturbed' : ok ? 'ok' : 'OVER',
    ]),
  );

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

function memoryTable({ openTurns, beforeBytes, afterBytes }: MemoryResults): string {
  const perTurn = ((afterBytes - beforeBytes) / openTurns / 1e6).toFixed(2);
  return table(
    ['open turns', 'RSS before, MB', 'RSS with them, MB', 'MB per turn'],
    [[whole(openTurns), whole(beforeBytes / 1e6), whole(afterBytes / 1e6), perTurn]],
  );
}
