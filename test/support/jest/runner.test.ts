/** How Jest runs our test files: each verdict as Jest's own, and nothing that a file changes in the process left for the next. */
import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { stripVTControlCharacters } from 'node:util';
import { expect, test } from '@jest/globals';
import { isAlive } from '../../../workers/shared-targets.ts';

const RUN = fileURLToPath(new URL('../../run.ts', import.meta.url));
const RUNNER = fileURLToPath(new URL('runner.ts', import.meta.url));

interface Results {
  readonly testResults: readonly {
    readonly name: string;
    readonly message: string;
    readonly assertionResults: readonly {
      readonly title: string;
      readonly status: string;
      readonly failureMessages: readonly string[];
    }[];
  }[];
}

/** Runs test files of these texts one after the other, in one process. */
async function run(files: Readonly<Record<string, string>>, ...args: readonly string[]): Promise<Results> {
  const folder = mkdtempSync(join(tmpdir(), 'agentturn-runner-'));
  for (const [name, text] of Object.entries(files)) {
    writeFileSync(join(folder, name), `import { afterAll, expect, jest, test } from '@jest/globals';\n${text}`);
  }
  const config = {
    rootDir: folder,
    testRunner: RUNNER,
    transform: {},
    waitForUnhandledRejections: true,
    testMatch: ['**/*.test.ts'],
    testTimeout: 30_000,
  };
  const results = join(folder, 'results.json');
  const given = ['--config', JSON.stringify(config), '--runInBand', '--json', '--outputFile', results, ...args];
  await new Promise((resolve) =>
    execFile(process.execPath, [RUN, ...given], { timeout: 60_000, killSignal: 'SIGKILL' }, resolve),
  );
  // Excerpts of code are coloured wherever CI is set.
  const plain = (_key: string, value: unknown) => (typeof value === 'string' ? stripVTControlCharacters(value) : value);
  return JSON.parse(readFileSync(results, 'utf8'), plain);
}

const statusesIn = ({ testResults }: Results) =>
  Object.fromEntries(testResults.flatMap((file) => file.assertionResults.map(({ title, status }) => [title, status])));

test('a test passes, fails, runs out of time or is skipped as in any run of Jest', async () => {
  const results = await run({
    'a.test.ts': `
      test('passes', () => expect(1).toBe(1));
      test('fails', () => expect([1]).toEqual([2]));
      test('throws later', async () => { await new Promise(setImmediate); throw new TypeError('later'); });
      test('takes too long', () => new Promise(() => {}), 50);
      test('is rejected elsewhere', async () => { Promise.reject(new Error('elsewhere')); await new Promise(setImmediate); });
      test.skip('is skipped', () => {});
      test.each([1, 2])('row %i', (row) => expect(row).toBe(1));
      test('asserts nothing', () => expect.assertions(1));
    `,
    'b.test.ts': `test('is in a file that fails at its end', () => {}); afterAll(() => { throw new Error('at the end'); });`,
    'c.test.ts': `import './nothing.ts'; test('is never seen', () => {});`,
  });

  expect(statusesIn(results)).toEqual({
    passes: 'passed',
    fails: 'failed',
    'throws later': 'failed',
    'takes too long': 'failed',
    'is rejected elsewhere': 'failed',
    'is skipped': 'pending',
    'row 1': 'passed',
    'row 2': 'failed',
    'asserts nothing': 'failed',
    'is in a file that fails at its end': 'passed',
  });
  const messageOf = (name: string) => results.testResults.find((file) => file.name.endsWith(name))?.message;
  expect(messageOf('a.test.ts')).toContain('> 4 |');
  expect(messageOf('b.test.ts')).toContain('at the end');
  expect(messageOf('c.test.ts')).toContain('nothing.ts');
});

test('the tests that a pattern names run alone', async () => {
  const results = await run(
    { 'a.test.ts': `test('this one', () => {}); test('another', () => { throw new Error(); });` },
    '-t',
    'this',
  );
  expect(statusesIn(results)).toEqual({ 'this one': 'passed', another: 'pending' });
});

