/** The results as tables in Markdown. */
import type { BudgetLine } from '../budget.ts';
import { section, short, table, whole } from '../markdown.ts';
import { budgetTable, hardwareLine } from '../report.ts';
import type { KernelResults, SizeResults } from './measure.ts';

export function kernelMarkdown({ facts, sizes }: KernelResults, targets: readonly BudgetLine[]): string {
  const { node, loadAtStart } = facts;
  return [
    `${hardwareLine(facts)}; Node ${node}; load at the start ${loadAtStart.toFixed(2)}.`,
    section('Microseconds of a step of the kernel, by event and cards in view', timingTable(sizes)),
    section('The state of the kernel', stateTable(sizes)),
    section('Targets of the kernel', budgetTable(targets)),
  ].join('\n\n');
}

function timingTable(sizes: readonly SizeResults[]): string {
  const head = ['event', ...sizes.flatMap(({ handles }) => [`${whole(handles)}: p50`, 'p99'])];
  const names = sizes[0]?.timings.map(({ name }) => name) ?? [];
  const rows = names.map((name, index) => [
    name,
    ...sizes.flatMap(({ timings }) => {
      const { p50 = Number.NaN, p99 = Number.NaN } = timings[index]?.micros ?? {};
      return [short(p50), short(p99)];
    }),
  ]);
  return table(head, rows);
}

const stateTable = (sizes: readonly SizeResults[]): string =>
  table(
    ['handles', 'bytes of the snapshot', 'bytes of memory', 'memory per handle'],
    sizes.map(({ handles, snapshotBytes, heapBytes }) => [
      whole(handles),
      whole(snapshotBytes),
      whole(heapBytes),
      short(heapBytes / handles),
    ]),
  );
