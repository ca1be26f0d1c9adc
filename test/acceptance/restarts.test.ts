/** Turns that outlive what served them: every worker, and the Temporal server itself (T13, T17). */
import { mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, test } from '@jest/globals';
import { v7 } from 'uuid';
import type { TurnHandle } from '../../client/api.ts';
import { type ScriptedServer, startScriptedModel } from '../../workers/model-server/scripted.ts';
import { ChaosTemporal } from '../chaos/temporal.ts';
import { calls, say, suspended, taskEvents } from '../support/asking.ts';
import { type Harness, openHarness, scenarioStores } from '../support/harness.ts';
import { startWorkerProcess, type WorkerProcess } from '../support/processes.ts';
import { WAIT } from '../support/wait.ts';

const BACKENDS = scenarioStores(import.meta.url);

const newFolder = () => mkdtempSync(join(tmpdir(), 'agentturn-restarts-'));

const startModel = (): Promise<ScriptedServer> =>
  startScriptedModel({
    scripts: {
      ask: [calls('ask'), say('thanks')],
      both: [calls('ask_3_s', 'ask_1_h'), say('one of two')],
    },
  });

const enqueue = (harness: Harness, script: string): Promise<TurnHandle> =>
  harness.client.agent(`agent-${v7()}`).enqueue({ instruction: `[script:${script}] go`, profile: 'tester' });

describe('scenario 5: a turn that is suspended longer than any worker lives', () => {
  test.each(BACKENDS)(
    'takes a result that was sent while there was no worker, on %s',
    async (backend) => {
      const harness = await openHarness(backend);
      const model = await startModel();
      const dir = newFolder();
      let worker = await startWorkerProcess(harness, model.url, dir);
      try {
        const [turn, next] = await Promise.all([enqueue(harness, 'ask'), enqueue(harness, 'ask')]);
        const [callId = ''] = await suspended(turn);
        await suspended(next);
        await worker.end('SIGKILL');
        expect(await turn.toolResult({ callId, status: 'success', result: 1 })).toMatchObject({ ack: 'applied' });
        expect((await turn.toolResult({ callId, status: 'success', result: 2 })).ack).toBe('duplicate');
        worker = await startWorkerProcess(harness, model.url, dir);
        expect(await turn.result(WAIT)).toMatchObject({ status: 'success', deliverable: { text: 'thanks' } });
        expect(await taskEvents(harness.store, turn)).toHaveLength(1);
        expect((await next.get()).status).toBe('suspended');
        expect(await harness.store.violations()).toEqual([]);
      } finally {
        await worker.end('SIGKILL');
        await harness.close();
        await model.close();
      }
    },
    120_000,
  );
});

interface Both {
  readonly harness: Harness;
  worker: WorkerProcess;
  readonly turn: TurnHandle;
}

describe('a call with a deadline of 3 s and one of 1 h in the same step', () => {
  test('the first times out, the second is answered after every worker and the server were restarted (T13, T17)', async () => {
    const temporal = await ChaosTemporal.start(newFolder());
    const model = await startModel();
    const dir = newFolder();
    const scenes: Both[] = [];
    try {
      for (const backend of BACKENDS) {
        const harness = await openHarness(backend, { address: temporal.address });
        const worker = await startWorkerProcess(harness, model.url, dir);
        scenes.push({ harness, worker, turn: await enqueue(harness, 'both') });
      }
      await Promise.all(scenes.map(timedOut));
      await Promise.all(scenes.map(({ worker }) => worker.end('SIGKILL')));
      await temporal.restart('SIGKILL', 500);
      for (const scene of scenes) {
        scene.worker = await startWorkerProcess(scene.harness, model.url, dir);
        await answered(scene);
      }
    } finally {
      await Promise.all(scenes.map(({ worker }) => worker.end('SIGKILL')));
      await Promise.all(scenes.map(({ harness }) => harness.close()));
      await model.close();
      await temporal.stop();
    }
  });
});

async function timedOut({ turn }: Both): Promise<void> {
  for await (const event of turn.events()) if (event.type === 'call' && event.payload.status === 'timeout') break;
  expect(await turn.get()).toMatchObject({ status: 'suspended', waiting: [{ tool: 'ask_1_h' }] });
}

async function answered({ harness, turn }: Both): Promise<void> {
  const callId = (await turn.get()).waiting[0]?.callId ?? '';
  expect((await turn.toolResult({ callId, status: 'success', result: 'late, and in time' })).ack).toBe('applied');
  const view = await turn.result(WAIT);
  expect(view).toMatchObject({ status: 'success', deliverable: { text: 'one of two' } });
  expect(view.steps[0]?.calls).toMatchObject([
    { tool: 'ask_3_s', status: 'timeout', error: { code: 'tool_timeout' } },
    { tool: 'ask_1_h', status: 'success' },
  ]);
  expect(await taskEvents(harness.store, turn)).toHaveLength(1);
  expect(await harness.store.violations()).toEqual([]);
}
