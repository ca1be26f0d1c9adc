/** Stopping, steering, and agents that are stopped and started, on a real server. */

import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { v7 } from 'uuid';
import { z } from 'zod';
import { defineTool } from '../../../activities/app/app.ts';
import type { TurnHandle } from '../../../client/api.ts';
import { type ScriptedServer, startScriptedModel } from '../../../workers/model-server/scripted.ts';
import { turnWorkflowId } from '../../../workflows/protocol/ids.ts';
import { testApp } from '../../support/app.ts';
import { type Harness, openHarness, scenarioStores } from '../../support/harness.ts';
import { WAIT } from '../../support/wait.ts';

const ask = { kind: 'message', toolCalls: [{ name: 'ask', arguments: {} }] } as const;
const say = (content: string) => ({ kind: 'message', content }) as const;

describe.each(scenarioStores(import.meta.url))('control on %s', (backend) => {
  let harness: Harness;
  let model: ScriptedServer;

  const tool = defineTool({
    name: 'ask',
    description: 'a person answers',
    parameters: z.object({}),
    afterExecution: 'suspend',
    suspendTimeoutMs: 60_000,
  });

  beforeAll(async () => {
    harness = await openHarness(backend);
    model = await startScriptedModel({ scripts: { answer: [say('done')], ask: [ask, say('thanks')] } });
    await harness.startWorker(testApp([tool]), model);
  });
  afterAll(async () => {
    await harness?.close();
    await model?.close();
  });

  const newAgent = () => `agent-${v7()}`;
  const enqueue = (script: string, agentId = newAgent()): Promise<TurnHandle> =>
    harness.client.agent(agentId).enqueue({ instruction: `[script:${script}] go`, profile: 'tester' });
  async function suspended(turn: TurnHandle): Promise<string> {
    for await (const event of turn.events()) {
      if (event.type === 'state' && event.payload.waitingToolCount === 1) break;
    }
    return (await turn.get()).waiting[0]?.callId ?? '';
  }
  const workflowOf = async (turn: TurnHandle) => {
    const { agentId } = await turn.get();
    return harness.temporal.client.workflow.getHandle(turnWorkflowId(agentId, turn.id));
  };

  test('stop ends a suspended turn at once; its workflow closes, the next turn runs, late results are stale (T21)', async () => {
    const agentId = newAgent();
    const turn = await enqueue('ask', agentId);
    const callId = await suspended(turn);
    const next = await enqueue('answer', agentId);
    expect((await turn.stop('changed my mind')).ack).toBe('stopped');
    expect(await turn.get()).toMatchObject({ status: 'failed', errorCode: 'stopped', reason: 'changed my mind' });
    await expect((await workflowOf(turn)).result()).rejects.toMatchObject({ cause: { name: 'CancelledFailure' } });
    expect((await (await workflowOf(turn)).describe()).status.name).toBe('CANCELLED');
    expect(await next.result(WAIT)).toMatchObject({ status: 'success' });
    expect((await turn.toolResult({ callId, status: 'success', result: 1 })).ack).toBe('stale');
    expect((await turn.stop()).ack).toBe('already_ended');
    expect(await harness.store.violations()).toEqual([]);
  });

  test('stop cancels a queued turn; the active one goes on (T8)', async () => {
    const agentId = newAgent();
    const active = await enqueue('ask', agentId);
    const callId = await suspended(active);
    const queued = await enqueue('answer', agentId);
    expect((await queued.stop()).ack).toBe('canceled');
    expect(await queued.result(WAIT)).toMatchObject({ status: 'canceled' });
    await active.toolResult({ callId, status: 'success', result: 1 });
    expect(await active.result(WAIT)).toMatchObject({ status: 'success' });
  });

  test('a Temporal signal alone stops a turn too (T21)', async () => {
    const turn = await enqueue('ask');
    await suspended(turn);
    await (await workflowOf(turn)).signal('stop');
    expect(await turn.result(WAIT)).toMatchObject({ status: 'failed', errorCode: 'stopped' });
    await expect((await workflowOf(turn)).result()).rejects.toMatchObject({
      cause: { type: 'stopped', message: 'the turn was stopped' },
    });
  });

  test('a steer is read by the model before its next call (T22)', async () => {
    const turn = await enqueue('ask');
    const callId = await suspended(turn);
    expect(await turn.steer('and be quick [script:ask]')).toMatchObject({ ack: 'accepted', seq: 1 });
    for (const key of ['', 'k'.repeat(257), 7 as never])
      await expect(turn.steer('again', { key })).rejects.toMatchObject({ code: 'invalid_request' });
    model.add('ask', [ask, say('thanks')]);
    await turn.toolResult({ callId, status: 'success', result: 1 });
    // The steer carries the script's marker, so the script starts anew behind it: it asks again.
    const again = await waitingOtherThan(turn, callId);
    await turn.toolResult({ callId: again, status: 'success', result: 2 });
    expect(await turn.result(WAIT)).toMatchObject({ status: 'success', deliverable: { text: 'thanks' } });
    const last = model.requests.at(-1)?.messages.map((message) => message.role);
    expect(last).toEqual(['user', 'assistant', 'tool', 'user', 'assistant', 'tool']);
  });

  async function waitingOtherThan(turn: TurnHandle, callId: string): Promise<string> {
    for (;;) {
      const other = (await turn.get()).waiting.find((waiting) => waiting.callId !== callId);
      if (other) return other.callId;
      await harness.store.changed(1_000);
    }
  }

  test('a steer that its turn did not read before its workflow was terminated is the next turn, and goes with a turn that is stopped (T22)', async () => {
    const agentId = newAgent();
    const turn = await enqueue('ask', agentId);
    await suspended(turn);
    await turn.steer('[script:answer] instead');
    const { client } = harness.temporal;
    await client.workflow.getHandle(turnWorkflowId(agentId, turn.id)).terminate('test');
    await turn.result(WAIT);
    const turns = await harness.client.agent(agentId).turns();
    const requeued = turns.find((view) => view.instruction.includes('instead'));
    const view = await harness.client.turn(requeued?.agentTurnId ?? '').result(WAIT);
    expect(view).toMatchObject({ status: 'success', deliverable: { text: 'done' } });

    const next = await enqueue('ask', agentId);
    await suspended(next);
    await next.steer('[script:answer] instead');
    expect(await next.stop()).toMatchObject({ ack: 'stopped', droppedSteers: 1 });
    expect(await harness.client.agent(agentId).get()).toMatchObject({ agent: { turnIndex: 3, pending: 0 } });
  });

  test('requests to a busy agent add nothing to any history (T10)', async () => {
    const agentId = newAgent();
    const open = await enqueue('ask', agentId);
    await suspended(open);
    const workflow = await workflowOf(open);
    // The store knows of a waiting call a moment before the workflow's task is complete.
    while ((await workflow.query<{ status: string }>('turn_state')).status !== 'suspended') await sleep(20);
    while ((await workflow.describe()).raw.pendingWorkflowTask) await sleep(20);
    const { historyLength } = await workflow.describe();
    const positions: (number | undefined)[] = [];
    for (let sent = 0; sent < 120; sent += 20) {
      const turns = await Promise.all(Array.from({ length: 20 }, () => enqueue('answer', agentId)));
      positions.push(...turns.map((turn) => turn.ack?.position));
    }
    expect(positions.map(Number).sort((a, b) => a - b)).toEqual(Array.from({ length: 120 }, (_, index) => index + 1));
    expect((await workflow.describe()).historyLength).toBe(historyLength);
    expect((await harness.temporal.client.workflow.count(`AgentId = '${agentId}'`)).count).toBeLessThanOrEqual(1);
    await harness.client.agent(agentId).stop();
  });

  test('a stopped agent keeps its queue and refuses requests until it is started (T10)', async () => {
    const agentId = newAgent();
    const agent = harness.client.agent(agentId);
    const turn = await enqueue('ask', agentId);
    await suspended(turn);
    const queued = await enqueue('answer', agentId);
    await agent.stop();
    expect(await turn.result(WAIT)).toMatchObject({ status: 'failed', errorCode: 'stopped' });
    await expect(enqueue('answer', agentId)).rejects.toMatchObject({ code: 'agent_stopped' });
    await (await workflowOf(turn)).result().catch(() => {});
    expect((await queued.get()).status).toBe('queued');
    await agent.start();
    expect(await queued.result(WAIT)).toMatchObject({ status: 'success' });
  });
});

