/** No file imports itself by way of others, types included: what two files need of each other belongs into a third. */
import { globSync, readFileSync } from 'node:fs';
import { posix } from 'node:path';
import { fileURLToPath } from 'node:url';
import { expect, test } from '@jest/globals';

const root = fileURLToPath(new URL('../..', import.meta.url));

type Graph = ReadonlyMap<string, readonly string[]>;

/** Groups of files that reach each other (Tarjan's algorithm); a file alone is no circle. */
function circlesOf(graph: Graph): string[][] {
  const index = new Map<string, number>();
  const lowest = new Map<string, number>();
  const stack: string[] = [];
  const circles: string[][] = [];
  const visit = (file: string): void => {
    index.set(file, index.size);
    lowest.set(file, index.get(file) ?? 0);
    stack.push(file);
    for (const next of graph.get(file) ?? []) {
      if (!index.has(next)) visit(next);
      if (stack.includes(next)) lowest.set(file, Math.min(lowest.get(file) ?? 0, lowest.get(next) ?? 0));
    }
    if (lowest.get(file) !== index.get(file)) return;
    const group = stack.splice(stack.indexOf(file));
    if (group.length > 1) circles.push(group.sort());
  };
  for (const file of graph.keys()) if (!index.has(file)) visit(file);
  return circles;
}

const importsOf = (file: string): string[] =>
  [...readFileSync(`${root}/${file}`, 'utf8').matchAll(/(?:from|import)\s*\(?\s*'(\.[^']+\.ts)'/g)].map(
    ([, specifier = '']) => posix.join(posix.dirname(file), specifier),
  );

test('there is no circle', () => {
  const files = globSync('{workflows,activities,client,workers,bench,examples,test}/**/*.ts', { cwd: root }).filter(
    (file) => !file.startsWith('test/architecture/'),
  );
  expect(files.length).toBeGreaterThan(300);
  expect(circlesOf(new Map(files.map((file) => [file, importsOf(file)])))).toEqual([]);
});

test('circles of two and of three are found, and a diamond is none', () => {
  const graph = { a: ['b'], b: ['c', 'd'], c: ['a'], d: ['e'], e: ['d'], f: ['g', 'h'], g: ['i'], h: ['i'], i: [] };
  expect(circlesOf(new Map(Object.entries(graph))).sort()).toEqual([
    ['a', 'b', 'c'],
    ['d', 'e'],
  ]);
});
