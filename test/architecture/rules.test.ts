/** Every rule of the turn protocol, of the kernel and of the model wire is named by a test and broken by a mutant, and every mutant still has its place in the code. */
import { globSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { describe, expect, test } from '@jest/globals';
import { type Mutant, mutated, namedBy } from '../mutants/mutant.ts';
import { MUTANTS } from '../mutants/mutants.ts';

const root = fileURLToPath(new URL('../..', import.meta.url));
const read = (file: string): string => readFileSync(`${root}/${file}`, 'utf8');

const KERNEL = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 22];
const WIRE = ['W14', 'W15', 'W17'];
const RULES = [
  ...Array.from({ length: 30 }, (_, index) => `T${index + 1}`),
  ...KERNEL.map((rule) => `K${rule}`),
  ...WIRE,
];

/** The codes that end a test's name: `… (T2, W9)`. Comments name rules too, but do not end in a quote. */
const codesIn = (text: string): string[] =>
  [...text.matchAll(/\(([A-Z]\d+(?:, [A-Z]\d+)*)\)['"`]/g)].flatMap(([, codes]) => codes?.split(', ') ?? []);

describe('the rules of the turn protocol, of the kernel and of the model wire', () => {
  const tests = globSync('test/{activities,bench,client,workers,workflows}/**/*.ts', { cwd: root });
  const named = new Set(tests.flatMap((file) => codesIn(read(file))));
  const broken = new Set(MUTANTS.map(({ rule }) => rule));

  test('are each named by a test and broken by a mutant', () => {
    expect(RULES.filter((rule) => !named.has(rule) || !broken.has(rule))).toEqual([]);
  });

  test('are read from the ends of names', () => {
    const text = `test('a (T1) b (T2, W9)', …); /** (T3) */ test.each(x)("c (T4)"); it\`(T5)\``;
    expect(codesIn(text)).toEqual(['T2', 'W9', 'T4', 'T5']);
  });
});

describe('a mutant', () => {
  test.each(MUTANTS)('of $rule finds its place: $breaks', (mutant) => {
    expect(RULES).toContain(mutant.rule);
    const source = read(mutant.file);
    expect(mutated(source, mutant)).not.toBe(source);
  });

  const mutant: Mutant = { rule: 'T1', breaks: '', file: 'a.ts', find: 'one', replace: 'two', test: '' };

  test('is refused where its snippet is missing or not unique', () => {
    expect(mutated('1 one 3', mutant)).toBe('1 two 3');
    expect(() => mutated('nothing', mutant)).toThrow('T1: a.ts has 0 places');
    expect(() => mutated('one one', mutant)).toThrow('T1: a.ts has 2 places');
  });

  test('is for the tests that name its rule, and no rule that begins like it', () => {
    expect('does it (T1, T2)').toMatch(new RegExp(namedBy(mutant)));
    expect('does it (T10)').not.toMatch(new RegExp(namedBy(mutant)));
    expect('a turn on sqlite does it (T1)').toMatch(new RegExp(namedBy({ rule: 'T1', only: 'on sqlite ' })));
  });
});
