/** Many messages for one turn, on a real server: they are shown as the window of the model has room for them (T22, K15). */
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { v7 } from 'uuid';
import { z } from 'zod';
import { defineTool } from '../../../activities/app/app.ts';
import { countTokens, loadTokenizer } from '../../../activities/tokens.ts';
import type { TurnHandle } from '../../../client/api.ts';
import { type ChatRequest, textOf } from '../../../workers/model-server/chat-request.ts';
import type { ModelAnswer } from '../../../workers/model-server/completion.ts';
import { type ModelServer, startModelServer } from '../../../workers/model-server/wire.ts';
import { testApp } from '../../support/app.ts';
import { type Harness, openHarness } from '../../support/harness.ts';
import { WAIT } from '../../support/wait.ts';

const WINDOW = 8_000;
const MESSAGES = 40;

const work = defineTool({
  name: 'work',
  description: 'works',
  parameters: z.object({ n: z.number() }),
  execute: () => 1,
});

describe('a turn that is sent forty messages while its model thinks', () => {
  let harness: Harness;
  let model: ModelServer;
  let onRequest: (request: ChatRequest) => Promise<ModelAnswer>;

  beforeAll(async () => {
    await loadTokenizer();
    harness = await openHarness();
    model = await startModelServer({ answer: (request) => onRequest(request) });
    await harness.startWorker(testApp([work], { context: { windowTokens: WINDOW } }), model);
  });
  afterAll(async () => {
    await harness?.close();
    await model?.close();
  });

  /** Every message has this many words; returns the tokens of each request, and the messages that each showed as such. */
  const run = async (words: number, steps: number) => {
    const requests: { tokens: number; shown: number[] }[] = [];
    const text = (n: number) => `message ${n}: ${'word '.repeat(words)}`;
    const agentId = `busy-${v7()}`;
    let turn: Promise<TurnHandle>;
    onRequest = async (request) => {
      const whole = request.messages.filter((message) => message.role === 'user' && textOf(message).endsWith('word '));
      const shown = whole.map((message) => Number(/^message (\d+)/.exec(textOf(message))?.[1]));
      const tokens = countTokens(request.messages.map(textOf).join('\n'));
      requests.push({ tokens, shown });
      if (requests.length === 1) for (let n = 1; n <= MESSAGES; n += 1) await (await turn).steer(text(n));
      if (tokens > WINDOW) return { kind: 'error', status: 400, code: 'context_length_exceeded', message: 'too long' };
      if (requests.length > steps) return { kind: 'message', content: 'read them all' };
      return { kind: 'message', toolCalls: [{ name: 'work', arguments: { n: requests.length } }] };
    };
    turn = harness.client.agent(agentId).enqueue({ instruction: 'work on it', profile: 'tester' });
    const view = await (await turn).result(WAIT);
    return { agentId, view, requests };
  };

  test('reads them all, in order, some with each step, and no request is larger than the window (T22, K15)', async () => {
    const { view, requests } = await run(300, 30);
    expect(view).toMatchObject({ status: 'success', deliverable: { text: 'read them all' } });
    const firstSeen = [...new Set(requests.flatMap(({ shown }) => shown))];
    expect(firstSeen).toEqual(Array.from({ length: MESSAGES }, (_, index) => index + 1));
    expect(Math.max(...requests.map(({ tokens }) => tokens))).toBeLessThanOrEqual(WINDOW);
  });

  test('that are each as large as the window never comes to a request with two of them, and none is lost (T22, K15)', async () => {
    const { agentId, view, requests } = await run(WINDOW - 1_500, 5);
    expect(view.status).not.toBe('running');
    for (const { shown } of requests) expect(shown.length).toBeLessThanOrEqual(1);
    const turns = await harness.store.listTurns(agentId);
    const later = turns.filter((turn) => turn.instruction.startsWith('message '));
    const read = new Set([
      ...requests.flatMap(({ shown }) => shown),
      ...later.map(({ instruction }) => Number(/^message (\d+)/.exec(instruction)?.[1])),
    ]);
    expect(read.size).toBe(MESSAGES);
  });
});
