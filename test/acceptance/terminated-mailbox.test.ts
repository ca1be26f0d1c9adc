/** The end of an agent's own workflow, from the Temporal CLI: its turn is closed once, and what was acked runs all the same (T3, T29). */
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { v7 } from 'uuid';
import { type ScriptedServer, startScriptedModel } from '../../workers/model-server/scripted.ts';
import { agentWorkflowId, turnWorkflowId } from '../../workflows/protocol/ids.ts';
import { testApp } from '../support/app.ts';
import { askScripts, askTool, suspended, taskEvents, WAIT } from '../support/asking.ts';
import { BACKENDS, type Harness, openHarness } from '../support/harness.ts';
import { temporalCli } from '../support/processes.ts';

describe.each(BACKENDS)('scenario 6: an agent workflow that is terminated, on %s', (backend) => {
  let harness: Harness;
  let model: ScriptedServer;

  beforeAll(async () => {
    harness = await openHarness(backend);
    model = await startScriptedModel({ scripts: askScripts });
    await harness.startWorker(testApp([askTool]), model, { sweeper: { everyMs: 300, olderThanMs: 500 } });
  });
  afterAll(async () => {
    await harness?.close();
    await model?.close();
  });

  const enqueue = (script: string, agentId: string) =>
    harness.client.agent(agentId).enqueue({ instruction: `[script:${script}] go`, profile: 'tester' });

  /** An agent with a waiting turn and two more in its queue, its workflow terminated. */
  async function terminated() {
    const agentId = `agent-${v7()}`;
    const turn = await enqueue('ask', agentId);
    const [callId = ''] = await suspended(turn);
    const queued = [await enqueue('answer', agentId), await enqueue('answer', agentId)];
    const workflowId = agentWorkflowId(agentId);
    const { runId } = await harness.temporal.client.workflow.getHandle(workflowId).describe();
    await temporalCli(harness, ['workflow', 'terminate', '--workflow-id', workflowId, '--reason', 'test']);
    return { agentId, turn, callId, queued, runId };
  }

  async function allSettled({ agentId, turn, callId, queued, runId }: Awaited<ReturnType<typeof terminated>>) {
    expect(await turn.result(WAIT)).toMatchObject({ status: 'failed', errorCode: 'terminated', turnEpoch: 1 });
    expect(await taskEvents(harness.store, turn)).toHaveLength(1);
    const epochs: number[] = [];
    for (const one of queued) {
      const view = await one.result(WAIT);
      expect(view).toMatchObject({ status: 'success' });
      epochs.push(view.turnEpoch ?? 0);
      expect(await taskEvents(harness.store, one)).toHaveLength(1);
    }
    expect(epochs).toEqual(epochs.toSorted((a, b) => a - b));
    expect(epochs[0]).toBeGreaterThan(1);
    const { workflow } = harness.temporal.client;
    expect((await workflow.getHandle(agentWorkflowId(agentId)).describe()).runId).not.toBe(runId);
    expect((await workflow.getHandle(turnWorkflowId(agentId, turn.id)).describe()).status.name).not.toBe('RUNNING');
    expect((await turn.toolResult({ callId, status: 'success', result: 1 })).ack).toBe('stale');
    expect(await harness.store.violations()).toEqual([]);
  }

  test('its turn ends once, the next enqueue starts a new one with a higher epoch, and the queue runs in order', async () => {
    const scene = await terminated();
    const next = await enqueue('answer', scene.agentId);
    await allSettled({ ...scene, queued: [...scene.queued, next] });
  });

  test('nothing that was acked is lost when nobody enqueues again: the sweeper starts a new one', async () => {
    await allSettled(await terminated());
  });
});
