import { afterEach, describe, expect, test } from '@jest/globals';
import { z } from 'zod';
import { defineAgent, defineApp, defineTool } from '../../../activities/app/app.ts';
import type { ModelAnswer } from '../../../workers/model-server/wire.ts';
import { testApp } from '../../support/app.ts';
import { Attempt, attempt, modelInput } from './leased-turn.ts';
import { bench, cardsOf, closeBenches, failureOf } from './model-bench.ts';

const runs: string[] = [];
const add = defineTool({
  name: 'add',
  description: 'adds',
  parameters: z.object({ a: z.number() }),
  execute: ({ a }) => {
    runs.push(`add ${a}`);
    return a;
  },
});
const app = testApp([add]);

afterEach(async () => {
  await closeBenches();
  runs.length = 0;
});

describe('a model call', () => {
  test('sends what the turn holds and stores thought, usage and times before it returns (W4, W17)', async () => {
    const usage = { prompt_tokens: 100, completion_tokens: 5, prompt_tokens_details: { cached_tokens: 60 } };
    const on = await bench({ kind: 'message', content: 'the answer', usage }, { request: { instruction: 'what?' } });
    const record = await attempt(on.run, modelInput(on.turn));
    expect(on.server.requests[0]).toMatchObject({
      model: 'default-model',
      messages: [{ role: 'user', content: 'what?' }],
    });
    expect(record).toMatchObject({
      stepIndex: 1,
      hasText: true,
      refused: false,
      calls: [],
      noteSeq: null,
      cost: null,
      usage: { input: 100, output: 5, cached: 60 },
    });
    expect((await cardsOf(on)).at(-1)).toMatchObject({
      cardId: record.thoughtCardId,
      content: { text: 'the answer', toolCalls: [] },
    });
    const view = await on.turn.store.getTurn(on.turn.fence.agentTurnId);
    expect(view).toMatchObject({
      usage: record.usage,
      steps: [{ model: 'default-model', latencyMs: record.latencyMs }],
    });
  });

  test('whose thought is stored is not asked again: another attempt gets the record (T29)', async () => {
    const on = await bench({ kind: 'message', content: 'once' });
    const first = await attempt(on.run, modelInput(on.turn), 1);
    const second = await attempt(on.run, modelInput(on.turn), 2);
    expect(second).toEqual(first);
    expect(on.server.requests).toHaveLength(1);
    expect(await cardsOf(on)).toHaveLength(2);
  });

  test('made by two attempts at once is stored once, and both get what was stored (T5)', async () => {
    let asked = 0;
    const on = await bench(() => {
      asked += 1;
      return { kind: 'message', content: `answer ${asked}`, delayMs: 50 };
    });
    const input = modelInput(on.turn);
    const [first, second] = await Promise.all([attempt(on.run, input, 1), attempt(on.run, input, 2)]);
    expect(asked).toBe(2);
    expect(second).toEqual(first);
    expect((await cardsOf(on)).filter((card) => card.type === 'agent.thought')).toHaveLength(1);
  });

  test('of a turn that lost its lease asks nobody and stores nothing (T5)', async () => {
    const on = await bench({ kind: 'message', content: 'x' });
    await on.turn.store.stopTurn(on.turn.fence.agentTurnId, 'test');
    const before = await cardsOf(on);
    const error = await failureOf(attempt(on.run, modelInput(on.turn)));
    expect(error).toMatchObject({ code: 'stale_epoch' });
    expect(on.server.requests).toHaveLength(0);
    expect(await cardsOf(on)).toEqual(before);
  });

  test('of a turn that loses its lease meanwhile stores nothing (T5)', async () => {
    const on = await bench({ kind: 'message', content: 'too late', delayMs: 100 });
    const call = failureOf(attempt(on.run, modelInput(on.turn)));
    while (on.server.requests.length === 0) await new Promise((resolve) => setImmediate(resolve));
    await on.turn.store.stopTurn(on.turn.fence.agentTurnId, 'test');
    expect(await call).toMatchObject({ code: 'stale_epoch' });
    expect((await cardsOf(on)).some((card) => card.type === 'agent.thought')).toBe(false);
  });

  test('says each second that it is alive, however silent the model is, so that a stop reaches it soon (T21, T23)', async () => {
    const on = await bench({ kind: 'stall', afterChunks: 1 });
    const environment = new Attempt();
    let beats = 0;
    environment.on('heartbeat', () => {
      beats += 1;
      if (beats === 2) environment.cancel();
    });
    const startedAt = performance.now();
    await failureOf(environment.of(on.run, modelInput(on.turn)));
    expect(beats).toBe(2);
    expect(performance.now() - startedAt).toBeGreaterThan(1_500);
  });

  test('that is over within a second says nothing of it, however many chunks it has: a heartbeat is a write of the server (T23)', async () => {
    const on = await bench({ kind: 'message', content: 'long enough for several chunks' });
    const environment = new Attempt();
    let beats = 0;
    environment.on('heartbeat', () => {
      beats += 1;
    });
    const startedAt = performance.now();
    await environment.of(on.run, modelInput(on.turn));
    expect(beats).toBeLessThanOrEqual((performance.now() - startedAt) / 1_000);
  });

  test('shows a steer as the last word of the user, and keeps it there from step to step (T22, W18)', async () => {
    const on = await bench((request) =>
      request.messages.length > 3
        ? { kind: 'message', content: 'I see' }
        : { kind: 'message', toolCalls: [{ name: 'gone', arguments: {} }] },
    );
    await attempt(on.run, modelInput(on.turn));
    // The kernel plans with the cards it knows: a message that came meanwhile is none of them.
    const { boxId, toSeq } = { boxId: on.turn.lease.outputBoxId, toSeq: (await cardsOf(on)).length };
    const plan = { ranges: [{ boxId, fromSeq: 1, toSeq }] };
    await on.turn.store.steerTurn(on.turn.fence.agentTurnId, 'in Rome, please');
    const note = { kind: 'must_end_with', tools: ['publish'] } as const;
    const { steers, noteSeq } = await attempt(on.run, modelInput(on.turn, { stepIndex: 2, note, plan }));
    await attempt(on.run, modelInput(on.turn, { stepIndex: 3 }));
    const [, second, third] = on.server.requests.map((request) => request.messages);
    expect(second?.map((message) => message.role)).toEqual(['user', 'assistant', 'tool', 'user', 'system']);
    expect(second?.at(-2)).toEqual({ role: 'user', content: 'in Rome, please' });
    expect(third?.slice(0, 5)).toEqual(second);
    expect(steers).toHaveLength(1);
    expect(noteSeq).toBeGreaterThan(steers[0]?.seq ?? Number.POSITIVE_INFINITY);
  });

  test('costs what the price list of the app says (W17)', async () => {
    const agents = [defineAgent({ name: 'tester' })];
    const app = defineApp({ agents, models: { 'default-model': { input: 2, output: 10 } } });
    const usage = { prompt_tokens: 1_000_000, completion_tokens: 100_000 };
    const on = await bench({ kind: 'message', content: 'x', usage }, { app });
    expect((await attempt(on.run, modelInput(on.turn))).cost).toBeCloseTo(3);
  });

  test.each([
    ['profile', { maxTokens: 10 }, 10],
    ['provider', { maxTokens: 10 }, 7],
    ['provider', {}, 10],
  ] as const)(
    'that is cut short says by whose limit: by that of the %s with %j after %i tokens (K11)',
    async (limit, model, tokens) => {
      const usage = { prompt_tokens: 5, completion_tokens: tokens };
      const answer = { kind: 'message', content: 'half a sent', finishReason: 'length', usage } as const;
      const on = await bench(answer, { app: testApp([], { model }) });
      expect(await attempt(on.run, modelInput(on.turn))).toMatchObject({ truncated: limit });
    },
  );

  test('that ends for a reason that nobody knows does not count as whole (K11)', async () => {
    const on = await bench({ kind: 'message', content: 'half a sent', finishReason: 'because' });
    expect(await attempt(on.run, modelInput(on.turn))).toMatchObject({ truncated: 'unknown' });
  });

  test('that is not cut short says nothing of a limit (K11)', async () => {
    const on = await bench({ kind: 'message', content: 'a sentence.' });
    expect(await attempt(on.run, modelInput(on.turn))).not.toHaveProperty('truncated');
  });

  test('goes to the fallback model after the failures the profile allows (W14)', async () => {
    const app = testApp([], { model: { name: 'first', fallback: { name: 'second', afterFailures: 2 } } });
    const on = await bench({ kind: 'error', status: 500 }, { app });
    for (const number of [1, 2, 3]) await failureOf(attempt(on.run, modelInput(on.turn), number));
    expect(on.server.requests.map((request) => request.model)).toEqual(['first', 'first', 'second']);
  });
});

