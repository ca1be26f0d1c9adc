/** Wake-ups that got lost, and workflows that were reset: what the store holds is what happens (T3, T10, T14, T21). */
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { v7 } from 'uuid';
import { z } from 'zod';
import { defineAgent, defineApp, defineTool } from '../../../activities/app/app.ts';
import type { TurnHandle } from '../../../client/api.ts';
import { type ScriptedServer, startScriptedModel } from '../../../workers/model-server/scripted.ts';
import { turnWorkflowId } from '../../../workflows/protocol/ids.ts';
import { type Harness, openHarness } from '../../support/harness.ts';
import { WAIT } from '../../support/wait.ts';

const WORKFLOW_TASK_COMPLETED = 7;
const SIGNALED = 26;

describe('a lost wake-up', () => {
  let harness: Harness;
  let model: ScriptedServer;

  beforeAll(async () => {
    harness = await openHarness();
    const ask = { kind: 'message', toolCalls: [{ name: 'ask', arguments: {} }] } as const;
    const say = (content: string) => ({ kind: 'message', content }) as const;
    const both = { kind: 'message', toolCalls: ['ask', 'hold'].map((name) => ({ name, arguments: {} })) } as const;
    model = await startScriptedModel({
      scripts: { answer: [say('done')], ask: [ask, say('thanks')], 'ask-and-hold': [both, say('thanks')] },
    });
    const tool = defineTool({
      name: 'ask',
      description: 'a person answers',
      parameters: z.object({}),
      afterExecution: 'suspend',
      suspendTimeoutMs: 600_000,
    });
    const hold = defineTool({
      name: 'hold',
      description: 'takes long',
      parameters: z.object({}),
      execute: () => sleep(15_000, 'held'),
    });
    const app = defineApp({
      agents: [
        defineAgent({ name: 'tester' }),
        defineAgent({ name: 'careful', governance: { rules: [{ tool: 'ask', action: 'ask' }] } }),
      ],
      tools: [tool, hold],
    });
    await harness.startWorker(app, model, { supervisor: { everyMs: 300 } });
  });
  afterAll(async () => {
    await harness?.close();
    await model?.close();
  });

  const enqueue = (script: string, agentId: string): Promise<TurnHandle> =>
    harness.client.agent(agentId).enqueue({ instruction: `[script:${script}] go`, profile: 'tester' });
  const signalsOf = async (turn: TurnHandle): Promise<number> => {
    const { agentId } = await turn.get();
    const { events } = await harness.temporal.client.workflow
      .getHandle(turnWorkflowId(agentId, turn.id))
      .fetchHistory();
    return (events ?? []).filter((event) => event.eventType === SIGNALED).length;
  };
  async function suspended(turn: TurnHandle): Promise<string> {
    for await (const event of turn.events()) if (event.type === 'state' && event.payload.waitingToolCount === 1) break;
    return (await turn.get()).waiting[0]?.callId ?? '';
  }

  test('of a result is made good by the supervisor, once (T3)', async () => {
    const turn = await enqueue('ask', `agent-${v7()}`);
    const callId = await suspended(turn);
    const { ack } = await harness.store.reportResult(turn.id, { callId, status: 'success', result: 1 });
    expect(ack).toBe('applied');
    expect(await turn.result(WAIT)).toMatchObject({ status: 'success' });
    expect(await signalsOf(turn)).toBe(1);
  });

  test('of an answer to a question is made good like that of a result (T3, K7)', async () => {
    const turn = await harness.client
      .agent(`agent-${v7()}`)
      .enqueue({ instruction: '[script:ask] go', profile: 'careful' });
    const callId = await suspended(turn);
    expect(await harness.store.answerApproval(turn.id, { callId, decision: 'approved' })).toMatchObject({
      ack: 'applied',
    });
    for await (const event of turn.events())
      if (event.type === 'call' && event.payload.phase === 'suspended' && event.payload.tool === 'ask') break;
    await turn.stop();
  });

  test('is sent once for a result that the turn cannot read yet, however often the supervisor looks (T10, K22)', async () => {
    const turn = await enqueue('ask-and-hold', `agent-${v7()}`);
    const callId = await suspended(turn);
    await harness.store.reportResult(turn.id, { callId, status: 'success', result: 1 });
    await sleep(14_000);
    expect(await signalsOf(turn)).toBeLessThanOrEqual(1);
    expect(await turn.result(WAIT)).toMatchObject({ status: 'success' });
  });

  test('of a stop is made good by the supervisor; the next turn runs at once (T21)', async () => {
    const agentId = `agent-${v7()}`;
    const turn = await enqueue('ask', agentId);
    await suspended(turn);
    const next = await enqueue('answer', agentId);
    const { handover } = await harness.store.stopTurn(turn.id, 'the signal of this stop is lost');
    expect(handover?.next?.agentTurnId).toBe(next.id);
    expect((await turn.stop()).ack).toBe('already_ended');
    expect(await next.result(WAIT)).toMatchObject({ status: 'success' });
    const workflow = harness.temporal.client.workflow.getHandle(turnWorkflowId(agentId, turn.id));
    while ((await workflow.describe()).status.name === 'RUNNING') await sleep(200);
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
