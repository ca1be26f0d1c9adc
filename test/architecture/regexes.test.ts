/** Regular expressions: whatever text they meet, none takes more than its length, for most of them meet texts from outside. */
import { globSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { expect, test } from '@jest/globals';
import { parseSync } from '@swc/core';
import { check } from 'recheck';

const root = fileURLToPath(new URL('../..', import.meta.url));

/** Files in which a pattern is put together, and of what. */
const COMPOSED: Readonly<Record<string, string>> = {
  'workflows/chat/elements.ts': 'a plain word',
  'client/gateway/gateway.ts': 'a path of our own',
  'client/console/page/gateway.ts': 'a name of our own',
};

/** Files whose patterns meet nothing that grows, and why. */
const BOUNDED: Readonly<Record<string, string>> = {
  'activities/redact.ts': 'each part of a pattern that could run on is bounded',
  'client/console/console.ts': 'it reads the sources of the page',
};

interface Pattern {
  readonly file: string;
  readonly source: string;
  readonly flags: string;
}

/** What the code of a file has of regular expressions: its literals, and whether it makes others. */
function regexesIn(file: string): { readonly literals: readonly Pattern[]; readonly composes: boolean } {
  const literals: Pattern[] = [];
  let composes = false;
  const walk = (node: unknown): void => {
    if (typeof node !== 'object' || node === null) return;
    const { type, pattern, flags, callee } = node as Readonly<Record<string, unknown>>;
    if (type === 'RegExpLiteral') literals.push({ file, source: String(pattern), flags: String(flags) });
    const called = callee as { readonly value?: unknown } | undefined;
    if ((type === 'NewExpression' || type === 'CallExpression') && called?.value === 'RegExp') composes = true;
    for (const each of Object.values(node)) walk(each);
  };
  walk(parseSync(readFileSync(`${root}/${file}`, 'utf8'), { syntax: 'typescript', target: 'es2022' }));
  return { literals, composes };
}

// The stand-in for a model reads so much of a text and no more.
const files = globSync('{workflows,activities,client,workers}/**/*.ts', { cwd: root }).filter(
  (file) => !file.startsWith('workers/demo/answerer/'),
);

test('none takes more time than its text is long', async () => {
  const patterns = files.filter((file) => !(file in BOUNDED)).flatMap((file) => regexesIn(file).literals);
  expect(patterns.length).toBeGreaterThan(100);
  const slow: string[] = [];
  for (const { file, source, flags } of patterns) {
    const { status } = await check(source, flags);
    if (status !== 'safe') slow.push(`${file}: /${source}/${flags} is ${status}`);
  }
  expect(slow).toEqual([]);
}, 240_000);

test('those that are put together are known', () => {
  expect(files.filter((file) => regexesIn(file).composes).sort()).toEqual(Object.keys(COMPOSED).sort());
});