describe('tool calls in a reply', () => {
  test('are stored to be run, with their arguments and the id of the provider (W9, W15)', async () => {
    const on = await bench(
      { kind: 'message', toolCalls: [{ id: 'call_1', name: 'add', arguments: { a: 1 } }] },
      { app },
    );
    const { calls, hasText } = await attempt(on.run, modelInput(on.turn));
    expect(calls).toEqual([{ callId: expect.any(String), tool: 'add', digest: expect.any(String) }]);
    expect(hasText).toBe(false);
    const [, thought, call] = await cardsOf(on);
    expect(thought).toMatchObject({ content: { toolCalls: [{ callId: calls[0]?.callId, providerCallId: 'call_1' }] } });
    expect(call).toMatchObject({ type: 'tool.call', content: { callId: calls[0]?.callId, arguments: { a: 1 } } });
  });

  test('with bad arguments are settled without running, and their siblings are not (W9)', async () => {
    const toolCalls = [
      { name: 'add', arguments: { a: 'one' } },
      { name: 'add', arguments: '{broken' },
      { name: 'gone', arguments: {} },
      { name: 'add', arguments: { a: 1 } },
    ];
    const on = await bench({ kind: 'message', toolCalls }, { app });
    const { calls } = await attempt(on.run, modelInput(on.turn));
    expect(calls.map((call) => call.settled?.errorCode)).toEqual([
      'invalid_arguments',
      'invalid_arguments',
      'unknown_tool',
      undefined,
    ]);
    expect(calls[0]?.settled).toMatchObject({ status: 'failed', afterExecution: 'continue' });
    expect(runs).toEqual([]);
    const results = (await cardsOf(on)).filter((card) => card.type === 'tool.result');
    expect(results).toHaveLength(3);
    expect(results.map((card) => card.callId)).toEqual(calls.slice(0, 3).map((call) => call.callId));
  });

  test('that were refused are answered in the next request, well-formed (W19)', async () => {
    const on = await bench(
      (request) =>
        request.messages.length > 1
          ? { kind: 'message', content: 'I see' }
          : { kind: 'message', toolCalls: [{ name: 'add', arguments: '{broken' }] },
      { app },
    );
    await attempt(on.run, modelInput(on.turn));
    await attempt(on.run, modelInput(on.turn, { stepIndex: 2 }));
    const [, assistant, answer] = on.server.requests[1]?.messages ?? [];
    expect(assistant).toMatchObject({ tool_calls: [{ function: { name: 'add', arguments: '{}' } }] });
    expect(JSON.parse(String(answer?.content))).toMatchObject({
      error: { code: 'invalid_arguments' },
      status: 'failed',
    });
  });

  test('that submit the result are settled at once and terminate (W12)', async () => {
    const fields = [{ name: 'answer', value: 42 }];
    const on = await bench({ kind: 'message', toolCalls: [{ name: 'submit_result', arguments: { fields } }] });
    const { calls } = await attempt(on.run, modelInput(on.turn));
    expect(calls[0]).toMatchObject({
      tool: 'submit_result',
      settled: { status: 'success', afterExecution: 'terminate' },
    });
  });

  test('that submit a result without a required field are refused by name (W12, T28)', async () => {
    const fields = [{ name: 'answer', value: 42 }];
    const resultFields = { fields: [{ name: 'answer' }, { name: 'proof' }] };
    const answer: ModelAnswer = { kind: 'message', toolCalls: [{ name: 'submit_result', arguments: { fields } }] };
    const on = await bench(answer, { request: { resultFields } });
    const { calls } = await attempt(on.run, modelInput(on.turn));
    expect(calls[0]?.settled).toMatchObject({ status: 'failed', errorCode: 'missing_result_fields' });
  });
});

