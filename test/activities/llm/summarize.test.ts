import { afterEach, beforeAll, describe, expect, test } from '@jest/globals';
import { openAiModel } from '../../../activities/llm/openai.ts';
import { toMessages } from '../../../activities/llm/projection.ts';
import { ruleSummary, summarize } from '../../../activities/llm/summarize.ts';
import { countTokens, loadTokenizer } from '../../../activities/tokens.ts';
import { textOf } from '../../../workers/model-server/chat-request.ts';
import type { ModelAnswer } from '../../../workers/model-server/wire.ts';
import type { SummarizeAction } from '../../../workflows/kernel/actions.ts';
import type { Card } from '../../../workflows/protocol/cards.ts';
import { testApp } from '../../support/app.ts';
import { card, instruction, proposed, result, thought } from './cards.ts';
import { attempt } from './leased-turn.ts';
import { bench, closeBenches } from './model-bench.ts';

beforeAll(loadTokenizer);
afterEach(closeBenches);

const MOST_TOKENS = 200;

/** A turn whose only card, the instruction, is to be summarised. */
async function shortening(answer: ModelAnswer, how: Partial<Pick<SummarizeAction, 'mode' | 'byRule'>> = {}) {
  const { turn, server } = await bench(answer, { request: { instruction: 'go to Rome' } });
  const { store, lease, fence } = turn;
  await store.openStep(fence, { stepIndex: 1, profileHash: lease.profileHash });
  const extent = { boxId: lease.outputBoxId, fromSeq: 1, toSeq: 1 };
  const plan = { ranges: [extent] };
  const where = { stepIndex: 1, plan, hide: [extent], maxTokens: MOST_TOKENS };
  const request: SummarizeAction = { type: 'summarize', mode: 'summary', ...where, ...how };
  const input = { ...fence, profileHash: lease.profileHash, request };
  const model = openAiModel({ apiKey: 'k', baseUrl: server.url, defaultModel: 'default-model' });
  const run = summarize({ store, app: testApp([]), model });
  const shown = async () => (await store.readExtents([{ ...extent, toSeq: 99 }])).map(({ content }) => content);
  return { server, shown, attempt: (number = 1) => attempt(run, input, number) };
}

