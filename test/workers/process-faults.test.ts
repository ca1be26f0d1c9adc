/** Faults that nobody catches, in a worker process of its own: they end neither the process nor what other turns do in it. */
import { mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { v7 } from 'uuid';
import { type ScriptedServer, startScriptedModel } from '../../workers/model-server/scripted.ts';
import { watchFaults } from '../../workers/process-faults.ts';
import { calls, say } from '../support/asking.ts';
import { type Harness, openHarness } from '../support/harness.ts';
import { letGo, whatWasDone } from '../support/holding-app.ts';
import { startWorkerProcess, type WorkerProcess } from '../support/processes.ts';
import { WAIT } from '../support/wait.ts';

const LOOK_EVERY_MS = 20;
const until = async (holds: () => boolean): Promise<void> => {
  while (!holds()) await sleep(LOOK_EVERY_MS);
};
const fresh = () => mkdtempSync(join(tmpdir(), 'agentturn-faults-'));

let harness: Harness;
let model: ScriptedServer;

beforeAll(async () => {
  harness = await openHarness();
  const scripts = {
    answer: [say('done')],
    hold: [calls('hold'), say('held')],
    reject: [calls('reject'), say('went on')],
    throw_in_timer: [calls('throw_in_timer'), say('went on')],
    reject_later: [calls('reject_later'), say('went on')],
  };
  model = await startScriptedModel({ scripts });
});

afterAll(async () => {
  await harness.close();
  await model.close();
});

const ask = (script: string) =>
  harness.client.agent(`agent-${v7()}`).enqueue({ instruction: `[script:${script}] go`, profile: 'tester' });

describe.each([
  ['ours', true],
  ['of somebody else', false],
])('a fault of a tool outside of its call, in a process that is %s', (_, ownsProcess) => {
  let worker: WorkerProcess;
  const dir = fresh();

  beforeAll(async () => {
    worker = await startWorkerProcess(harness, model.url, dir, { ownsProcess });
  });

  afterAll(() => worker.end('SIGTERM'));

  test('is the result of the call, and other turns go on (W10)', async () => {
    const other = await ask('hold');
    await until(() => whatWasDone(dir).length > 0);
    const rejected = await (await ask('reject')).result(WAIT);
    const thrown = await (await ask('throw_in_timer')).result(WAIT);
    const failed = (message: string) => ({
      status: 'success',
      steps: [{ calls: [{ status: 'failed', error: { code: 'tool_failed', message } }] }, {}],
    });
    expect(rejected).toMatchObject(failed('unhandled rejection outside of its call: nobody awaits this'));
    expect(thrown).toMatchObject(failed('uncaught exception outside of its call: in a timer'));
    letGo(dir);
    expect(await other.result(WAIT)).toMatchObject({ status: 'success', deliverable: { text: 'held' } });
    expect(whatWasDone(dir).map(({ pid, phase }) => ({ pid, phase }))).toEqual([
      { pid: worker.pid, phase: 'began' },
      { pid: worker.pid, phase: 'ended' },
    ]);
    expect(worker.errors()).toMatch(/fault of tool throw_in_timer, call .*\(2 in this process/);
  });

  test('is logged when the call has its result already (W10)', async () => {
    const turn = await (await ask('reject_later')).result(WAIT);
    expect(turn).toMatchObject({ steps: [{ calls: [{ status: 'success' }] }, {}] });
    await until(() => worker.errors().includes('when the call had its result already'));
    expect(await (await ask('answer')).result(WAIT)).toMatchObject({ status: 'success' });
    expect(worker.isRunning()).toBe(true);
  });
});

describe('a fault that no tool is to blame for', () => {
  test('does not end a process of ours', async () => {
    const worker = await startWorkerProcess(harness, model.url, fresh());
    worker.fault();
    await until(() => worker.errors().includes('fault of no tool: uncaught exception: of nobody'));
    expect(await (await ask('answer')).result(WAIT)).toMatchObject({ status: 'success' });
    await worker.end('SIGTERM');
  });

  test("ends another's process, as Node does", async () => {
    const worker = await startWorkerProcess(harness, model.url, fresh(), { ownsProcess: false });
    worker.fault();
    await worker.gone;
    expect(worker.errors()).toContain('Error: of nobody');
    expect(worker.errors()).not.toContain('fault of');
  });
});

describe('the listeners of a process', () => {
  const listeners = () => process.listenerCount('unhandledRejection') + process.listenerCount('uncaughtException');

  test('are there once, until the last worker has stopped', () => {
    const before = listeners();
    const stops = [1, 2].map(() => watchFaults({ log: () => {}, ours: false }));
    expect(listeners()).toBe(before + 2);
    stops[0]?.();
    stops[0]?.();
    expect(listeners()).toBe(before + 2);
    stops[1]?.();
    expect(listeners()).toBe(before);
  });
});
