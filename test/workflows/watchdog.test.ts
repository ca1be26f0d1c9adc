/** Watchdogs: what does not move is ended once, what moves is left alone (T12, T23). */
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { v7 } from 'uuid';
import { z } from 'zod';
import { defineAgent, defineApp, defineTool } from '../../activities/app.ts';
import type { TurnHandle } from '../../client/agent-client.ts';
import { type ScriptedServer, startScriptedModel } from '../../workers/model-server/scripted.ts';
import { agentWorkflowId } from '../../workflows/protocol/ids.ts';
import { type Harness, openHarness } from '../support/harness.ts';

const WAIT = { timeoutMs: 40_000 };
const TIMER_FIRED = 18;

describe('the watchdog', () => {
  let harness: Harness;
  let model: ScriptedServer;
  const answer = { kind: 'message', content: 'done' } as const;
  const call = (name: string) => ({ kind: 'message', toolCalls: [{ name, arguments: {} }] }) as const;
  const parameters = z.object({});

  const app = defineApp({
    agents: [
      defineAgent({
        name: 'impatient',
        workerTarget: 'nobody_a',
        timeouts: { dispatchMs: 1_000, whenNoWorkers: 'fail' },
      }),
      defineAgent({ name: 'patient', workerTarget: 'nobody_b', timeouts: { dispatchMs: 1_000 } }),
      defineAgent({ name: 'lively', timeouts: { noProgressMs: 1_500 } }),
      defineAgent({ name: 'stranded', workerTarget: 'doomed', timeouts: { noProgressMs: 1_500 } }),
      defineAgent({ name: 'bounded', timeouts: { turnMs: 1_500 } }),
    ],
    tools: [
      defineTool({ name: 'slow', description: 'slow', parameters, execute: () => sleep(4_000, 'slept') }),
      defineTool({ name: 'ask', description: 'ask', parameters, afterExecution: 'suspend', suspendTimeoutMs: 60_000 }),
    ],
  });

  beforeAll(async () => {
    harness = await openHarness();
    model = await startScriptedModel({
      scripts: { answer: [answer], slow: [call('slow'), answer], ask: [call('ask'), answer] },
    });
    await harness.startWorker(app, model);
  });
  afterAll(async () => {
    await harness?.close();
    await model?.close();
  });

  const enqueue = (profile: string, script: string, agentId = `agent-${v7()}`): Promise<TurnHandle> =>
    harness.client.agent(agentId).enqueue({ instruction: `[script:${script}] go`, profile });

  test('a turn nobody starts in time ends dispatch_timeout, and the next one is tried (T12)', async () => {
    const turn = await enqueue('impatient', 'answer');
    expect(await turn.result(WAIT)).toMatchObject({ status: 'timeout', errorCode: 'dispatch_timeout' });
    const { agentId } = await turn.get();
    const next = await enqueue('lively', 'answer', agentId);
    expect(await next.result(WAIT)).toMatchObject({ status: 'success', turnEpoch: 3 });
  });

  test('with no worker at all the turn keeps waiting, says so, and runs when one comes (T12)', async () => {
    const agentId = `agent-${v7()}`;
    const turn = await enqueue('patient', 'answer', agentId);
    const mailbox = harness.temporal.client.workflow.getHandle(agentWorkflowId(agentId));
    const details = async () => {
      const metadata = await mailbox.query<{ currentDetails?: string }>('__temporal_workflow_metadata');
      return metadata.currentDetails ?? '';
    };
    while (!(await details()).includes('waiting for workers of nobody_b')) await sleep(100);
    expect((await turn.get()).status).toBe('dispatched');
    await harness.startWorker(app, model, { targets: ['nobody_b'], mailboxes: false });
    expect(await turn.result(WAIT)).toMatchObject({ status: 'success' });
  });

  test('a tool that takes longer than the no-progress window but heartbeats is left alone (T23)', async () => {
    const turn = await enqueue('lively', 'slow');
    expect(await turn.result(WAIT)).toMatchObject({ status: 'success' });
  });

  test('a suspended turn is not without progress, and is looked at less and less often (T23)', async () => {
    const agentId = `agent-${v7()}`;
    const turn = await enqueue('lively', 'ask', agentId);
    for await (const event of turn.events()) if (event.type === 'state' && event.payload.waitingToolCount === 1) break;
    await sleep(12_000);
    const mailbox = harness.temporal.client.workflow.getHandle(agentWorkflowId(agentId));
    const { events } = await mailbox.fetchHistory();
    const looks = (events ?? []).filter((event) => event.eventType === TIMER_FIRED).length;
    // After 1.5, 4.5 and 10.5 seconds; at the pace of a running turn there would be eight.
    expect(looks).toBeGreaterThan(1);
    expect(looks).toBeLessThanOrEqual(4);
    const callId = (await turn.get()).waiting[0]?.callId ?? '';
    await turn.toolResult({ callId, status: 'success', result: 1 });
    expect(await turn.result(WAIT)).toMatchObject({ status: 'success' });
  });

  test('a running turn whose workers are gone ends turn_timeout (T23)', async () => {
    const worker = await harness.startWorker(app, model, {
      targets: ['doomed'],
      mailboxes: false,
      limits: { shutdownGraceMs: 0 },
    });
    const turn = await enqueue('stranded', 'slow');
    for await (const event of turn.events()) if (event.type === 'step' && event.payload.phase === 'executing') break;
    await worker.stop();
    expect(await turn.result(WAIT)).toMatchObject({ status: 'timeout', errorCode: 'turn_timeout' });
    expect(await harness.store.violations()).toEqual([]);
  });

  test('a bounded turn ends at its bound, waiting or not (T23)', async () => {
    const turn = await enqueue('bounded', 'ask');
    expect(await turn.result(WAIT)).toMatchObject({ status: 'timeout', errorCode: 'turn_timeout' });
  });
});
