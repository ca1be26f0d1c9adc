/** One word, one meaning: exported names and documents keep to docs/vocabulary.md. */
import { existsSync, globSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { describe, expect, test } from '@jest/globals';
import { parseSync } from '@swc/core';

const root = fileURLToPath(new URL('../..', import.meta.url));
const read = (file: string): string => readFileSync(`${root}/${file}`, 'utf8');
const PAGE = 'docs/vocabulary.md';

/** Parts of names that nothing exported has. */
const NOT_IN_NAMES = [
  ...['bell', 'doorbell', 'ring', 'look', 'looked', 'looks', 'leave', 'told', 'roomy', 'reckon', 'reckoned'],
  ...['mailbox', 'everybody'],
];
/** What no document says, this page and the record of what was tried excepted. */
const NOT_IN_DOCS = [/\bdoorbells?\b/i, /\bbells?\b/i, /\broomy\b/i, /\bon end\b/, /\breckon/i, /\beverybody\b/i];

interface Row {
  readonly word: string;
  readonly meaning: string;
  readonly owner: string;
}

const rows = [...read(PAGE).matchAll(/^\| (.+?) +\| (.+?) +\| `(.+?)` +\|$/gm)].map(
  ([, word = '', meaning = '', owner = '']): Row => ({ word, meaning, owner }),
);

type Node = Readonly<Record<string, unknown>>;
const isNode = (value: unknown): value is Node =>
  typeof value === 'object' && value !== null && !Array.isArray(value) && 'type' in value;
const nameOf = (node: unknown): string[] => {
  if (!isNode(node)) return [];
  if (typeof node.value === 'string') return [node.value];
  return [];
};

/** The names that a file exports, and those of the members of its exported interfaces and classes. */
function exportedNames(text: string): { readonly names: string[]; readonly members: string[] } {
  const names: string[] = [];
  const members: string[] = [];
  for (const item of parseSync(text, { syntax: 'typescript', target: 'es2024' }).body as unknown as Node[]) {
    const declaration = item.type === 'ExportDeclaration' ? item.declaration : undefined;
    if (!isNode(declaration)) continue;
    names.push(...nameOf(declaration.identifier), ...nameOf(declaration.id));
    for (const { id } of (declaration.declarations as { id: unknown }[] | undefined) ?? []) names.push(...nameOf(id));
    members.push(...membersOf(declaration));
  }
  return { names, members };
}

function membersOf({ body }: Node): string[] {
  const parts = Array.isArray(body) ? body : isNode(body) && Array.isArray(body.body) ? body.body : [];
  return parts.flatMap((part: unknown) => (isNode(part) ? nameOf(part.key) : []));
}

const partsOf = (name: string): string[] => name.split(/(?=[A-Z][a-z])|_/).map((part) => part.toLowerCase());

const product = globSync(['{workflows,activities,client,workers}/**/*.ts', 'index.ts'], { cwd: root });
const exportsByFile = new Map(product.map((file) => [file, exportedNames(read(file))]));

describe('the vocabulary', () => {
  test('has each word once, in order, with a meaning and an owner that exists', () => {
    const words = rows.map(({ word }) => word.toLowerCase());
    expect(words.length).toBeGreaterThan(50);
    expect(words).toEqual([...new Set(words)].sort());
    expect(rows.filter(({ owner }) => !existsSync(`${root}/${owner}`)).map(({ owner }) => owner)).toEqual([]);
  });

  test('is kept by every exported name and by every member of what is exported', () => {
    const wrong = [...exportsByFile].flatMap(([file, { names, members }]) =>
      [...names, ...members]
        .filter((name) => partsOf(name).some((part) => NOT_IN_NAMES.includes(part)))
        .map((name) => `${file}: ${name}`),
    );
    expect(wrong).toEqual([]);
  });

  test('is kept by every document', () => {
    const pages = globSync(['*.md', 'docs/*.md'], { cwd: root }).filter((page) => page !== PAGE);
    const wrong = pages.flatMap((page) => {
      const said = NOT_IN_DOCS.flatMap((words) => words.exec(read(page))?.[0] ?? []);
      return said.map((word) => `${page}: ${word}`);
    });
    expect(wrong).toEqual([]);
  });
});

/** The same functions for the two databases have the same names, as the files they lie in. */
const DIALECTS = /^activities\/store\/(sqlite|postgres)\//;

test('no two exported names of the product are equal', () => {
  const files = new Map<string, string[]>();
  for (const [file, { names }] of exportsByFile) {
    if (DIALECTS.test(file)) continue;
    for (const name of names) files.set(name, [...(files.get(name) ?? []), file]);
  }
  const twice = [...files].filter(([, at]) => at.length > 1).map(([name, at]) => `${name}: ${at.join(', ')}`);
  expect(twice).toEqual([]);
});

test('names are found where they are exported', () => {
  const text = `export const a = 1, lookUp = 2; const b = 1; export function c() {} export interface D { looked: 1; e(): void }
    export class F { g() {} }; export type H = 1; export { b };`;
  expect(exportedNames(text)).toEqual({ names: ['a', 'lookUp', 'c', 'D', 'F', 'H'], members: ['looked', 'e', 'g'] });
  expect(partsOf('lookUpTurn_told')).toEqual(['look', 'up', 'turn', 'told']);
});
