/** The supervisor as a Temporal Schedule: no process runs a loop, and what nobody else can notice is noticed all the same (T3, T7). */
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { v7 } from 'uuid';
import { type ScriptedServer, startScriptedModel } from '../../../workers/model-server/scripted.ts';
import { ensureSupervisorSchedule, SUPERVISOR_SCHEDULE_ID } from '../../../workers/supervision/schedule.ts';
import { Supervisor } from '../../../workers/supervision/supervisor.ts';
import { turnWorkflowId } from '../../../workflows/protocol/ids.ts';
import { testApp } from '../../support/app.ts';
import { askScripts, askTool, suspended, taskEvents } from '../../support/asking.ts';
import { type Harness, openHarness, scenarioStores } from '../../support/harness.ts';
import { WAIT } from '../../support/wait.ts';

describe.each(scenarioStores(import.meta.url))('a scheduled supervisor on %s', (backend) => {
  let harness: Harness;
  let model: ScriptedServer;

  beforeAll(async () => {
    harness = await openHarness(backend);
    model = await startScriptedModel({ scripts: askScripts });
    await harness.startWorker(testApp([askTool]), model, { acceptor: true, supervisor: 'schedule' });
    // More often than an installation would.
    await scheduled().update((schedule) => ({ ...schedule, spec: { intervals: [{ every: '1s' }] } }));
  });
  afterAll(async () => {
    await scheduled().delete();
    await harness?.close();
    await model?.close();
  });

  const scheduled = () => harness.temporal.client.schedule.getHandle(SUPERVISOR_SCHEDULE_ID);
  const newAgent = () => `agent-${v7()}`;
  const enqueue = (script: string, agentId: string) =>
    harness.client.agent(agentId).enqueue({ instruction: `[script:${script}] go`, profile: 'tester' });

  test('starts what was leased and never started (T3)', async () => {
    const request = { instruction: '[script:answer] go', profile: 'tester', priority: 'normal' } as const;
    const accepted = await harness.store.accept({ agentId: newAgent(), request });
    if (accepted.kind !== 'accepted') throw new Error(accepted.message);
    await harness.store.makeDue([accepted.agentTurnId]);
    expect(await harness.client.turn(accepted.agentTurnId).result(WAIT)).toMatchObject({ status: 'success' });
  });

  test('ends a turn whose workflow was terminated, once, and the next one runs (T7)', async () => {
    const agentId = newAgent();
    const turn = await enqueue('ask', agentId);
    await suspended(turn);
    const next = await enqueue('answer', agentId);
    await harness.temporal.client.workflow.getHandle(turnWorkflowId(agentId, turn.id)).terminate('test');
    expect(await turn.result(WAIT)).toMatchObject({ status: 'failed', errorCode: 'terminated' });
    expect(await next.result(WAIT)).toMatchObject({ status: 'success' });
    expect(await taskEvents(harness.store, turn)).toHaveLength(1);
  });

  test('goes on counting the time it has watched from pass to pass (T12)', async () => {
    const passes = async () => (await scheduled().describe()).info.numActionsTaken;
    const since = async () => {
      for (;;) {
        const lease = await harness.store.holdSupervisorLease('test', 1_000);
        if (lease) {
          await harness.store.releaseSupervisorLease('test');
          return lease.since;
        }
        await sleep(20);
      }
    };
    const [before, watched] = [await passes(), await since()];
    while ((await passes()) < before + 3) await sleep(100);
    expect(await since()).toBe(watched);
  });

  test('leaves the pass to a supervisor that is active in a process', async () => {
    const { store, temporal } = harness;
    const options = { store, temporal: temporal.client, onError: () => {} };
    const [one, other] = [new Supervisor(options), new Supervisor(options)];
    while (!(await one.pass()).active) await sleep(20);
    expect(await other.once()).toEqual({ active: false, checked: 0, failed: 0 });
    await one.release();
    await other.release();
  });

  test('is made once: a schedule that an operator has changed stays as it is', async () => {
    await scheduled().pause('test');
    await ensureSupervisorSchedule(harness.temporal.client);
    const { state, spec } = await scheduled().describe();
    expect(state).toMatchObject({ paused: true, note: 'test' });
    expect(spec.intervals).toMatchObject([{ every: 1_000 }]);
    await scheduled().unpause();
  });
});
