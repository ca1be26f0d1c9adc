/** What the supervisor does about turns that do not move: they are ended once; what moves, or waits its turn, is left alone (T12, T23). */
import { readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { v7 } from 'uuid';
import { z } from 'zod';
import { defineAgent, defineApp, defineTool } from '../../../activities/app/app.ts';
import type { TurnHandle } from '../../../client/api.ts';
import { type ScriptedServer, startScriptedModel } from '../../../workers/model-server/scripted.ts';
import { turnWorkflowId } from '../../../workflows/protocol/ids.ts';
import { type Harness, openHarness, testBundlePath } from '../../support/harness.ts';
import { WAIT } from '../../support/wait.ts';

/** A deploy that asks for another activity than the recorded one: on every replay the task fails. */
function brokenBundle(): string {
  const code = readFileSync(testBundlePath(), 'utf8');
  const broken = code.replace('const { runSteps } = ', 'const { renamed: runSteps } = ');
  if (broken === code) throw new Error('the bundle has no place to break: adapt this test');
  return broken;
}

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
      defineAgent({ name: 'watched', timeouts: { heartbeatMs: 2_000 } }),
      defineAgent({ name: 'stranded', workerTarget: 'doomed', timeouts: { noProgressMs: 1_500 } }),
      defineAgent({ name: 'bounded', timeouts: { turnMs: 1_500 } }),
      defineAgent({ name: 'crowded', workerTarget: 'narrow', timeouts: { noProgressMs: 1_500, dispatchMs: 1_500 } }),
      defineAgent({ name: 'broken', workerTarget: 'broken', timeouts: { deadWorkflowGraceMs: 2_000 } }),
    ],
    tools: [
      defineTool({ name: 'slow', description: 'slow', parameters, execute: () => sleep(4_000, 'slept') }),
      defineTool({ name: 'ask', description: 'ask', parameters, afterExecution: 'suspend', suspendTimeoutMs: 60_000 }),
      defineTool({
        name: 'ask_briefly',
        description: 'ask',
        parameters,
        afterExecution: 'suspend',
        suspendTimeoutMs: 3_000,
      }),
    ],
  });

  beforeAll(async () => {
    harness = await openHarness();
    model = await startScriptedModel({
      scripts: {
        answer: [answer],
        slow: [call('slow'), answer],
        ask: [call('ask'), answer],
        ask_briefly: [call('ask_briefly'), answer],
      },
    });
    await harness.startWorker(app, model, { supervisor: { everyMs: 300 } });
  });
  afterAll(async () => {
    await harness?.close();
    await model?.close();
  });

  const enqueue = (profile: string, script: string, agentId = `agent-${v7()}`): Promise<TurnHandle> =>
    harness.client.agent(agentId).enqueue({ instruction: `[script:${script}] go`, profile });

  test('a profile says after how long a silence its work is another worker’s; a slow tool is not silent (T23)', async () => {
    const turn = await enqueue('watched', 'slow');
    expect(await turn.result(WAIT)).toMatchObject({ status: 'success' });
    const { agentId } = await turn.get();
    const workflow = harness.temporal.client.workflow.getHandle(turnWorkflowId(agentId, turn.id));
    // The end of the turn is in the store before its last activity is in the history.
    await workflow.result();
    const { events } = await workflow.fetchHistory();
    const scheduled = events?.flatMap((event) => event.activityTaskScheduledEventAttributes ?? []) ?? [];
    expect(scheduled.map(({ heartbeatTimeout }) => Number(heartbeatTimeout?.seconds))).toEqual([2]);
    const started = events?.flatMap((event) => event.activityTaskStartedEventAttributes ?? []) ?? [];
    expect(started.map(({ attempt }) => attempt)).toEqual([1]);
  });

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
    while (!(await turn.get()).waitingForWorkers) await sleep(100);
    const waitingForWorkers = { workerTarget: 'nobody_b', since: expect.any(Number) };
    expect(await turn.get()).toMatchObject({ waitingForWorkers });
    expect(await harness.client.agent(agentId).get()).toMatchObject({ agent: { head: { waitingForWorkers } } });
    const said = (await harness.store.readEvents({ agentId })).flatMap((event) =>
      event.type === 'state' ? [event.payload.activity] : [],
    );
    expect(said).toEqual([undefined, 'waiting_for_workers']);
    expect((await turn.get()).status).toBe('dispatched');
    await harness.startWorker(app, model, { targets: ['nobody_b'], supervisor: null });
    expect(await turn.result(WAIT)).toMatchObject({ status: 'success', waitingForWorkers: null });
  });

  test('a tool that takes longer than the no-progress window but heartbeats is left alone (T23)', async () => {
    const turn = await enqueue('lively', 'slow');
    expect(await turn.result(WAIT)).toMatchObject({ status: 'success' });
  });

  test('a suspended turn is not without progress, and its checks add nothing to its history (T23)', async () => {
    const agentId = `agent-${v7()}`;
    const turn = await enqueue('lively', 'ask', agentId);
    for await (const event of turn.events()) if (event.type === 'state' && event.payload.waitingToolCount === 1) break;
    const workflow = harness.temporal.client.workflow.getHandle(turnWorkflowId(agentId, turn.id));
    // The store knows of a waiting call a moment before the workflow does.
    while ((await workflow.query<{ status: string }>('turn_state')).status !== 'suspended') await sleep(50);
    while ((await workflow.describe()).raw.pendingWorkflowTask) await sleep(50);
    const { historyLength } = await workflow.describe();
    await harness.store.makeDue([turn.id]);
    while ((await harness.store.dueTurns(100)).some(({ agentTurnId }) => agentTurnId === turn.id)) await sleep(100);
    await sleep(4_000);
    expect((await workflow.describe()).historyLength).toBe(historyLength);
    const callId = (await turn.get()).waiting[0]?.callId ?? '';
    await turn.toolResult({ callId, status: 'success', result: 1 });
    expect(await turn.result(WAIT)).toMatchObject({ status: 'success' });
  });

  test('a running turn whose workers are gone waits for others, and goes on with them (T23)', async () => {
    const options = {
      targets: ['doomed'],
      supervisor: null,
      capacity: { shutdownGraceMs: 0 },
    } as const;
    const worker = await harness.startWorker(app, model, options);
    const turn = await enqueue('stranded', 'slow');
    for await (const event of turn.events()) if (event.type === 'step' && event.payload.phase === 'executing') break;
    await worker.stop();
    await sleep(5_000);
    expect((await turn.get()).status).toBe('running');
    await harness.startWorker(app, model, options);
    expect(await turn.result(WAIT)).toMatchObject({ status: 'success' });
    expect(await harness.store.violations()).toEqual([]);
  });

  test('more turns than slots: none is ended for waiting its turn (T23)', async () => {
    const capacity = { activities: 2, shutdownGraceMs: 0 };
    await harness.startWorker(app, model, { targets: ['narrow'], supervisor: null, capacity });
    const turns = await Promise.all(Array.from({ length: 8 }, () => enqueue('crowded', 'slow')));
    for (const turn of turns) expect(await turn.result(WAIT)).toMatchObject({ status: 'success' });
  });

  test('a suspended turn whose workflow does not go on is ended a grace period after its deadline (T7, T23)', async () => {
    const served = await harness.startWorker(app, model, { targets: ['broken'], supervisor: null });
    const turn = await enqueue('broken', 'ask_briefly');
    for await (const event of turn.events()) if (event.type === 'state' && event.payload.waitingToolCount === 1) break;
    await served.stop();
    // Workers of a deploy whose workflow code cannot go on: every task of the turn fails.
    const bundle = { code: brokenBundle() };
    await harness.startWorker(app, model, { targets: ['broken'], supervisor: null, bundle });
    expect(await turn.result(WAIT)).toMatchObject({ status: 'timeout', errorCode: 'turn_timeout' });
    const { agentId } = await turn.get();
    const tasks = (await harness.store.readEvents({ agentId })).filter((event) => event.type === 'task');
    expect(tasks).toHaveLength(1);
  });

  test('a bounded turn ends at its bound, waiting or not (T23)', async () => {
    const turn = await enqueue('bounded', 'ask');
    expect(await turn.result(WAIT)).toMatchObject({ status: 'timeout', errorCode: 'turn_timeout' });
  });
});
