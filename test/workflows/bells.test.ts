/** Bells that got lost, and workflows that were reset: what the store holds is what happens (T3, T14, T21). */
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { v7 } from 'uuid';
import { z } from 'zod';
import { defineTool } from '../../activities/app.ts';
import type { TurnHandle } from '../../client/agent-client.ts';
import { type ScriptedServer, startScriptedModel } from '../../workers/model-server/scripted.ts';
import { turnWorkflowId } from '../../workflows/protocol/ids.ts';
import { testApp } from '../support/app.ts';
import { type Harness, openHarness } from '../support/harness.ts';

const WAIT = { timeoutMs: 30_000 };
const WORKFLOW_TASK_COMPLETED = 7;

describe('a lost bell', () => {
  let harness: Harness;
  let model: ScriptedServer;

  beforeAll(async () => {
    harness = await openHarness();
    const ask = { kind: 'message', toolCalls: [{ name: 'ask', arguments: {} }] } as const;
    const say = (content: string) => ({ kind: 'message', content }) as const;
    model = await startScriptedModel({ scripts: { answer: [say('done')], ask: [ask, say('thanks')] } });
    const tool = defineTool({
      name: 'ask',
      description: 'a person answers',
      parameters: z.object({}),
      afterExecution: 'suspend',
      suspendTimeoutMs: 600_000,
    });
    const app = testApp([tool], { timeouts: { noProgressMs: 60_000 } });
    await harness.startWorker(app, model, { sweeper: { everyMs: 300, olderThanMs: 500 } });
  });
  afterAll(async () => {
    await harness?.close();
    await model?.close();
  });

  const enqueue = (script: string, agentId: string): Promise<TurnHandle> =>
    harness.client.agent(agentId).enqueue({ instruction: `[script:${script}] go`, profile: 'tester' });
  async function suspended(turn: TurnHandle): Promise<string> {
    for await (const event of turn.events()) if (event.type === 'state' && event.payload.waitingToolCount === 1) break;
    return (await turn.get()).waiting[0]?.callId ?? '';
  }

  test('of a result is made good by the sweeper (T3)', async () => {
    const turn = await enqueue('ask', `agent-${v7()}`);
    const callId = await suspended(turn);
    const { ack } = await harness.store.reportResult(turn.id, { callId, status: 'success', result: 1 });
    expect(ack).toBe('applied');
    expect(await turn.result(WAIT)).toMatchObject({ status: 'success' });
  });

  test('of a result is made good by the retry, which is a duplicate (T14)', async () => {
    const turn = await enqueue('ask', `agent-${v7()}`);
    const callId = await suspended(turn);
    await harness.store.reportResult(turn.id, { callId, status: 'success', result: 1 });
    expect((await turn.toolResult({ callId, status: 'success', result: 1 })).ack).toBe('duplicate');
    expect(await turn.result(WAIT)).toMatchObject({ status: 'success' });
  });

  test('of a stop is made good by the retry; the next turn runs (T21)', async () => {
    const agentId = `agent-${v7()}`;
    const turn = await enqueue('ask', agentId);
    await suspended(turn);
    const next = await enqueue('answer', agentId);
    await harness.store.stopTurn(turn.id, 'the bell of this stop is lost');
    expect((await turn.stop()).ack).toBe('already_ended');
    expect(await next.result(WAIT)).toMatchObject({ status: 'success' });
  });

  test('a suspended turn that is reset stays suspended, and takes its answer (T5, T13)', async () => {
    const agentId = `agent-${v7()}`;
    const turn = await enqueue('ask', agentId);
    const callId = await suspended(turn);
    const { client } = harness.temporal;
    const workflowId = turnWorkflowId(agentId, turn.id);
    const { events } = await client.workflow.getHandle(workflowId).fetchHistory();
    const first = (events ?? []).find((event) => event.eventType === WORKFLOW_TASK_COMPLETED)?.eventId;
    await client.workflowService.resetWorkflowExecution({
      namespace: harness.namespace,
      workflowExecution: { workflowId },
      workflowTaskFinishEventId: first ?? null,
      requestId: v7(),
      reason: 'test',
    });
    while (
      (await client.workflow.getHandle(workflowId).query<{ status: string }>('turn_state')).status !== 'suspended'
    ) {
      await harness.store.changed(100);
    }
    expect(await harness.store.violations()).toEqual([]);
    expect((await turn.toolResult({ callId, status: 'success', result: 1 })).ack).toBe('applied');
    expect(await turn.result(WAIT)).toMatchObject({ status: 'success' });
  });
});
