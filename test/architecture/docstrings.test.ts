/** Every exported name of the product says what it is for, and so does every method of a contract. */
import { globSync, readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { describe, expect, test } from '@jest/globals';

const root = fileURLToPath(new URL('../..', import.meta.url));
const read = (file: string): string => readFileSync(`${root}/${file}`, 'utf8');

const EXPORT = /^export (?:default )?(?:async )?(?:const|function\*?|class|interface|type) (\w+)/;
const METHOD = /^ {2}(\w+)(?:<[^>]*>)?\(/;

/** Names whose line has no comment that ends right above it. */
function undocumented(text: string, declaration: RegExp): string[] {
  const lines = text.split('\n');
  return lines.flatMap((line, at) => {
    const name = declaration.exec(line)?.[1];
    return name === undefined || lines[at - 1]?.trimEnd().endsWith('*/') ? [] : [name];
  });
}

/** The interfaces of a file, as text: what is a method there is a call elsewhere. */
const interfacesOf = (text: string): string =>
  [...text.matchAll(/^export interface [\s\S]*?^\}/gm)].map(([body]) => body).join('\n');

const product = globSync(['{workflows,activities,client,workers}/**/*.ts'], { cwd: root });

describe('a docstring', () => {
  test('stands above every exported name', () => {
    const missing = product.flatMap((file) => undocumented(read(file), EXPORT).map((name) => `${file}: ${name}`));
    expect(missing).toEqual([]);
  });

  test('stands above every method of a contract', () => {
    const contracts = [
      ...globSync('workflows/contract/*.ts', { cwd: root }),
      'client/api.ts',
      'client/client-api.ts',
      'client/chat/api.ts',
    ];
    const missing = contracts.flatMap((file) =>
      undocumented(interfacesOf(read(file)), METHOD).map((name) => `${file}: ${name}`),
    );
    expect(missing).toEqual([]);
  });

  test('is missed where there is none', () => {
    expect(undocumented('/** A. */\nexport const a = 1;\nexport async function b() {}', EXPORT)).toEqual(['b']);
    const contract =
      'export interface A {\n  /** B. */\n  b(): void;\n  c<T>(d: T): void;\n}\nfunction e() {\n  f();\n}';
    expect(undocumented(interfacesOf(contract), METHOD)).toEqual(['c']);
  });
});
