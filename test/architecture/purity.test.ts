/** What the type checker and the linter cannot see: a kernel without a clock, and a bundle without validators. */
import { globSync, readFileSync } from 'node:fs';
import { posix } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, test } from '@jest/globals';
import { parseSync } from '@swc/core';

const root = fileURLToPath(new URL('../..', import.meta.url));
const read = (file: string): string => readFileSync(`${root}/${file}`, 'utf8');
const parse = (text: string): unknown => parseSync(text, { syntax: 'typescript', target: 'es2024' }).body;

type Node = Readonly<Record<string, unknown>>;
const isNode = (value: unknown): value is Node => typeof value === 'object' && value !== null;

/** All nodes of a syntax tree. */
function nodesOf(tree: unknown): Node[] {
  if (!isNode(tree)) return [];
  return [...(Array.isArray(tree) ? [] : [tree]), ...Object.values(tree).flatMap(nodesOf)];
}

const IMPURE = [
  'Date',
  'process',
  'performance',
  'crypto',
  'fetch',
  'console',
  'globalThis',
  'Promise',
  'setTimeout',
  'setInterval',
  'setImmediate',
  'queueMicrotask',
  'random',
];

/** Names of things that are not the same twice, and anything that waits. */
function impurities(text: string): string[] {
  return nodesOf(parse(text)).flatMap(({ type, value, async }) => {
    if (type === 'Identifier' && IMPURE.includes(String(value))) return [String(value)];
    return type === 'AwaitExpression' || async === true ? ['await'] : [];
  });
}

describe('the kernel', () => {
  const files = globSync('workflows/kernel/**/*.ts', { cwd: root });

  test.each(files)('has no clock, no chance, no I/O and no await in %s (K1)', (file) => {
    expect(impurities(read(file))).toEqual([]);
  });

  test.each([
    ['Date.now()', 'Date'],
    ['new Date()', 'Date'],
    ['Math.random()', 'random'],
    ['process.hrtime()', 'process'],
    ['globalThis.fetch', 'globalThis'],
    ['async () => {}', 'await'],
  ])('would be caught at %s', (text, name) => {
    expect(impurities(`const x = ${text};`)).toContain(name);
  });

  test('is really there, and a comment or a type of its own is no impurity', () => {
    expect(files.length).toBeGreaterThan(5);
    expect(impurities('/** Date.now() is forbidden. */ const dated = Math.min(1, 2);')).toEqual([]);
  });
});

/** Variables of a module that could change: those bound again, and collections that begin empty. */
function stateOf(text: string): string[] {
  const statements = (parse(text) as Node[]).map((statement) => statement.declaration ?? statement);
  return statements.filter(isNode).flatMap(({ type, kind, declarations }) => {
    if (type !== 'VariableDeclaration') return [];
    if (kind !== 'const') return [String(kind)];
    return (declarations as Node[]).flatMap(({ init }) =>
      isNode(init) && init.type === 'NewExpression' && (init.arguments as Node[]).length === 0 ? ['new'] : [],
    );
  });
}

describe('modules that all workflows of a thread share', () => {
  test.each(globSync('workflows/**/*.ts', { cwd: root }))('keep no state in %s', (file) => {
    expect(stateOf(read(file))).toEqual([]);
  });

  test.each([
    ['let count = 0;', 'let'],
    ['export let count = 0;', 'let'],
    ['const seen = new Map<string, number>();', 'new'],
  ])('would be caught at %s', (text, found) => {
    expect(stateOf(text)).toEqual([found]);
  });
});

/** Modules a text imports at run time: `import type` is erased, `import { type A }` is not. */
function runtimeImports(text: string): string[] {
  return nodesOf(parse(text)).flatMap(({ type, source, typeOnly }) => {
    const declaration =
      type === 'ImportDeclaration' || type === 'ExportNamedDeclaration' || type === 'ExportAllDeclaration';
    return declaration && typeOnly !== true && isNode(source) ? [String(source.value)] : [];
  });
}

describe('what the workflow sandbox loads', () => {
  /** Files reachable from the bundle's entry at run time, each with the way to it. */
  function reachable(): Map<string, string> {
    const ways = new Map([['workflows/index.ts', 'workflows/index.ts']]);
    for (const [file, way] of ways) {
      for (const specifier of runtimeImports(read(file)).filter((name) => name.startsWith('.'))) {
        const target = posix.join(posix.dirname(file), specifier);
        if (!ways.has(target)) ways.set(target, `${way} → ${target}`);
      }
    }
    return ways;
  }

  test('is the workflows, the kernel and those files of words that need no zod', () => {
    const ways = reachable();
    expect([...ways.keys()]).toEqual(expect.arrayContaining(['workflows/kernel/step.ts', 'workflows/protocol/ids.ts']));
    const withZod = [...ways].filter(([file]) => runtimeImports(read(file)).includes('zod')).map(([, way]) => way);
    expect(withZod).toEqual([]);
  });

  test('leaves files of words with zod to be imported as types only', () => {
    const withZod = globSync('workflows/{protocol,contract}/*.ts', { cwd: root }).filter((file) =>
      runtimeImports(read(file)).includes('zod'),
    );
    expect(withZod).toEqual(expect.arrayContaining(['workflows/protocol/enqueue.ts', 'workflows/protocol/profile.ts']));
    const words = new Set(globSync('workflows/{protocol,contract}/*.ts', { cwd: root }));
    const others = globSync('workflows/**/*.ts', { cwd: root }).filter((file) => !words.has(file));
    const crossings = others.flatMap((file) =>
      runtimeImports(read(file))
        .map((specifier) => posix.join(posix.dirname(file), specifier))
        .filter((target) => withZod.includes(target))
        .map((target) => `${file} → ${target}`),
    );
    expect(crossings).toEqual([]);
  });

  test('is told apart from types by the declaration, as the erasing of types does', () => {
    expect(runtimeImports("import type { A } from './a.ts'; export type { B } from './b.ts';")).toEqual([]);
    expect(runtimeImports("import { type A } from './a.ts'; export { B } from './b.ts';")).toEqual([
      './a.ts',
      './b.ts',
    ]);
  });
});

describe('every source file', () => {
  const files = globSync(['{workflows,activities,client,workers,examples,bench}/**/*.ts', '*.ts'], { cwd: root });

  test('has at most 400 lines', () => {
    const long = files.map((file) => [file, read(file).split('\n').length] as const).filter(([, lines]) => lines > 400);
    expect(long).toEqual([]);
  });

  test('names what it exports: there is no `export *`', () => {
    const barrels = files.filter((file) =>
      nodesOf(parse(read(file))).some(({ type }) => type === 'ExportAllDeclaration'),
    );
    expect(barrels).toEqual([]);
  });
});