describe('a summary', () => {
  test('is written by a model from what it stands for, and takes its place (K15)', async () => {
    const usage = { prompt_tokens: 50, completion_tokens: 7 };
    const on = await shortening({ kind: 'message', content: 'Rome is the goal', usage });
    expect(await on.attempt()).toMatchObject({ seq: 2, usage: { input: 50, output: 7 } });
    expect(on.server.requests[0]?.messages.map(textOf).at(-1)).toContain('user: go to Rome');
    expect(await on.shown()).toMatchObject([{ text: 'Rome is the goal' }]);
  });

  test('whose tokens the provider does not count is counted by us, and its cost is not known (K15, W17)', async () => {
    const on = await shortening({ kind: 'message', content: 'Rome is the goal', usage: null });
    const record = await on.attempt();
    expect(record).toMatchObject({ usage: { cached: 0, estimated: true }, cost: null });
    expect(record.usage.input).toBeGreaterThan(50);
    expect(record.usage.output).toBeGreaterThan(2);
  });

  test('that is stored is not written again (K15)', async () => {
    const on = await shortening({ kind: 'message', content: 'once' });
    const first = await on.attempt();
    expect(await on.attempt(2)).toEqual(first);
    expect(on.server.requests).toHaveLength(1);
  });

  test.each<[string, ModelAnswer]>([
    ['fails', { kind: 'error', status: 500, message: 'm' }],
    ['writes nothing', { kind: 'message', content: ' ' }],
  ])('of a model that %s twice is written by rule, and costs nothing (K15)', async (_, answer) => {
    const on = await shortening(answer);
    await expect(on.attempt(1)).rejects.toThrow();
    expect(await on.shown()).toMatchObject([{ text: 'go to Rome' }]);
    expect(await on.attempt(2)).toMatchObject({ usage: { input: 0, output: 0 }, cost: 0 });
    expect(await on.shown()).toMatchObject([{ text: expect.stringContaining('A user said: go to Rome') }]);
  });

  test.each<[string, number, string]>([
    ['does not exist', 404, 'model_not_found'],
    ['refuses the credentials', 401, 'invalid_api_key'],
    ['takes less than there is to shorten', 400, 'context_length_exceeded'],
  ])('of a model that %s is written by rule at once (K15)', async (_, status, code) => {
    const on = await shortening({ kind: 'error', status, code, message: 'm' });
    expect(await on.attempt(1)).toMatchObject({ usage: { input: 0, output: 0 }, cost: 0 });
    expect(await on.shown()).toMatchObject([{ text: expect.stringContaining('A user said: go to Rome') }]);
  });

  test.each([
    ['of a sprint asks no model (K16)', { mode: 'sprint' }],
    ['before the report asks no model (K9)', { byRule: true }],
  ] as const)('%s', async (_, how) => {
    const on = await shortening({ kind: 'message', content: 'unasked' }, how);
    await on.attempt();
    expect(on.server.requests).toEqual([]);
    expect(await on.shown()).toMatchObject([{ text: expect.stringContaining('go to Rome') }]);
  });

  test('that is longer than the room for it is cut (K15)', async () => {
    const on = await shortening({ kind: 'message', content: 'too many words '.repeat(500) });
    expect(await on.attempt()).toMatchObject({ tokens: expect.any(Number) });
    const [shown] = await on.shown();
    const text = shown && 'text' in shown ? (shown.text ?? '') : '';
    expect(text).toMatch(/^too many words/);
    expect(text).toMatch(/this summary was cut short\)$/);
    expect(countTokens(text)).toBeLessThanOrEqual(MOST_TOKENS);
  });

  test.each(['length', 'SAFETY', 'a word of tomorrow'])(
    'that ended with %s says so (K11, K15)',
    async (finishReason) => {
      const on = await shortening({ kind: 'message', content: 'We go to', finishReason });
      await on.attempt();
      const [shown] = await on.shown();
      expect(shown && 'text' in shown ? shown.text : '').toMatch(/We go to\n\(this summary was cut short\)$/);
    },
  );
});

describe('a summary by rule', () => {
  const ruled = (...cards: readonly Card[]) => ruleSummary(cards, toMessages(cards, 128_000));

  test('says how much was left out, which tools ran and how often, and who said what last (K15)', () => {
    const calls = ['c1', 'c2', 'c3'].map((id) => proposed(id));
    const results = [result('c1', { tool: 'look' }), result('c2'), result('c3', { tool: 'look' })];
    expect(ruled(instruction('go to Rome'), thought('I went', calls), ...results).split('\n')).toEqual([
      '5 older messages were left out.',
      'Tools called: add, look (2 times).',
      'A user said: go to Rome',
      'The assistant said last: I went',
    ]);
  });

  test('keeps the summary before it (K16)', () => {
    expect(ruled(card('context.summary', { text: 'Rome was the goal' }), thought('I went'))).toContain(
      'Rome was the goal',
    );
  });

  test('keeps each of several summaries before it, in the room of one (K16)', () => {
    const summaries = ['Rome', 'Oslo'].map((city) => card('context.summary', { text: `${city} ${'.'.repeat(2_000)}` }));
    const text = ruled(...summaries, thought('I went'));
    expect(text).toContain('Rome .');
    expect(text).toContain('Oslo .');
    expect(Buffer.byteLength(text)).toBeLessThan(1_400);
  });

  test('cuts what was said between characters (K15)', () => {
    for (let shift = 0; shift < 4; shift += 1) {
      const text = ruled(instruction('go'), thought('a'.repeat(shift) + '🧬'.repeat(900)));
      expect(text.isWellFormed()).toBe(true);
      expect(text.length).toBeLessThan(800);
    }
  });
});
