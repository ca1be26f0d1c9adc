/**
 * Every rule of the turn protocol, of the kernel, of the model wire, of agents between their turns and of chats is named by a test and broken
 * by a mutant, every mutant still has its place in the code, and docs/rules.md says what each code means.
 */
import { existsSync, globSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { describe, expect, test } from '@jest/globals';
import { type Mutant, mutated, namedBy } from '../mutants/mutant.ts';
import { MUTANTS } from '../mutants/mutants.ts';

const root = fileURLToPath(new URL('../..', import.meta.url));
const read = (file: string): string => readFileSync(`${root}/${file}`, 'utf8');

const KERNEL = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 22];
const WIRE = ['W14', 'W15', 'W16', 'W17'];
const AGENT_STATE = Array.from({ length: 12 }, (_, index) => `A${index + 1}`);
const CHATS = Array.from({ length: 11 }, (_, index) => `C${index + 1}`);
const RULES = [
  ...Array.from({ length: 30 }, (_, index) => `T${index + 1}`),
  ...KERNEL.map((rule) => `K${rule}`),
  ...WIRE,
  ...AGENT_STATE,
  ...CHATS,
];

/** The codes that end a test's name: `… (T2, W9)`. Comments name rules too, but do not end in a quote. */
const codesIn = (text: string): string[] =>
  [...text.matchAll(/\(([A-Z]\d+(?:, [A-Z]\d+)*)\)['"`]/g)].flatMap(([, codes]) => codes?.split(', ') ?? []);

describe('the rules of the turn protocol, of the kernel, of the model wire, of agents between their turns and of chats', () => {
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

/** `T13–T18` as the six codes it stands for; a code by itself stands for itself. */
function codesOfRange(range: string): string[] {
  const letter = range.charAt(0);
  const [first = 0, last = first] = range.split('–').map((code) => Number(code.slice(1)));
  return Array.from({ length: last - first + 1 }, (_, index) => `${letter}${first + index}`);
}

const LIST = String.raw`[A-Z]\d+(?:(?:, |–)[A-Z]\d+)*`;

/** The codes that stand in parentheses anywhere in a text, also where a comment or a list of codes goes on in the next line. */
const codesMentioned = (text: string): string[] =>
  [...text.replace(/\s*\n\s*(?:\*|\/\/)? */g, ' ').matchAll(new RegExp(`\\((${LIST})\\)`, 'g'))].flatMap(
    ([, list = '']) => list.split(', ').flatMap(codesOfRange),
  );

describe('docs/rules.md', () => {
  const page = read('docs/rules.md');
  const rows = [...page.matchAll(/^\| ([A-Z]\d+) +\| (.+?) +\| (?:`(.+?)`|– not built yet) +\|$/gm)].map(
    ([, code = '', , file]) => ({ code, file }),
  );
  const codes = rows.map(({ code }) => code);
  const product = globSync('{workflows,activities,client,workers}/**/*.ts', { cwd: root });
  const mentions = [
    ...product.map((file) => ({ file, codes: codesMentioned(read(file)) })),
    ...globSync('test/**/*.ts', { cwd: root }).map((file) => ({ file, codes: codesIn(read(file)) })),
  ];

  test('has a row for every code that the product or the name of a test mentions', () => {
    const unknown = mentions.flatMap(({ file, codes: said }) =>
      said.filter((code) => !codes.includes(code)).map((code) => `${file}: ${code}`),
    );
    expect(unknown).toEqual([]);
  });

  test('has each code once, in order, letter by letter, and no row that is not read here', () => {
    const number = (code: string): number => 'TWKAC'.indexOf(code.charAt(0)) * 100 + Number(code.slice(1));
    expect(codes).toEqual([...new Set(codes)].sort((a, b) => number(a) - number(b)));
    expect(codes.length).toBe(page.match(/^\| [A-Z]\d/gm)?.length);
    expect(codes.filter((code) => !'TWKAC'.includes(code.charAt(0)))).toEqual([]);
  });

  test('names for each built rule a file that mentions its code, and none for a rule that nothing mentions', () => {
    const built = rows.flatMap(({ code, file }) => (file === undefined ? [] : [{ code, file }]));
    const wrong = built.filter(
      ({ code, file }) => !existsSync(`${root}/${file}`) || !codesMentioned(read(file)).includes(code),
    );
    expect(wrong).toEqual([]);
    const mentioned = new Set(mentions.flatMap(({ codes: said }) => said));
    expect(rows.filter(({ code, file }) => mentioned.has(code) !== (file !== undefined))).toEqual([]);
  });

  test('says which rules have mutants', () => {
    const [, list = ''] = page.match(new RegExp(`mutants: (${LIST});`)) ?? [];
    expect(list.split(', ').flatMap(codesOfRange).sort()).toEqual([...RULES].sort());
  });

  test('is held against codes in parentheses, ranges and broken lines included', () => {
    expect(codesMentioned('a (T9) b (T2–T4, W1) C5 (see K1)')).toEqual(['T9', 'T2', 'T3', 'T4', 'W1']);
    expect(codesMentioned(' * a (T12,\n * T13) and\n  // (K9)')).toEqual(['T12', 'T13', 'K9']);
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
