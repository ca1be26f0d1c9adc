/** What operations cost on stores of several sizes, as a table; and what costs more on the largest than it may. */
import type { MachineFacts } from '../facts.ts';
import { section, short, table, whole } from '../markdown.ts';
import { hardwareLine, STORE_NAMES } from '../report.ts';
import type { ScaleResults, SizeResults } from './measure.ts';

/** The largest store may take so many times what the smallest takes. */
const MOST_RATIO = 2;
/** Milliseconds that are noise on any machine. */
const FLOOR_MS = 2;

/** On a machine whose cores others take, the slowest in a hundred tell of the others. */
const judgedOf = ({ loadAtStart, cores }: MachineFacts): 'p50' | 'p99' => (loadAtStart > cores ? 'p50' : 'p99');

/**
 * An operation that writes may meet what the file needs once in a hundred operations (SQLite's checkpoint): which one meets it is chance, so
 * each is allowed twice what all of them together take on the smallest store.
 */
export function scaleBudget({ facts, sizes }: ScaleResults): string[] {
  const smallest = sizes[0];
  const largest = sizes.at(-1);
  if (!smallest || !largest) return [];
  const judged = judgedOf(facts);
  return Object.entries(largest.spreads).flatMap(([what, spread]) => {
    const own = smallest.spreads[what]?.[judged] ?? 0;
    const least = largest.writes.includes(what) ? Math.max(own, smallest.allWrites[judged]) : own;
    const limit = Math.max(least * MOST_RATIO, least + FLOOR_MS);
    if (spread[judged] <= limit) return [];
    return [
      `${what}: ${judged} ${short(spread[judged])} ms with ${whole(largest.turns)} turns, at most ${short(limit)}`,
    ];
  });
}

export function scaleMarkdown({ facts, store, sizes }: ScaleResults): string {
  const { node, loadAtStart } = facts;
  const machine = `${hardwareLine(facts)}; Node ${node}; ${STORE_NAMES[store]}; load at the start ${loadAtStart.toFixed(2)}.`;
  const head = ['ms', ...sizes.flatMap(({ turns }) => [`${whole(turns)} turns: p50`, 'p99'])];
  const rows = Object.keys(sizes[0]?.spreads ?? {}).map((what) => [
    what,
    ...sizes.flatMap((size) => cells(size, what)),
  ]);
  const together = [
    'all that turns write',
    ...sizes.flatMap(({ allWrites }) => [short(allWrites.p50), short(allWrites.p99)]),
  ];
  rows.push(together);
  return [machine, section('The same operation on a small and on a large store', table(head, rows))].join('\n\n');
}

function cells({ spreads }: SizeResults, what: string): string[] {
  const spread = spreads[what];
  return spread ? [short(spread.p50), short(spread.p99)] : ['–', '–'];
}
