/** Who may import whom. Folders are named by where their code runs, and the arrows keep it that way. */
import { globSync, readFileSync } from 'node:fs';
import { builtinModules } from 'node:module';
import { posix } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, test } from '@jest/globals';
import { parseSync } from '@swc/core';

const root = fileURLToPath(new URL('../..', import.meta.url));

/**
 * Room → rooms it may import from besides itself. A room is a folder, or one file; the longest name that fits a file is its room. A room
 * that is allowed brings the rooms inside it along, but for `HALLS`, which only those who name them may enter.
 */
const ROOMS: Readonly<Record<string, readonly string[]>> = {
  'workflows/protocol': [],
  'workflows/kernel': ['workflows/protocol'],
  'workflows/waiting': ['workflows/protocol'],
  'workflows/agent-state': ['workflows/protocol'],
  'workflows/chat': ['workflows/protocol', 'workflows/kernel'],
  'workflows/contract': [
    'workflows/protocol',
    'workflows/kernel',
    'workflows/waiting',
    'workflows/agent-state',
    'workflows/chat',
  ],
  'workflows/supervision': ['workflows/protocol', 'workflows/contract'],
  'workflows/messages': ['workflows/protocol', 'workflows/contract'],
  'workflows/turn': [
    'workflows/protocol',
    'workflows/kernel',
    'workflows/contract',
    'workflows/messages',
    'workflows/chat',
  ],
  workflows: [],
  'activities/index.ts': ['workflows', 'activities', 'activities/store-activities.ts'],
  'activities/store-activities.ts': ['workflows', 'activities'],
  'activities/app': ['workflows', 'activities/*', 'activities/tools/builtin'],
  'activities/store': ['workflows', 'activities/*'],
  'activities/burst': ['workflows', 'activities/*', 'activities/llm', 'activities/tools'],
  'activities/llm': ['workflows', 'activities/*', 'activities/app', 'activities/tools/builtin'],
  'activities/tools/builtin': ['workflows', 'activities/*'],
  'activities/tools': ['workflows', 'activities/*', 'activities/app'],
  activities: ['workflows'],
  'client/cli': ['client', 'workflows'],
  // Runs in a browser: of the others it takes types alone.
  'client/console/page': ['client/stream-parts.ts', 'workflows/contract'],
  // Both sides make tokens of triggers and find them by the same hash; the file imports nothing of ours.
  client: ['workflows', 'activities/wake-tokens.ts'],
  'workers/model-server': ['workflows/protocol'],
  'workers/temporal': ['workflows/protocol', 'client/connect.ts', 'activities/*', 'activities/store/sqlite/errors.ts'],
  'workers/supervision': ['client', 'workflows'],
  'workers/demo/answerer': ['workers/model-server', 'activities/app/nearest.ts'],
  'workers/demo': ['workers', 'activities', 'client', 'workflows'],
  workers: ['activities', 'client', 'workflows', 'activities/index.ts'],
  'index.ts': ['activities', 'client', 'workflows', 'workers/connected-client.ts', 'workers/demand-node.ts'],
  'kernel.ts': ['workflows/kernel', 'workflows/protocol'],
  scripts: ['workers', 'client/console'],
  examples: [],
  'test/support': ['activities', 'client', 'workers', 'workflows', 'test/histories'],
  bench: ['index.ts', 'activities', 'client', 'workers', 'workflows', 'test/support'],
  'test/chaos': ['bench', 'activities', 'client', 'workers', 'workflows', 'test/support'],
  test: ['index.ts', 'scripts', 'activities', 'client', 'workers', 'workflows', 'examples', 'bench', 'package.json'],
};

/** Files that put a folder's parts together. */
const HALLS = ['activities/index.ts', 'activities/store-activities.ts'];

/** npm packages of the parts of `workflows/` that must run anywhere; elsewhere any dependency will do. */
const PACKAGES: Readonly<Record<string, readonly string[]>> = {
  'workflows/kernel/': [],
  'workflows/protocol/': ['zod'],
  'workflows/': ['@temporalio/workflow', '@temporalio/common', 'zod'],
};

const MAY_READ_ENVIRONMENT = ['workers', 'test', 'bench'];

interface Finding {
  readonly specifiers: readonly string[];
  readonly readsEnvironment: boolean;
}

type Node = Readonly<Record<string, unknown>>;
const isNode = (value: unknown): value is Node => typeof value === 'object' && value !== null;
const textOf = (value: unknown): string | undefined =>
  isNode(value) && typeof value.value === 'string' ? value.value : undefined;

