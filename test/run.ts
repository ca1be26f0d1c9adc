/**
 * `npm test`: all tests, or one of their layers. What else is given goes to Jest.
 *
 * `--unit`: what needs no server, which is pure code and stores on SQLite. `--changed`: the tests that an uncommitted change touches or,
 * as `--changed=main`, that the commits since `main` touch.
 */
import type { ChildProcess } from 'node:child_process';
import { subscribe } from 'node:diagnostics_channel';
import { once } from 'node:events';
import { run } from 'jest';
import teardown from './support/global-teardown.ts';

const LAYERS: Readonly<Record<string, readonly string[]>> = {
  '--unit': ['--config', 'jest.unit.json'],
  '--changed': ['--onlyChanged', '--passWithNoTests'],
};

const given = process.argv.slice(2).flatMap((word) => {
  const [, since] = /^--changed=(.+)$/.exec(word) ?? [];
  return since === undefined ? (LAYERS[word] ?? [word]) : [`--changedSince=${since}`, '--passWithNoTests'];
});
const workers = new Set<ChildProcess>();
subscribe('child_process', (message) => {
  const { process: child } = message as { readonly process: ChildProcess };
  if (child.channel) workers.add(child);
});

/** A run that is stopped leaves neither processes nor what it wrote, which may lie in memory. */
async function stop(): Promise<void> {
  const alive = [...workers].filter(({ connected }) => connected);
  const ended = alive.map((worker) => once(worker, 'exit'));
  for (const worker of alive) worker.disconnect();
  await Promise.all(ended);
  await teardown();
}
for (const signal of ['SIGINT', 'SIGTERM'] as const) {
  process.once(signal, () => void stop().finally(() => process.exit(1)));
}
await run([...given]);
