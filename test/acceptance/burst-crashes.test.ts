/**
 * Workers that are killed, or frozen, in the middle of a burst, as processes of their own; where exactly, and every other place,
 * test/activities/burst/run-steps.test.ts tries one by one.
 */
import { mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { describe, expect, test } from '@jest/globals';
import { v7 } from 'uuid';
import type { TurnHandle } from '../../client/api.ts';
import { startScriptedModel } from '../../workers/model-server/scripted.ts';
import { turnWorkflowId } from '../../workflows/protocol/ids.ts';
import { calls, say, suspended, taskEvents } from '../support/asking.ts';
import { type Harness, openHarness, scenarioStores } from '../support/harness.ts';
import { holdingApp, whatWasDone } from '../support/holding-app.ts';
import { startWorkerProcess, type WorkerProcess } from '../support/processes.ts';
import { WAIT } from '../support/wait.ts';
import type { StoreCall } from '../support/worker-process.ts';

const BACKENDS = scenarioStores(import.meta.url);

const scripts = {
  work: [calls('look', 'count_again', 'count'), calls('count'), say('done')],
  ask: [calls('count'), calls('ask'), say('thanks')],
};

/** Each kills one process. */
const DEATHS: readonly StoreCall[] = [
  { when: 'after', method: 'openStep', nth: 2 },
  { when: 'before', method: 'commitStepAndEnd', nth: 2 },
  { when: 'after', method: 'commitStepAndEnd', nth: 1 },
  { when: 'after', method: 'claimCall', nth: 4 },
  { when: 'before', method: 'settleCall', nth: 2 },
  { when: 'before', method: 'settleCallAndOpen', nth: 1 },
  { when: 'after', method: 'settleCallAndOpen', nth: 2 },
  { when: 'after', method: 'commitStepAndEnd', nth: 3 },
];

const LOOK_EVERY_MS = 300;

describe('a burst', () => {
  test.each(BACKENDS)(
    'whose worker is killed is gone on with by another: every turn ends as if nobody had been, on %s (T5, T29, W10)',
    async (backend) => {
      const dir = mkdtempSync(join(tmpdir(), 'agentturn-bursts-'));
      const harness = await openHarness(backend);
      const model = await startScriptedModel({ scripts });
      const doomed: WorkerProcess[] = [];
      try {
        doomed.push(
          ...(await Promise.all(DEATHS.map((dieAt) => startWorkerProcess(harness, model.url, dir, { dieAt })))),
        );
        const turns: TurnHandle[] = [];
        // Whichever of them gets a turn: each goes on until it has died.
        while (doomed.some((worker) => worker.isRunning())) {
          const agent = harness.client.agent(`agent-${v7()}`);
          turns.push(await agent.enqueue({ instruction: '[script:work] go', profile: 'bursting' }));
          await sleep(LOOK_EVERY_MS);
        }
        await harness.startWorker(holdingApp(dir), model);
        for (const turn of turns) expect(await turn.result(WAIT)).toMatchObject({ status: 'success', turnEpoch: 1 });
        await asIfUndisturbed(harness, turns, dir);
      } finally {
        await Promise.all(doomed.map((worker) => worker.end('SIGKILL')));
        await harness.close();
        await model.close();
      }
    },
  );

  test.each(BACKENDS)(
    'whose worker was frozen starts no tool when it wakes, while its turn goes on under the same lease, on %s (T5, W10)',
    async (backend) => {
      const dir = mkdtempSync(join(tmpdir(), 'agentturn-bursts-'));
      const harness = await openHarness(backend);
      const model = await startScriptedModel({ scripts });
      await harness.startWorker(holdingApp(dir), model, { acceptor: true, targets: [] });
      const capacity = { activities: 1, workflowTasks: 2 };
      const frozen = await startWorkerProcess(harness, model.url, dir, {
        freezeAfterClaim: true,
        capacity,
      });
      try {
        const agent = harness.client.agent(`agent-${v7()}`);
        const turn = await agent.enqueue({ instruction: '[script:ask] go', profile: 'bursting' });
        await frozen.frozen;
        await harness.startWorker(holdingApp(dir), model);
        const [callId = ''] = await suspended(turn);
        const before = await harness.store.readEvents({ agentId: (await turn.get()).agentId, limit: 1_000 });
        frozen.signal('SIGCONT');
        await frozen.end('SIGTERM');
        expect(await harness.store.readEvents({ agentId: (await turn.get()).agentId, limit: 1_000 })).toEqual(before);
        await turn.toolResult({ callId, status: 'success', result: 'yes' });
        expect(await turn.result(WAIT)).toMatchObject({
          status: 'success',
          steps: [{ calls: [{ error: { code: 'outcome_unknown' } }] }, { calls: [{ status: 'success' }] }, {}],
        });
        expect(whatWasDone(dir)).toEqual([]);
        expect(await harness.store.violations()).toEqual([]);
      } finally {
        await frozen.end('SIGKILL');
        await harness.close();
        await model.close();
      }
    },
  );
});

/** What is unknown of a call is allowed once for each worker that died in it, and nothing else differs from a turn that nothing befell. */
async function asIfUndisturbed({ store, temporal }: Harness, turns: readonly TurnHandle[], dir: string): Promise<void> {
  const views = await Promise.all(turns.map((turn) => turn.get()));
  const made = views.flatMap(({ steps }) => steps.flatMap((step) => step.calls));
  const unknown = made.filter(({ error }) => error?.code === 'outcome_unknown');
  expect(unknown.length).toBeLessThanOrEqual(DEATHS.length);
  expect(made.filter(({ status, tool }) => status !== 'success' && tool !== 'count')).toEqual([]);
  const done = whatWasDone(dir);
  const times = (callId: string) => done.filter((one) => one.callId === callId).length;
  for (const { callId, tool, status } of made) {
    if (tool === 'count') expect(times(callId)).toBeLessThanOrEqual(1);
    if (status === 'success') expect(times(callId)).toBeGreaterThanOrEqual(1);
  }
  for (const [index, turn] of turns.entries()) {
    const { agentId = '', stepCount, steps = [] } = views[index] ?? {};
    expect([stepCount, steps.map((step) => step.calls.map(({ tool }) => tool))]).toEqual([
      3,
      [['look', 'count_again', 'count'], ['count'], []],
    ]);
    expect(await taskEvents(store, turn)).toHaveLength(1);
    const workflow = temporal.client.workflow.getHandle(turnWorkflowId(agentId, turn.id));
    expect(await workflow.result()).toMatchObject({ status: 'success' });
  }
  expect(await store.violations()).toEqual([]);
}