/** Everything a file imports in whatever form, types included, and whether it touches the environment. */
function inspect(text: string): Finding {
  const specifiers: string[] = [];
  let readsEnvironment = false;
  const visit = (value: unknown): void => {
    if (Array.isArray(value)) value.forEach(visit);
    if (!isNode(value) || Array.isArray(value)) return;
    specifiers.push(...importsOf(value));
    readsEnvironment ||= isProcessEnv(value);
    Object.values(value).forEach(visit);
  };
  visit(parseSync(text, { syntax: 'typescript', target: 'es2024' }).body);
  return {
    specifiers,
    readsEnvironment: readsEnvironment || specifiers.some((name) => /^(node:)?process$/.test(name)),
  };
}

function importsOf(node: Node): string[] {
  switch (node.type) {
    case 'ImportDeclaration':
    case 'ExportNamedDeclaration':
    case 'ExportAllDeclaration':
      return [textOf(node.source) ?? []].flat();
    case 'TsImportType':
      return [textOf(node.argument) ?? []].flat();
    case 'CallExpression': {
      const { callee, arguments: given } = node;
      const dynamic = isNode(callee) && (callee.type === 'Import' || textOf(callee) === 'require');
      const first: unknown = Array.isArray(given) ? given[0] : undefined;
      return dynamic && isNode(first) ? [textOf(first.expression) ?? []].flat() : [];
    }
    default:
      return [];
  }
}

/** Of `a.name` and of `a['name']`. */
const propertyName = (property: unknown): string | undefined =>
  textOf(property) ?? (isNode(property) ? textOf(property.expression) : undefined);

const isProcessEnv = ({ type, object, property, init, id }: Node): boolean =>
  (type === 'MemberExpression' && textOf(object) === 'process' && propertyName(property) === 'env') ||
  (type === 'VariableDeclarator' && textOf(init) === 'process' && isNode(id) && id.type === 'ObjectPattern');

/** What is wrong with a file, one line each. */
function complaints(file: string, text: string): string[] {
  const { specifiers, readsEnvironment } = inspect(text);
  const folder = file.split('/')[0] ?? '';
  const problems = specifiers.flatMap((specifier) => {
    const problem = specifier.startsWith('.') ? wrongArrow(file, specifier) : wrongPackage(file, specifier);
    return problem === null ? [] : [`${file} imports ${specifier}: ${problem}`];
  });
  const environment = readsEnvironment && !MAY_READ_ENVIRONMENT.includes(folder);
  return environment ? [...problems, `${file} reads process.env, which only workers/ may`] : problems;
}

const isIn = (file: string, room: string): boolean =>
  room.endsWith('/*') ? posix.dirname(file) === room.slice(0, -2) : file === room || file.startsWith(`${room}/`);

const roomOf = (file: string): string | undefined =>
  Object.keys(ROOMS)
    .filter((room) => isIn(file, room))
    .sort((a, b) => b.length - a.length)[0];

function wrongArrow(file: string, specifier: string): string | null {
  const target = posix.normalize(posix.join(posix.dirname(file), specifier));
  const from = roomOf(file);
  if (from === undefined) return `no room is known for ${file}`;
  const allowed = [from, ...(ROOMS[from] ?? [])];
  const closed = HALLS.includes(target) && !allowed.includes(target) && !isIn(from, 'test');
  if (closed || !allowed.some((room) => isIn(target, room))) return `${from} may import from ${allowed.join(', ')}`;
  return /\.(ts|json)$/.test(target) ? null : 'own imports end in .ts';
}

const packageOf = (specifier: string): string =>
  specifier
    .split('/')
    .slice(0, specifier.startsWith('@') ? 2 : 1)
    .join('/');

function wrongPackage(file: string, specifier: string): string | null {
  const name = packageOf(specifier);
  const part = Object.keys(PACKAGES).find((prefix) => file.startsWith(prefix));
  const builtin = specifier.startsWith('node:') || builtinModules.includes(name);
  if (part === undefined) return builtin && !specifier.startsWith('node:') ? 'write node: before a builtin' : null;
  if (builtin) return 'there is no Node in the workflow sandbox';
  return PACKAGES[part]?.includes(name) ? null : `${part} may import ${PACKAGES[part]?.join(', ') || 'no package'}`;
}

const sources = globSync(['{workflows,activities,client,workers,scripts,examples,bench,test}/**/*.ts', '*.ts'], {
  cwd: root,
});