test('nothing that a file changes in the process is left for the next', async () => {
  const text = `
    jest.setTimeout(1_000);
    test('finds the process as it was', async () => {
      expect(process.env.AGENTTURN_LEFT).toBeUndefined();
      expect(process.env.FORCE_COLOR).toBeUndefined();
      expect(process.env.TMPDIR).toBe(${JSON.stringify(process.env.TMPDIR)});
      expect(Date.now()).toBeGreaterThan(7);
      await new Promise((resolve) => setTimeout(resolve, 5));
    });
    test('changes it', () => {
      process.env.AGENTTURN_LEFT = 'left';
      process.env.TMPDIR = 'elsewhere';
      jest.spyOn(Date, 'now').mockReturnValue(7);
      jest.useFakeTimers();
    });`;
  const late = `test('has the time that the configuration gives', () => new Promise((resolve) => setTimeout(resolve, 1_500)));`;

  process.env.FORCE_COLOR = '1';
  const { testResults } = await run({ 'a.test.ts': text, 'b.test.ts': text, 'c.test.ts': late });
  delete process.env.FORCE_COLOR;

  const results = testResults.flatMap((file) => file.assertionResults);
  expect(results.filter(({ status }) => status !== 'passed')).toEqual([]);
  expect(results).toHaveLength(5);
});

test('what is thrown after its tests, and a call of process.exit, fail a file', async () => {
  const results = await run({
    'a.test.ts': `test('ends', () => { setTimeout(() => { throw new Error('too late'); }, 1); });`,
    'b.test.ts': `test('leaves a rejection', () => { Promise.reject(new Error('rejected')); });`,
    'c.test.ts': `test('exits', () => process.exit(0));`,
    'd.test.ts': `test('is fine', () => {});`,
  });
  const failed = results.testResults
    .filter(({ message }) => message !== '')
    .map(({ name }) => name.slice(-9))
    .sort();
  expect(failed).toEqual(['a.test.ts', 'b.test.ts', 'c.test.ts']);
  const messages = results.testResults.map(({ message }) => message).join();
  for (const said of ['too late', 'rejected', 'process.exit(0)']) expect(messages).toContain(said);
});

test('what is thrown after the last file fails the run', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'agentturn-runner-'));
  const text = `import { test } from '@jest/globals';
    test('leaves a timer', () => { setInterval(() => { throw new Error('after the last'); }, 20); });`;
  writeFileSync(join(folder, 'a.test.ts'), text);
  // The run is not over yet when the timer comes.
  const globalTeardown = join(folder, 'teardown.mjs');
  writeFileSync(globalTeardown, 'export default () => new Promise((resolve) => setTimeout(resolve, 200));');
  const config = { rootDir: folder, testRunner: RUNNER, transform: {}, testMatch: ['**/*.test.ts'], globalTeardown };
  const ended = await new Promise<{ readonly code: unknown; readonly stderr: string }>((resolve) =>
    execFile(process.execPath, [RUN, '--config', JSON.stringify(config), '--runInBand'], (error, _, stderr) =>
      resolve({ code: error?.code, stderr }),
    ),
  );
  expect(ended).toMatchObject({ code: 1, stderr: expect.stringContaining('after the last') });
});

test.each(['SIGTERM', 'SIGKILL'] as const)('what tests have started ends with a run that gets %s', async (signal) => {
  const folder = mkdtempSync(join(tmpdir(), 'agentturn-runner-'));
  const pids = ['a', 'b'].map((name) => join(folder, `${name}.pid`));
  for (const file of pids) {
    const text = `import { spawn } from 'node:child_process';
      import { writeFileSync } from 'node:fs';
      import { test } from '@jest/globals';
      test('never ends', () => {
        const child = spawn(process.execPath, ['-e', 'setInterval(() => {}, 1_000)'], { stdio: 'ignore' });
        writeFileSync('${file}', [process.pid, child.pid].join(' '), { flush: true });
        return new Promise(() => {});
      });`;
    writeFileSync(file.replace('.pid', '.test.ts'), text);
  }
  const config = { rootDir: folder, testRunner: RUNNER, transform: {}, testMatch: ['**/*.test.ts'], maxWorkers: 2 };
  const run = spawn(process.execPath, [RUN, '--config', JSON.stringify(config)], { stdio: 'ignore' });
  const started = () =>
    pids.flatMap((file) => (existsSync(file) ? readFileSync(file, 'utf8').split(' ').map(Number) : []));
  while (started().length < 4) await sleep(20);
  const ended = once(run, 'exit');
  run.kill(signal);
  await ended;
  while (started().some(isAlive)) await sleep(20);
  rmSync(folder, { recursive: true });
});
