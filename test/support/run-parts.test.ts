/** What a test run leaves behind, which may lie in memory: nothing, however it ends. And what a change touches. */
import { execFile, spawn, spawnSync } from 'node:child_process';
import { on, once } from 'node:events';
import { existsSync, mkdirSync, mkdtempSync, readdirSync, symlinkSync, utimesSync, watch } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { expect, test } from '@jest/globals';
import { testsThatImport } from './changed.ts';
import { removeLeftovers } from './run-parts.ts';

const RUN = fileURLToPath(new URL('../run.ts', import.meta.url));
/** A test file that takes no time and needs no server. */
const ONE_FILE = 'test/workflows/kernel/gate.test.ts';
/** Servers of a run's own cannot start: there is no PostgreSQL in that folder. */
const NO_POSTGRES = {
  AGENTTURN_TEST_TEMPORAL: '127.0.0.1:1',
  AGENTTURN_TEST_POSTGRES: '',
  AGENTTURN_TEST_POSTGRES_BIN: '/none',
};

const scratch = (): string => mkdtempSync(join(tmpdir(), 'agentturn-runs-'));

test('a run whose servers do not start leaves nothing', async () => {
  const folder = scratch();
  const env = { ...process.env, ...NO_POSTGRES, TMPDIR: folder };
  const error = await new Promise<Error | null>((resolve) =>
    execFile(process.execPath, [RUN, ONE_FILE], { env, timeout: 60_000, killSignal: 'SIGKILL' }, resolve),
  );
  expect(error).toMatchObject({ code: 1 });
  expect(readdirSync(folder).filter((name) => name.startsWith('agentturn-test-'))).toEqual([]);
});

test.each(['SIGINT', 'SIGTERM'] as const)('a run that is stopped by %s leaves nothing', async (signal) => {
  const folder = scratch();
  const made = watch(folder);
  const child = spawn(process.execPath, [RUN, '--unit', ONE_FILE], { env: { ...process.env, TMPDIR: folder } });
  child.stdout.resume();
  child.stderr.resume();
  const ended = once(child, 'exit');
  for await (const [, name] of on(made, 'change')) if (`${name}`.startsWith('agentturn-test-')) break;
  made.close();
  child.kill(signal);
  const [code] = await ended;
  expect(code).toBe(1);
  expect(readdirSync(folder).filter((name) => name.startsWith('agentturn-test-'))).toEqual([]);
});

test('the next run removes what killed ones have left, and nothing else', () => {
  const place = scratch();
  const { pid: gone } = spawnSync(process.execPath, ['-e', '']);
  const hourAgo = new Date(Date.now() - 3_600_000);
  const make = (name: string, at = hourAgo): string => {
    const folder = join(place, name);
    mkdirSync(join(folder, 'within'), { recursive: true });
    utimesSync(folder, at, at);
    return folder;
  };
  const left = make(`agentturn-test-${gone}-AbCdEf`);
  const kept = [
    make(`agentturn-test-${process.pid}-AbCdEf`),
    make(`agentturn-test-${gone}-justUs`, new Date()),
    make('agentturn-test-AbCdEf'),
    make(`agentturn-store-${gone}-AbCdEf`),
  ];
  const elsewhere = make('elsewhere');
  symlinkSync(elsewhere, join(place, `agentturn-test-${gone}-toLink`));

  removeLeftovers(place);

  expect(existsSync(left)).toBe(false);
  for (const folder of [...kept, join(elsewhere, 'within')])
    expect([folder, existsSync(folder)]).toEqual([folder, true]);
});

test('the tests of a change are those that import it, also by way of other files', () => {
  const found = testsThatImport(['client/store-mark.ts']);
  // Through workers/worker.ts and the harness.
  expect(found).toContain('test/acceptance/outages.test.ts');
  expect(found).not.toContain('test/workflows/kernel/gate.test.ts');
  expect(testsThatImport(['workflows/kernel/gate.ts'])).toContain('test/workflows/kernel/gate.test.ts');
  // Bundled, and started.
  expect(testsThatImport(['workflows/turn/turn.ts'])).toContain('test/workflows/turn/approvals.test.ts');
  expect(testsThatImport(['workers/main.ts'])).toContain('test/client/cli/round-trip.test.ts');
});

test.each(['biome.json', 'a-file-that-is-gone.ts'])(
  'a change of %s, to which no test file leads, touches all of them',
  (file) => {
    expect(testsThatImport(['client/store-mark.ts', file])).toBeNull();
  },
);

test.each([
  [['--changed', 'main'], {}, 'write --changed=main'],
  [['--watch'], {}, 'Start a new run'],
  [['--changed=no-such-branch'], {}, 'no-such-branch'],
  [[], { AGENTTURN_TEST_STORE: 'mysql' }, 'expected sqlite, postgres, both'],
])('a run that was called with %j and %j is refused', async (args, env, said) => {
  const called = promisify(execFile)(process.execPath, [RUN, ...args], { env: { ...process.env, ...env } });
  await expect(called).rejects.toMatchObject({ stderr: expect.stringContaining(said) });
});
