/** The paths of messages in docs/architecture.md lead from file to file as the code does. */
import { existsSync, globSync, readFileSync } from 'node:fs';
import { posix } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, test } from '@jest/globals';

const root = fileURLToPath(new URL('../..', import.meta.url));
const read = (file: string): string => readFileSync(`${root}/${file}`, 'utf8');

interface Hop {
  readonly from: string;
  readonly to: string;
  /** The first imports the second; else the message gets there another way. */
  readonly imports: boolean;
}

/** The hops between files that a page names one after the other, also across the end of a line. */
const hopsIn = (page: string): Hop[] =>
  [...page.matchAll(/`([^`\s]+\.ts)`\s+(→|⇢)(?=\s+`([^`\s]+\.ts)`)/g)].map(([, from = '', arrow, to = '']) => ({
    from,
    to,
    imports: arrow === '→',
  }));

const imports = (from: string, to: string): boolean =>
  [...read(from).matchAll(/from '(\.[^']+)'/g)].some(
    ([, specifier = '']) => posix.join(posix.dirname(from), specifier) === to,
  );

const hops = hopsIn(read('docs/architecture.md'));

test('every path is told, and all its files exist', () => {
  expect(hops.length).toBeGreaterThan(40);
  expect(hops.flatMap(({ from, to }) => [from, to]).filter((file) => !existsSync(`${root}/${file}`))).toEqual([]);
});

test('where a file is said to import the next, it does', () => {
  const wrong = hops.filter(({ from, to, imports: said }) => said && !imports(from, to));
  expect(wrong.map(({ from, to }) => `${from} → ${to}`)).toEqual([]);
});

test('where it is said not to, it does not', () => {
  const wrong = hops.filter(({ from, to, imports: said }) => !said && imports(from, to));
  expect(wrong.map(({ from, to }) => `${from} ⇢ ${to}`)).toEqual([]);
});

test('hops are read across lines, each from where the one before arrived', () => {
  expect(hopsIn('`a.ts` →\n   `b.ts` ⇢ `c.ts`')).toEqual([
    { from: 'a.ts', to: 'b.ts', imports: true },
    { from: 'b.ts', to: 'c.ts', imports: false },
  ]);
});

/** Who writes each table, by the statements in the code: Kysely's, and those that are written out. */
function writersOf(tables: readonly string[]): Map<string, string[]> {
  const writers = new Map<string, string[]>();
  const files = globSync('activities/store/**/*.ts', { cwd: root }).filter((file) => !file.endsWith('migrations.ts'));
  for (const file of files.sort()) {
    const text = read(file);
    for (const table of tables) {
      const writes = new RegExp(
        `(insertInto|updateTable|deleteFrom)\\('${table}'\\)|(insertRows|updateRows)\\(\\s*[\\w.]+,\\s*'${table}'|(insert into|update|delete from) ${table}[\\s(]`,
      );
      if (writes.test(text))
        writers.set(table, [...(writers.get(table) ?? []), file.slice('activities/store/'.length)]);
    }
  }
  return writers;
}

test('who writes a table is told of every table, as the code does', () => {
  const schema = read('activities/store/schema/migrations.ts');
  const tables = [...schema.matchAll(/create table (?!if)(\w+)/g)].flatMap(([, name]) => name ?? []);
  const page = read('docs/architecture.md').split('### Who writes what')[1] ?? '';
  const told = new Map(
    [...page.matchAll(/^\| `(\w+)` +\| (.+?) +\|$/gm)].map(([, table = '', files = '']) => [
      table,
      [...files.matchAll(/`([^`]+)`/g)].flatMap(([, file]) => file ?? []).sort(),
    ]),
  );
  expect(tables.length).toBeGreaterThan(15);
  expect(Object.fromEntries(told)).toEqual(Object.fromEntries(writersOf(tables)));
});
