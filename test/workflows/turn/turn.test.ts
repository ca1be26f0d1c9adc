/** Turns on a real server: waiting, deadlines, foreign clients, ends from outside. */
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { v7 } from 'uuid';
import { z } from 'zod';
import { defineAgent, defineApp, defineTool } from '../../../activities/app/app.ts';
import type { TurnHandle } from '../../../client/api.ts';
import { type ScriptedServer, startScriptedModel } from '../../../workers/model-server/scripted.ts';
import type { TurnView } from '../../../workflows/contract/views.ts';
import { agentWorkflowId, turnWorkflowId } from '../../../workflows/protocol/ids.ts';
import { type Harness, openHarness, scenarioStores } from '../../support/harness.ts';
import { temporalCli } from '../../support/processes.ts';
import { WAIT } from '../../support/wait.ts';

const call = (...names: readonly string[]) =>
  ({ kind: 'message', toolCalls: names.map((name) => ({ name, arguments: {} })) }) as const;
const say = (content: string) => ({ kind: 'message', content }) as const;

describe.each(scenarioStores(import.meta.url))('a turn on %s', (backend) => {
  let harness: Harness;
  let model: ScriptedServer;

  const empty = z.object({});
  const tools = [
    defineTool({
      name: 'ask_slow',
      description: 'a person answers',
      parameters: empty,
      afterExecution: 'suspend',
      suspendTimeoutMs: 60_000,
    }),
    defineTool({
      name: 'ask_fast',
      description: 'a person answers',
      parameters: empty,
      afterExecution: 'suspend',
      suspendTimeoutMs: 1_000,
    }),
    defineTool({
      name: 'fail',
      description: 'fails',
      parameters: empty,
      execute: () => Promise.reject(new Error('no luck')),
    }),
    defineTool({
      name: 'finish',
      description: 'ends the turn',
      parameters: empty,
      afterExecution: 'terminate',
      execute: () => 'finished',
    }),
    defineTool({
      name: 'decide',
      description: 'suspends by its result',
      parameters: empty,
      execute: () => ({ __cg_control: { after_execution: 'suspend' } }),
    }),
    defineTool({
      name: 'wait_for_ever',
      description: 'wants to wait longer than there are dates',
      parameters: empty,
      execute: () => ({ __cg_control: { after_execution: 'suspend', suspend_timeout_ms: 1e300 } }),
    }),
  ];

  beforeAll(async () => {
    harness = await openHarness(backend);
    model = await startScriptedModel({
      scripts: {
        answer: [say('done')],
        slow: [call('ask_slow'), say('thanks')],
        fast: [call('ask_fast'), say('went on without')],
        both: [call('ask_fast', 'ask_slow'), say('one of two')],
        fail: [call('fail'), say('it failed, so what')],
        finish: [call('finish', 'fail')],
        fields: [
          { kind: 'message', toolCalls: [{ name: 'submit_result', arguments: { fields: [{ name: 'a', value: 1 }] } }] },
          {
            kind: 'message',
            toolCalls: [
              {
                name: 'submit_result',
                arguments: {
                  fields: [
                    { name: 'a', value: 1 },
                    { name: 'b', value: [2] },
                  ],
                },
              },
            ],
          },
        ],
        prose: [
          say('in prose'),
          {
            kind: 'message',
            toolCalls: [{ name: 'submit_result', arguments: { fields: [{ name: 'a', value: 'x' }] } }],
          },
        ],
        patient: [call('wait_for_ever'), say('at last')],
        decided: [call('decide'), say('not reached')],
        unauthorized: [{ kind: 'error', status: 401, message: 'bad key' }],
      },
    });
    const agents = [
      defineAgent({ name: 'tester' }),
      defineAgent({ name: 'discreet', privateTitles: true }),
      defineAgent({ name: 'impatient', providerPatienceMs: 0 }),
    ];
    await harness.startWorker(defineApp({ agents, tools }), model, { acceptor: true });
  });
  afterAll(async () => {
    await harness?.close();
    await model?.close();
  });

  const newAgent = () => `agent-${v7()}`;
  const enqueue = (script: string, agentId = newAgent(), more = {}): Promise<TurnHandle> =>
    harness.client.agent(agentId).enqueue({ instruction: `[script:${script}] go`, profile: 'tester', ...more });

  /** Resolves with the waiting calls once the turn is suspended on `count` of them. */
  async function suspended(turn: TurnHandle, count = 1): Promise<TurnView> {
    for await (const event of turn.events()) {
      if (event.type === 'state' && event.payload.waitingToolCount === count) break;
      if (event.type === 'task') throw new Error(`the turn ended: ${JSON.stringify(event.payload)}`);
    }
    return turn.get();
  }
  const taskEvents = async (agentId: string, agentTurnId: string) =>
    (await harness.store.readEvents({ agentId, agentTurnId })).filter((event) => event.type === 'task');

  test('waits for a result from outside and goes on; the same result again is a duplicate (T13, T14)', async () => {
    const turn = await enqueue('slow');
    const [waiting] = (await suspended(turn)).waiting;
    const callId = waiting?.callId ?? '';
    expect((await turn.toolResult({ callId, status: 'success', result: { ok: true } })).ack).toBe('applied');
    expect(await turn.result(WAIT)).toMatchObject({ status: 'success', deliverable: { text: 'thanks' } });
    expect((await turn.toolResult({ callId, status: 'success', result: { ok: true } })).ack).toBe('duplicate');
  });

  test('an unanswered call gets its timeout result at its deadline and the model goes on (T17)', async () => {
    const turn = await enqueue('fast');
    const view = await turn.result(WAIT);
    expect(view).toMatchObject({ status: 'success', deliverable: { text: 'went on without' } });
    expect(view.steps[0]?.calls).toMatchObject([{ status: 'timeout', error: { code: 'tool_timeout' } }]);
  });

  test('one call’s deadline does not touch the other’s (T13)', async () => {
    const turn = await enqueue('both');
    const first = await suspended(turn, 2);
    const slow = first.waiting.find((waiting) => waiting.tool === 'ask_slow');
    for await (const event of turn.events()) {
      if (event.type === 'call' && event.payload.status === 'timeout') break;
    }
    const later = await suspended(turn, 1);
    expect(later.waiting).toEqual([slow]);
    await turn.toolResult({ callId: slow?.callId ?? '', status: 'success', result: 'late' });
    const view = await turn.result(WAIT);
    expect(view.steps[0]?.calls.map((done) => done.status)).toEqual(['timeout', 'success']);
  });

  test('the Temporal CLI alone starts a turn and answers its call (T3, T14)', async () => {
    const agentId = newAgent();
    const request = { instruction: '[script:slow] go', profile: 'tester', idempotencyKey: 'cli' };
    const target = ['--workflow-id', agentWorkflowId(agentId), '--type', 'agent', '--task-queue', 'agentturn'];
    const start = ['workflow', 'signal-with-start', ...target, '--input', JSON.stringify({ agentId })];
    await temporalCli(harness, [...start, '--signal-name', 'enqueue', '--signal-input', JSON.stringify(request)]);
    const turn = await firstTurn(agentId);
    const [waiting] = (await suspended(turn)).waiting;
    const result = JSON.stringify({ callId: waiting?.callId, status: 'success', result: 'from the CLI' });
    const signal = ['workflow', 'signal', '--workflow-id', turnWorkflowId(agentId, turn.id), '--name', 'tool_result'];
    await temporalCli(harness, [...signal, '--input', result]);
    expect(await turn.result(WAIT)).toMatchObject({ status: 'success', deliverable: { text: 'thanks' } });
    expect(await harness.client.agent(agentId).turns()).toHaveLength(1);
  });

  async function firstTurn(agentId: string): Promise<TurnHandle> {
    for (;;) {
      const [turn] = await harness.client.agent(agentId).turns();
      if (turn) return harness.client.turn(turn.agentTurnId);
      await harness.store.changed(1_000);
    }
  }

  test('a malformed result for a call that waits is a failed result of it: its sender would never know (T20)', async () => {
    const agentId = newAgent();
    const turn = await enqueue('slow', agentId);
    const [waiting] = (await suspended(turn)).waiting;
    const callId = waiting?.callId ?? '';
    const handle = harness.temporal.client.workflow.getHandle(turnWorkflowId(agentId, turn.id));
    await handle.signal('tool_result', { callId, status: 'running', colour: 'red' });
    await handle.signal('tool_result', { callId, status: 'nonsense' });
    expect(await turn.result(WAIT)).toMatchObject({ status: 'success' });
    const [call] = (await turn.get()).steps.flatMap((step) => step.calls);
    expect(call).toMatchObject({ status: 'failed', error: { code: 'invalid_result' } });
    expect(call?.error?.message).toContain('status');
  });

  test('terminated from outside: one task event with a fallback, and the next turn runs (T7)', async () => {
    const agentId = newAgent();
    const turn = await enqueue('slow', agentId);
    await suspended(turn);
    const next = await enqueue('answer', agentId);
    await temporalCli(harness, [
      'workflow',
      'terminate',
      '--workflow-id',
      turnWorkflowId(agentId, turn.id),
      '--reason',
      'test',
    ]);
    const view = await turn.result(WAIT);
    expect(view).toMatchObject({
      status: 'failed',
      errorCode: 'terminated',
      deliverable: { fallback: { toolResults: 0 } },
    });
    expect(await next.result(WAIT)).toMatchObject({ status: 'success' });
    expect(await taskEvents(agentId, turn.id)).toHaveLength(1);
    const late = await turn.toolResult({ callId: view.steps[0]?.calls[0]?.callId ?? '', status: 'success', result: 1 });
    expect(late.ack).toBe('stale');
  });

  test('cancelled from outside it still delivers, once (T7)', async () => {
    const agentId = newAgent();
    const turn = await enqueue('slow', agentId);
    await suspended(turn);
    await harness.temporal.client.workflow.getHandle(turnWorkflowId(agentId, turn.id)).cancel();
    expect(await turn.result(WAIT)).toMatchObject({ status: 'failed', errorCode: 'terminated' });
    expect(await taskEvents(agentId, turn.id)).toHaveLength(1);
  });

  test('started by hand, without a lease, it ends protocol_violation and writes nothing (T5)', async () => {
    const agentId = newAgent();
    const real = await enqueue('slow', agentId);
    await suspended(real);
    const before = await harness.store.readEvents({ agentId });
    const history = await harness.temporal.client.workflow.getHandle(turnWorkflowId(agentId, real.id)).describe();
    expect(history.status.name).toBe('RUNNING');
    const forged = {
      agentId,
      agentTurnId: v7(),
      turnEpoch: 1,
      profileName: 'tester',
      profileHash: 'x',
      workerTarget: 'worker_generic',
      kernel: {
        budgets: { maxSteps: 5, maxTokens: 1000 },
        context: { windowTokens: 8_000, answerTokens: 1_000, fixedTokens: 0 },
        mustEndWith: [],
        submitResult: true,
      },
      timeouts: { heartbeatMs: 20_000 },
      outputBoxId: v7(),
      earlier: [],
      instructionSeq: 1,
      instructionTokens: 1,
      title: 'forged',
    };
    const handle = await harness.temporal.client.workflow.start('agentTurn', {
      workflowId: `forged-${v7()}`,
      taskQueue: 'agentturn.worker_generic',
      args: [forged],
    });
    await expect(handle.result()).rejects.toMatchObject({ cause: { type: 'protocol_violation' } });
    expect(await harness.store.readEvents({ agentId })).toEqual(before);
  });

  test('a tool that throws is a failed result and the turn goes on (T20)', async () => {
    const view = await (await enqueue('fail')).result(WAIT);
    expect(view).toMatchObject({ status: 'success', deliverable: { text: 'it failed, so what' } });
    expect(view.steps[0]?.calls[0]?.error).toMatchObject({ code: 'tool_failed', message: 'no luck' });
  });

  test('a terminating tool ends the turn once all calls of its step are settled (T19)', async () => {
    const view = await (await enqueue('finish')).result(WAIT);
    expect(view).toMatchObject({ status: 'success', deliverable: { text: 'finished' } });
    expect(view.steps[0]?.calls.map((done) => done.status)).toEqual(['success', 'failed']);
  });

  test('a result’s own control block outranks the tool’s default (T19)', async () => {
    const turn = await enqueue('decided');
    const [waiting] = (await suspended(turn)).waiting;
    const result = { verdict: 'final', __cg_control: { after_execution: 'terminate' } };
    await turn.toolResult({ callId: waiting?.callId ?? '', status: 'success', result, afterExecution: 'continue' });
    const view = await turn.result(WAIT);
    expect(view).toMatchObject({ status: 'success', stepCount: 1 });
    expect(view.deliverable?.text).toContain('final');
  });

  test('a wait that no date could end is one of a year, and the turn goes on (T13)', async () => {
    const turn = await enqueue('patient');
    const [waiting] = (await suspended(turn)).waiting;
    expect(waiting?.deadline).toBeLessThanOrEqual(Date.now() + 365 * 24 * 3_600_000);
    await turn.toolResult({ callId: waiting?.callId ?? '', status: 'success', result: 'now' });
    expect(await turn.result(WAIT)).toMatchObject({ status: 'success', deliverable: { text: 'at last' } });
  });

  test('submit_result delivers fields once the required ones are there (T28, W12)', async () => {
    const resultFields = { fields: [{ name: 'a' }, { name: 'b' }] };
    const view = await (await enqueue('fields', newAgent(), { resultFields })).result(WAIT);
    expect(view).toMatchObject({
      status: 'success',
      deliverable: {
        fields: [
          { name: 'a', value: 1 },
          { name: 'b', value: [2] },
        ],
      },
    });
    expect(view.steps[0]?.calls[0]?.error).toMatchObject({
      code: 'missing_result_fields',
      message: expect.stringContaining('b'),
    });
  });

  test('prose where fields are required is answered by a reminder and a forced submit_result (W13, T28)', async () => {
    const resultFields = { fields: [{ name: 'a' }] };
    const view = await (await enqueue('prose', newAgent(), { resultFields })).result(WAIT);
    expect(view).toMatchObject({
      status: 'success',
      deliverable: { fields: [{ name: 'a', value: 'x' }] },
      stepCount: 2,
    });
    const box = await harness.store.readBox(view.outputBoxId ?? '');
    expect(box.map(({ card }) => card.type)).toContain('sys.must_end_with_required');
  });

  test('malformed result fields are refused when the request is made (T28)', async () => {
    const resultFields = { fields: [{ name: 'a', requird: false } as never] };
    await expect(enqueue('answer', newAgent(), { resultFields })).rejects.toMatchObject({
      code: 'invalid_request',
      message: expect.stringContaining('requird'),
    });
  });

  test('histories and events hold ids, sizes and beginnings, never the whole of what was asked, thought or answered (T4)', async () => {
    const agentId = newAgent();
    const long = 'x'.repeat(2_000);
    const asking = { name: 'ask_slow', arguments: { long: `${long} what-was-meant` } };
    model.add('telling', [{ kind: 'message', toolCalls: [asking] }, say(`${long} what-was-thought`)]);
    const instruction = `[script:telling] ${'x'.repeat(150)} what-was-asked`;
    const turn = await harness.client.agent(agentId).enqueue({ instruction, profile: 'tester' });
    const [waiting] = (await suspended(turn)).waiting;
    await turn.toolResult({ callId: waiting?.callId ?? '', status: 'success', result: 'what-was-answered' });
    expect((await turn.result(WAIT)).deliverable?.text).toContain('what-was-thought');
    const { workflow } = harness.temporal.client;
    const kept = [
      await workflow.getHandle(turnWorkflowId(agentId, turn.id)).fetchHistory(),
      await harness.store.readEvents({ agentId }),
    ];
    const texts = kept.map(textOf);
    expect(texts.map((text) => text.includes(turn.id))).toEqual([true, true]);
    for (const body of ['what-was-asked', 'what-was-answered', 'what-was-thought', 'what-was-meant'])
      expect(texts.join('\n')).not.toContain(body);
  });

  test('histories do not even hold the first words of what was asked where titles are private (T4)', async () => {
    const agentId = newAgent();
    const turn = await enqueue('answer', agentId, { instruction: '[script:answer] unheard-of', profile: 'discreet' });
    expect(await turn.result(WAIT)).toMatchObject({ status: 'success' });
    const handle = harness.temporal.client.workflow.getHandle(turnWorkflowId(agentId, turn.id));
    const text = textOf(await handle.fetchHistory());
    expect(text).toContain('a turn of discreet');
    expect(text).not.toContain('unheard-of');
  });

  test('refused credentials end the turn of a profile without patience provider_auth, at once and once (W14, T8)', async () => {
    const agentId = newAgent();
    const turn = await enqueue('unauthorized', agentId, { profile: 'impatient' });
    const view = await turn.result(WAIT);
    expect(view).toMatchObject({ status: 'failed', errorCode: 'provider_auth' });
    expect(view.reason).toContain('OPENAI_API_KEY');
    expect(await taskEvents(agentId, turn.id)).toHaveLength(1);
  });

  test('a context box is read and stays as it was (T24)', async () => {
    const contextBoxId = await harness.client.writeContext(['the context']);
    await (await enqueue('answer', newAgent(), { contextBoxId })).result(WAIT);
    const texts = (await harness.store.readBox(contextBoxId)).map(({ card }) => card.content);
    expect(texts).toEqual([{ text: 'the context' }]);
    const sent = model.requests
      .map((request) => JSON.stringify(request))
      .filter((request) => request.includes('the context'));
    expect(sent).toHaveLength(1);
  });
});

/** Everything readable in it, the bytes of payloads included. */
function textOf(value: unknown): string {
  if (value instanceof Uint8Array) return Buffer.from(value).toString();
  return typeof value === 'object' && value !== null ? Object.values(value).map(textOf).join(' ') : String(value);
}
