/** Each reason why a turn does not go on, made to happen on a real server and a real store, and what is said of it. */
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { Client, Connection } from '@temporalio/client';
import { v7 } from 'uuid';
import { z } from 'zod';
import { defineAgent, defineApp, defineTool } from '../../activities/app/app.ts';
import type { TurnHandle } from '../../client/api.ts';
import { stallText } from '../../client/cli/stall.ts';
import { connectClient } from '../../client/connect.ts';
import { findStall, type Stall } from '../../client/stalls.ts';
import { type ScriptedServer, startScriptedModel } from '../../workers/model-server/scripted.ts';
import { turnWorkflowId } from '../../workflows/protocol/ids.ts';
import { type Harness, openHarness, scenarioStores } from '../support/harness.ts';
import { WAIT } from '../support/wait.ts';

const app = defineApp({
  agents: [
    defineAgent({ name: 'tester' }),
    defineAgent({ name: 'hermit', workerTarget: 'nowhere' }),
    defineAgent({ name: 'unlucky', workerTarget: 'unlucky' }),
  ],
  tools: [
    defineTool({
      name: 'ask',
      description: 'a person answers',
      parameters: z.object({}),
      afterExecution: 'suspend',
      suspendTimeoutMs: 600_000,
    }),
  ],
});

describe.each(scenarioStores(import.meta.url))('a turn on %s that does not go on says why', (backend) => {
  let harness: Harness;
  let model: ScriptedServer;

  beforeAll(async () => {
    harness = await openHarness(backend);
    model = await startScriptedModel({
      scripts: {
        ask: [{ kind: 'message', toolCalls: [{ name: 'ask', arguments: {} }] }],
        answer: [{ kind: 'message', content: 'done' }],
      },
    });
    await harness.startWorker(app, model, { supervisor: null });
  });
  afterAll(async () => {
    await harness?.close();
    await model?.close();
  });

  const enqueue = (profile: string, script = 'answer'): Promise<TurnHandle> =>
    harness.client.agent(`agent-${v7()}`).enqueue({ instruction: `[script:${script}] go`, profile });

  /** The first reason of that kind that is seen. */
  async function stalled<Kind extends Stall['kind']>(turn: TurnHandle, kind: Kind): Promise<Stall & { kind: Kind }> {
    for (;;) {
      const stall = await turn.stall();
      if (stall?.kind === kind) return stall as Stall & { kind: Kind };
      await sleep(50);
    }
  }

  test('nobody serves its target, at once where the caller asks for that (T12)', async () => {
    const turn = await enqueue('hermit');
    const stall = await turn.stall({ queuedMs: 0 });
    expect(stall).toEqual({ kind: 'workers', workerTarget: 'nowhere', since: expect.any(Number) });
    expect(await turn.stall({ queuedMs: 60_000 })).toBeNull();
    const since = new Date((await stalled(turn, 'workers')).since).toISOString();
    expect(stallText(await stalled(turn, 'workers'))).toContain(`waits for workers of nowhere since ${since}`);
    const behind = await harness.client
      .agent((await turn.get()).agentId)
      .enqueue({ instruction: 'then', profile: 'hermit' });
    expect(await behind.stall({ queuedMs: 0 })).toBeNull();
    await turn.stop();
    expect(await turn.stall({ queuedMs: 0 })).toBeNull();
  });

  test('it was leased, and whoever leased it did not start its workflow (T29)', async () => {
    const agentId = `agent-${v7()}`;
    const request = { instruction: '[script:answer] go', profile: 'tester', priority: 'normal' } as const;
    const accepted = await harness.store.accept({ agentId, agentTurnId: v7(), request });
    if (accepted.kind !== 'accepted') throw new Error('refused');
    const turn = harness.client.turn(accepted.agentTurnId);
    const stall = await stalled(turn, 'start');
    expect(stall.since).toBe((await turn.get()).leasedAt);
    expect(stallText(stall)).toContain('its workflow is not there yet');
  });

  test('its workflow was terminated, and no supervisor has seen it (T7)', async () => {
    const turn = await enqueue('tester', 'ask');
    while ((await turn.get()).status !== 'suspended') await sleep(50);
    expect(await turn.stall({ queuedMs: 0 })).toBeNull();
    const { agentId } = await turn.get();
    await harness.temporal.client.workflow.getHandle(turnWorkflowId(agentId, turn.id)).terminate('test');
    const stall = await stalled(turn, 'end');
    expect(stall).toMatchObject({ status: 'TERMINATED', since: expect.any(Number) });
    expect(stallText(stall)).toContain('the end of the turn is not recorded yet');
  });

  test('an activity of it fails and is tried again', async () => {
    const openStep = () => Promise.reject(new Error('the disk is on strike'));
    const store = { ...harness.store, openStep };
    const worker = await harness.startWorker(app, model, {
      store,
      targets: ['unlucky'],
      supervisor: null,
    });
    const turn = await enqueue('unlucky');
    const { message, ...stall } = await stalled(turn, 'activity');
    expect(stall).toMatchObject({ activity: 'runSteps', attempt: expect.any(Number), since: expect.any(Number) });
    expect(stall.attempt).toBeGreaterThan(1);
    expect(message).toEqual(expect.any(String));
    expect(stallText({ ...stall, message })).toMatch(
      /^activity runSteps is tried again \(attempt \d+\), nothing has been written since /,
    );
    await worker.stop();
    await harness.startWorker(app, model, { targets: ['unlucky'], supervisor: null });
    expect(await turn.result(WAIT)).toMatchObject({ status: 'success' });
    expect(await turn.stall()).toBeNull();
  });

  test('a server that does not answer, or lacks the namespace, is an error, and an unknown turn has no reason', async () => {
    const turn = await enqueue('hermit');
    const { client, connection } = await connectClient({ address: harness.address, namespace: 'no-such-namespace' });
    await expect(findStall(harness.store, client, turn.id)).rejects.toMatchObject({ code: 'namespace_not_found' });
    await connection.close();
    const silent = Connection.lazy({ address: '127.0.0.1:1' });
    const nowhere = new Client({ connection: silent, namespace: harness.namespace });
    await expect(findStall(harness.store, nowhere, turn.id)).rejects.toMatchObject({ code: 'temporal_unreachable' });
    await silent.close();
    expect(await harness.client.turn('no-such-turn').stall()).toBeNull();
  });
});
