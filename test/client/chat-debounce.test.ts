/** Messages that wait for others: they become one turn when their time has come, also where the process that sent them is gone (C8). */
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { v7 } from 'uuid';
import { type ModelServer, startModelServer } from '../../workers/model-server/wire.ts';
import { testApp } from '../support/app.ts';
import { type Harness, openHarness } from '../support/harness.ts';

let harness: Harness;
let model: ModelServer;

beforeAll(async () => {
  harness = await openHarness();
  model = await startModelServer({ answer: () => ({ kind: 'message', content: 'heard' }) });
  const app = testApp([], { chat: { debounceMs: 1_000 } });
  await harness.startWorker(app, model, { supervisor: { everyMs: 200 } });
});
afterAll(async () => {
  await harness?.close();
  await model?.close();
});

test('the process that has sent them starts their one turn (C8)', async () => {
  const chat = harness.client.chat('tester', `c-${v7()}`);
  const sent = await Promise.all(['one', 'two', 'three'].map((text) => chat.send(text)));
  const ended = await Promise.all(sent.map(({ terminal }) => terminal()));
  expect(new Set(ended.map(({ turnId }) => turnId)).size).toBe(1);
});

test('where it is gone, the supervisor does (C8)', async () => {
  const eventId = v7();
  const outcome = await harness.store.sendMessage({
    agentId: 'tester',
    message: {
      ...{ eventId, chatId: `c-${v7()}`, timestampMs: 1, type: 'chat.message', sender: { agentId: 'ann' } },
      ...{ idempotencyKey: eventId, traceId: 't', correlationId: 'c', payload: { text: 'hello' } },
    },
  });
  if (outcome.kind !== 'sent') throw new Error(outcome.message);
  expect(outcome).toMatchObject({ handover: null, message: { status: 'queued' } });
  const turn = harness.client.turn(outcome.message.agentTurnId ?? '');
  expect(await turn.result({ timeoutMs: 120_000 })).toMatchObject({ status: 'success' });
});
