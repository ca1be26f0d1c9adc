/**
 * `npm test`: all tests, or one of their layers. What else is given goes to Jest.
 *
 * `--unit`: what needs no server, which is pure code and stores on SQLite. `--changed`: the test files that lead to what is changed and not
 * committed or, as `--changed=main`, what the commits since `main` have changed too; all of them where none leads to it.
 */
import type { ChildProcess } from 'node:child_process';
import { subscribe } from 'node:diagnostics_channel';
import { once } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { run } from 'jest';
import { changedFiles, testsThatImport } from './support/changed.ts';
import teardown from './support/global-teardown.ts';

const STORES = ['sqlite', 'postgres', 'both'];
/** How long a worker that runs a test may take to end. */
const ENDING_MS = 1_000;

/** Says what is wrong with how it was called, and ends. */
function refuse(problem: string): never {
  console.error(problem);
  process.exit(2);
}

function argumentsOf(words: readonly string[]): string[] {
  const store = process.env.AGENTTURN_TEST_STORE;
  if (store !== undefined && !STORES.includes(store))
    refuse(`AGENTTURN_TEST_STORE is ${store}: expected ${STORES.join(', ')}`);
  if (words.some((word) => /^--watch(All)?$/.test(word)))
    refuse('--watch runs nothing a second time: a run sets up its servers once. Start a new run for each change.');
  const rest = words.filter((word) => word !== '--unit' && !/^--changed(=|$)/.test(word));
  const layer = words.includes('--unit') ? ['--config', 'jest.unit.json'] : [];
  return [...layer, ...ofChange(words), ...rest];
}

/** The test files of a change; nothing where all are to run. */
function ofChange(words: readonly string[]): string[] {
  const at = words.findIndex((word) => /^--changed(=|$)/.test(word));
  if (at < 0) return [];
  const [, since] = /^--changed=(.+)$/.exec(words[at] ?? '') ?? [];
  const next = words[at + 1];
  if (next && !next.startsWith('-')) refuse(`write --changed=${next} for what has changed since ${next}`);
  const tests = testsThatImport(changedFiles(since));
  return tests === null ? [] : ['--passWithNoTests', '--runTestsByPath', ...tests];
}

const workers = new Set<ChildProcess>();
subscribe('child_process', (message) => {
  const { process: child } = message as { readonly process: ChildProcess };
  if (child.channel) workers.add(child);
});

/** A run that is stopped leaves neither processes nor what it wrote, which may lie in memory. */
async function stop(): Promise<void> {
  const alive = [...workers].filter(({ connected }) => connected);
  const ended = Promise.all(alive.map((worker) => once(worker, 'exit')));
  for (const worker of alive) worker.disconnect();
  const late = sleep(ENDING_MS).then(() => {
    for (const worker of alive) worker.kill('SIGKILL');
  });
  await Promise.race([ended, late]);
  await ended;
  await teardown();
}

let isStopping = false;
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
  process.on(signal, () => {
    if (!isStopping) void stop().finally(() => process.exit(1));
    isStopping = true;
  });
}
await run(argumentsOf(process.argv.slice(2)));
// What a test has left open keeps no run from its end.
process.exit();