describe('the imports of this repository', () => {
  test('are found at all', () => {
    expect(sources.length).toBeGreaterThan(100);
    const found = inspect(readFileSync(`${root}/workflows/turn/turn.ts`, 'utf8')).specifiers;
    expect(found).toEqual(expect.arrayContaining(['@temporalio/workflow', '../kernel/actions.ts', './waits.ts']));
  });

  test('follow the arrows; the environment is read in workers/ only', () => {
    expect(sources.flatMap((file) => complaints(file, readFileSync(`${root}/${file}`, 'utf8')))).toEqual([]);
  });
});

test('the manifest declares what the product imports, and nothing else', () => {
  const product = sources.filter((file) => /^(workflows|activities|client|workers)\/|^\w+\.ts$/.test(file));
  const imported = product.flatMap((file) => inspect(readFileSync(`${root}/${file}`, 'utf8')).specifiers);
  const packages = imported.filter((specifier) => !/^(\.|node:)/.test(specifier)).map(packageOf);
  const { dependencies, peerDependencies } = JSON.parse(readFileSync(`${root}/package.json`, 'utf8'));
  const declared = Object.keys({ ...dependencies, ...peerDependencies });
  // The declarations of @temporalio/common import the types of `ms`, and it does not depend on them. Without `protobufjs` here, npm would
  // give the top to the version of gRPC and install that of Temporal four times.
  const unimported = ['@types/ms', 'protobufjs'];
  expect(declared.sort()).toEqual([...new Set([...packages, ...unimported])].sort());
});

describe('a planted import is found', () => {
  test.each([
    ['client/x.ts', "import { a } from '../activities/app/app.ts';"],
    ['client/cli/x.ts', "export { a } from '../../workers/config.ts';"],
    ['activities/x.ts', "import type { A } from '../client/agent-client.ts';"],
    ['activities/llm/x.ts', "export * from '../../workers/config.ts';"],
    ['workers/x.ts', "import '../test/support/app.ts';"],
    ['workflows/x.ts', "import type * as a from '../activities/index.ts';"],
    ['workflows/x.ts', "const a = await import('../activities/index.ts');"],
    ['workflows/x.ts', "let a: import('../activities/app/app.ts').App;"],
    ['workflows/x.ts', "import { join } from 'node:path';"],
    ['workflows/x.ts', "import { join } from 'path';"],
    ['workflows/x.ts', "import OpenAI from 'openai';"],
    ['workflows/x.ts', "const fs = require('fs');"],
    ['workflows/kernel/x.ts', "import { log } from '@temporalio/workflow';"],
    ['workflows/kernel/x.ts', "import { z } from 'zod';"],
    ['workflows/kernel/x.ts', "import type { Lease } from '../contract/activities.ts';"],
    ['workflows/protocol/x.ts', "import { defineSignal } from '@temporalio/workflow';"],
    ['workers/x.ts', "import { join } from 'path';"],
    ['workers/x.ts', "import { a } from './config';"],
    ['client/x.ts', "import { a } from '../../elsewhere/x.ts';"],
    ['index.ts', "export { startWorker } from './workers/worker.ts';"],
    ['kernel.ts', "export type { Lease } from './workflows/contract/lease.ts';"],
    ['examples/x.ts', "import { defineApp } from '../index.ts';"],
    ['activities/x.ts', 'const home = process.env.HOME;'],
    ['activities/x.ts', "const home = process['env'].HOME;"],
    ['client/x.ts', 'const { env } = process;'],
    ['client/x.ts', "import { env } from 'node:process';"],
  ])('in %s: %s', (file, text) => {
    expect(complaints(file, text)).toHaveLength(1);
  });

  test.each([
    ['client/x.ts', "import { a } from '../workflows/messages/messages.ts';"],
    ['activities/x.ts', "import { a } from '../workflows/contract/activities.ts'; import { join } from 'node:path';"],
    ['workers/x.ts', "import { a } from '../activities/app/app.ts'; const home = process.env.HOME;"],
    ['workflows/kernel/x.ts', "import type { Usage } from '../protocol/turn.ts'; import { step } from './step.ts';"],
    ['workflows/x.ts', "import { proxyActivities } from '@temporalio/workflow';"],
    ['activities/x.ts', "const text = 'import x from ../client/x.ts'; // import '../client/x.ts'"],
    ['test/x.ts', "import { a } from '../workers/config.ts';"],
  ])('and a good one is not: in %s: %s', (file, text) => {
    expect(complaints(file, text)).toEqual([]);
  });
});