describe('the final report', () => {
  const report = { onlyTools: ['submit_result'], note: { kind: 'final_report', reason: 'enough' } } as const;

  test('has its note stored before the thought, and in the request that asks for it (K9)', async () => {
    const on = await bench({ kind: 'message', content: 'all I have' });
    const record = await attempt(on.run, modelInput(on.turn, report));
    const [, note, thought] = await cardsOf(on);
    expect(note).toMatchObject({ type: 'sys.final_report', content: { text: expect.stringContaining('enough') } });
    expect(thought?.type).toBe('agent.thought');
    expect(record.noteSeq).toBe(2);
    expect(on.server.requests[0]?.messages.at(-1)).toEqual({
      role: 'system',
      content: expect.stringContaining('enough'),
    });
    expect(on.server.requests[0]?.tools?.map((tool) => tool.function.name)).toEqual(['submit_result']);
  });

  test('accepts submit_result also beside other calls, which are ignored (K9)', async () => {
    const toolCalls = [
      { name: 'add', arguments: { a: 1 } },
      { name: 'submit_result', arguments: { fields: [{ name: 'answer', value: 42 }] } },
    ];
    const on = await bench({ kind: 'message', toolCalls }, { app });
    const { calls } = await attempt(on.run, modelInput(on.turn, report));
    expect(calls.map((call) => call.settled?.errorCode)).toEqual(['unknown_tool', undefined]);
    expect(calls[1]?.settled?.status).toBe('success');
  });
});

describe('a refusal', () => {
  test('is kept as a visible thought (W14)', async () => {
    const on = await bench({ kind: 'message', refusal: 'I will not.' });
    expect(await attempt(on.run, modelInput(on.turn))).toMatchObject({ refused: true });
    expect((await cardsOf(on)).at(-1)).toMatchObject({ content: { text: 'I will not.', refusal: 'I will not.' } });
  });

  test('by the content filter is one too, whatever text came before it (W14)', async () => {
    const on = await bench({ kind: 'message', content: 'Well,', finishReason: 'content_filter' });
    expect(await attempt(on.run, modelInput(on.turn))).toMatchObject({ refused: true });
    expect((await cardsOf(on)).at(-1)).toMatchObject({
      content: { text: 'Well,', refusal: expect.stringContaining('content filter') },
    });
  });
});