describe('a stop while the model streams', () => {
  test('is recorded when it is acknowledged, and aborts the stream without waiting for the heartbeat timeout (T21)', async () => {
    // By the timeout it would take minutes: a server is told of heartbeats at four fifths of it, or each minute.
    expect(await stopDuringStream({ heartbeatMs: 600_000 })).toBeLessThan(40_000);
  });
});

/** Ms from the stop until the model's connection was closed. */
async function stopDuringStream(timeouts: { readonly heartbeatMs: number }): Promise<number> {
  const harness = await openHarness();
  const { server, url, opened, closed } = await endlessModel();
  try {
    await harness.startWorker(testApp([], { timeouts }), { url });
    const turn = await harness.client.agent(`agent-${v7()}`).enqueue({ instruction: 'go', profile: 'tester' });
    await opened;
    const startedAt = performance.now();
    await turn.stop();
    expect(await turn.get()).toMatchObject({ status: 'failed', errorCode: 'stopped' });
    await closed;
    return performance.now() - startedAt;
  } finally {
    await harness.close();
    server.closeAllConnections();
    server.close();
  }
}

/** An endpoint that sends a token every 50 ms and never ends. */
async function endlessModel(): Promise<{ server: Server; url: string; opened: Promise<void>; closed: Promise<void> }> {
  const opened = Promise.withResolvers<void>();
  const closed = Promise.withResolvers<void>();
  const server = createServer((_request, response) => {
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    const chunk = {
      id: 'x',
      object: 'chat.completion.chunk',
      model: 'm',
      choices: [{ index: 0, delta: { content: 'la ' }, finish_reason: null }],
    };
    const timer = setInterval(() => response.write(`data: ${JSON.stringify(chunk)}\n\n`), 50);
    opened.resolve();
    response.once('close', () => {
      clearInterval(timer);
      closed.resolve();
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`;
  return { server, url, opened: opened.promise, closed: closed.promise };
}
