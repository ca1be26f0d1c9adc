/** The figures that operators plan with, taken from the tables of docs/performance.md: what is said in two places is measured once. */
import { table } from './markdown.ts';

/** Where the text between the two marks that name a part of a page begins and ends. Errors: Error when the page has no such part. */
function extentOf(text: string, part: string): [number, number] {
  const begin = `<!-- bench:${part}:begin -->`;
  const from = text.indexOf(begin);
  const to = text.indexOf(`<!-- bench:${part}:end -->`);
  if (from < 0 || to < from) throw new Error(`there is no ${begin} with its end to put the tables between`);
  return [from + begin.length, to];
}

/** The tables of a part. Errors: Error when the page has no such part. */
export const partOf = (text: string, part: string): string => text.slice(...extentOf(text, part)).trim();

/** The page with other tables in a part. Errors: Error when the page has no such part. */
export function withPart(text: string, part: string, tables: string): string {
  const [from, to] = extentOf(text, part);
  return `${text.slice(0, from)}\n\n${tables}\n\n${text.slice(to)}`;
}

/** The cells of a row behind its label, in the table whose first heading is `heading`. Errors: Error when there is no such row. */
function cellsOf(text: string, heading: string, label: string): string[] {
  const rows = text.split('\n').map((line) => (line.startsWith('|') ? line.split('|').slice(1, -1) : []));
  const start = rows.findIndex(([first]) => first?.trim() === heading);
  const cells = rows.slice(Math.max(start, 0)).find(([first]) => first?.trim() === label);
  if (start < 0 || !cells) throw new Error(`docs/performance.md has no row "${label}" in a table of "${heading}"`);
  return cells.slice(1).map((cell) => cell.trim());
}

/** The table of sizes of docs/production.md, from the text of docs/performance.md. Errors: Error when a row is missing. */
export function sizesTable(performance: string): string {
  const part = (name: string) => partOf(performance, name);
  const usual = (store: string, heading: string, label: string) => cellsOf(part(store), heading, label);
  /** Of a table that compares: fresh agents, and the bare workflow. */
  const compared = (heading: string, label: string) => (store: string) => {
    const [bare = '', fresh = ''] = usual(store, heading, label);
    return `${fresh}; ${bare} of a bare workflow`;
  };
  const single = (of: string, heading: string, label: string) => (store: string) =>
    cellsOf(part(`${of}:${store}`), heading, label)[0] ?? '';
  const both = (what: string, of: (store: string) => string): string[] => [what, of('sqlite'), of('postgres')];
  const supervised = (store: string) => {
    const [, p50 = '', p99 = ''] = cellsOf(part(`supervise:${store}`), 'pass', 'nothing is due');
    return `${p50} ms; ${p99} ms at the 99th percentile`;
  };
  const [events = '', bytes = ''] = usual('sqlite', 'turn', '1 call');
  const [, before = ''] = usual('sqlite', 'open turns', '100');
  const worker = 'one worker';
  return table(
    ['measured on two cores, with everything on one machine', 'SQLite', 'PostgreSQL'],
    [
      both(
        'turns of one tool call a second (the model answers at once)',
        compared('one tool call', 'turns per second, 16 callers'),
      ),
      both('… without a tool call', compared('no tool call', 'turns per second, 16 callers')),
      both(
        'ms until the result of a turn with one tool call',
        compared('one tool call', 'ms until the result, p50, 1 caller'),
      ),
      both(
        'ms of processor time of such a turn, all processes',
        compared('one tool call', 'ms of processor time a turn, all processes'),
      ),
      both('actions that Temporal bills for such a turn', compared('one tool call', 'billable actions')),
      ['history of such a turn', `${events} events, ${bytes} bytes`, 'the same'],
      ['memory of a worker', `${before} MB`, 'the same'],
      both(
        '… while 5,000 turns come to wait: median, peak',
        single('suspended', worker, 'worker, RSS until all wait: median, peak'),
      ),
      both(
        '… while they are answered: median, peak',
        single('suspended', worker, 'worker, RSS until all are done: median, peak'),
      ),
      both(
        'databases after these 5,000 turns: store, Temporal',
        single('suspended', worker, 'databases at the end: store, Temporal'),
      ),
      both('a pass of the supervisor beside 100,000 idle agents, every 2 s in one process', supervised),
    ],
  );
}
