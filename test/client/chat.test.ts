/** A chat with a real worker, server and model, on both stores: policies, ends, and the stream of a session (C2, C4, C5, C8). */
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { v7 } from 'uuid';
import { z } from 'zod';
import { defineAgent, defineApp, defineTool } from '../../activities/app/app.ts';
import type { ChatHandle, SessionPart } from '../../client/chat/api.ts';
import type { ModelAnswer } from '../../workers/model-server/completion.ts';
import { type ModelServer, startModelServer } from '../../workers/model-server/wire.ts';
import { BACKENDS, type Harness, openHarness } from '../support/harness.ts';

const says = (content: string): ModelAnswer => ({ kind: 'message', content });

/** What the last user message of a conversation says, without the frames of collected messages. */
const lastAsked = (messages: readonly { role: string; content?: unknown }[]): string =>
  String(messages.findLast(({ role }) => role === 'user')?.content ?? '');

describe.each(BACKENDS)('a chat on %s', (backend) => {
  let harness: Harness;
  let model: ModelServer;
  /** Holds a tool until the test lets it go; one that is stopped goes at once. */
  const gates = new Map<string, PromiseWithResolvers<void>>();
  const gate = (name: string) => {
    const known = gates.get(name) ?? Promise.withResolvers<void>();
    gates.set(name, known);
    return known;
  };

  const hold = defineTool({
    name: 'hold',
    description: 'Waits.',
    parameters: z.object({ name: z.string() }),
    sideEffects: 'idempotent',
    async execute({ name }, { signal }) {
      gate(`${name} began`).resolve();
      const stopped = new Promise<void>((resolve) => signal.addEventListener('abort', () => resolve(), { once: true }));
      await Promise.race([gate(name).promise, stopped]);
      return { held: name };
    },
  });

  beforeAll(async () => {
    harness = await openHarness(backend);
    model = await startModelServer({
      answer: ({ messages }) => {
        const asked = lastAsked(messages);
        const [, name] = /hold (\S+)/.exec(asked) ?? [];
        const held = messages.some(({ role }) => role === 'tool') && messages.at(-1)?.role === 'tool';
        if (name !== undefined && !held) return { kind: 'message', toolCalls: [{ name: 'hold', arguments: { name } }] };
        const said = messages.filter(({ role }) => role === 'user').map(({ content }) => String(content));
        return says(`heard ${said.length}: ${said.at(-1)}`);
      },
    });
    const careful = defineAgent({
      name: 'careful',
      inputPolicy: { deny: [{ contains: ['password'], reason: 'secrets are not discussed' }] },
    });
    await harness.startWorker(defineApp({ agents: [defineAgent({ name: 'friend' }), careful], tools: [hold] }), model);
  });
  afterAll(async () => {
    await harness?.close();
    await model?.close();
  });

  const newChat = (profile = 'friend'): ChatHandle => harness.client.chat(profile, `c-${v7()}`);

  test('remembers what was said, and ends each turn with one terminal (C2, C4)', async () => {
    const chat = newChat();
    const first = await chat.send('hello');
    expect(await first.terminal()).toMatchObject({ status: 'completed', deliverable: { text: 'heard 1: hello' } });
    const second = await chat.send('again', { traceId: 'trace-1' });
    expect(await second.terminal()).toMatchObject({
      status: 'completed',
      traceId: 'trace-1',
      chatId: chat.chatId,
      sessionId: chat.agent.id,
      deliverable: { text: 'heard 2: again' },
    });
    expect((await chat.messages()).map(({ status }) => status)).toEqual(['done', 'done']);
  });

  test('denies before the model is asked, and says what to do (C4)', async () => {
    const asked = model.requests.length;
    const sent = await newChat('careful').send('my password is x');
    expect(await sent.terminal()).toMatchObject({
      status: 'denied',
      failure: { class: 'policy_denied', code: 'policy_denied', reason: 'secrets are not discussed' },
    });
    expect(model.requests.length).toBe(asked);
  });

  test('an interrupt ends the turn at work, and its terminal says so (C4, C8)', async () => {
    const chat = newChat();
    const first = await chat.send(`hold ${chat.chatId}`);
    await gate(`${chat.chatId} began`).promise;
    const second = await chat.send('never mind', { policy: 'interrupt' });
    expect(second.endedTurnId).toBe(first.turn?.id);
    expect(await first.terminal()).toMatchObject({
      status: 'failed',
      failure: { code: 'stopped', class: 'report_missing' },
    });
    expect(await second.terminal()).toMatchObject({
      status: 'completed',
      deliverable: { text: 'heard 2: never mind' },
    });
  });

  test('a rollback is as if the turn had not been (C8)', async () => {
    const chat = newChat();
    await (await chat.send('hello')).terminal();
    await chat.send(`hold ${chat.chatId}`);
    await gate(`${chat.chatId} began`).promise;
    const next = await chat.send('something else', { policy: 'rollback' });
    expect(await next.terminal()).toMatchObject({ deliverable: { text: 'heard 2: something else' } });
  });

  test('a steer that comes before the end is read, and one that comes after makes the next turn (C8)', async () => {
    const chat = newChat();
    const first = await chat.send(`hold ${chat.chatId}`);
    await gate(`${chat.chatId} began`).promise;
    const steer = await chat.send('and be brief', { policy: 'steer' });
    expect(steer.message.status).toBe('steered');
    gate(chat.chatId).resolve();
    const ended = await first.terminal();
    expect(await steer.terminal()).toEqual(ended);
    expect(ended.deliverable?.text).toBe('heard 2: and be brief');
  });

  test('the stream of a session has its messages and each part of its turns once, also for a reader who comes back (C8)', async () => {
    const chat = newChat();
    const parts: SessionPart[] = [];
    const stop = new AbortController();
    let ends = 0;
    const reading = (async () => {
      for await (const part of chat.stream({ signal: stop.signal })) {
        parts.push(part);
        if (part.type === 'end') ends += 1;
        if (ends === 2) break;
      }
    })();
    await chat.send(`hold ${chat.chatId}`);
    await gate(`${chat.chatId} began`).promise;
    await chat.send('two');
    await chat.send('three');
    await chat.send('no', { policy: 'reject' });
    gate(chat.chatId).resolve();
    await reading;
    const messages = parts.flatMap((part) => (part.type === 'message' ? [part.placement] : []));
    expect(messages).toEqual(['turn', 'turn', 'collected', 'rejected']);
    const turns = [...new Set(parts.flatMap((part) => (part.type === 'end' ? [part.agentTurnId] : [])))];
    expect(turns).toHaveLength(2);
    const again: SessionPart[] = [];
    while (again.length < parts.length) {
      const cursor = again.at(-1)?.cursor;
      for await (const part of chat.stream(cursor === undefined ? {} : { cursor })) {
        again.push(part);
        if (again.length % 3 === 0 || again.length === parts.length) break;
      }
    }
    const texts = (from: readonly SessionPart[]) =>
      turns.map((turn) =>
        from.flatMap((part) => (part.type === 'text' && part.agentTurnId === turn ? [part.delta] : [])).join(''),
      );
    expect(texts(again)).toEqual(texts(parts));
    expect(texts(parts)[0]).toContain('heard 1');
    expect(again.filter(({ type }) => type === 'message')).toHaveLength(4);
    stop.abort();
  });
});

test.each([
  ['an agent', '../x', 'c', 'agentId'],
  ['a chat', 'friend', '../x', 'chatId'],
  ['both together', 'a'.repeat(100), 'c'.repeat(100), 'chatId'],
])('the id of %s that is none is refused by name (C1)', async (_, agentId, chatId, field) => {
  const harness = await openHarness();
  try {
    expect(() => harness.client.chat(agentId, chatId)).toThrow(
      expect.objectContaining({ code: 'invalid_input', message: expect.stringContaining(`${field}:`) }),
    );
  } finally {
    await harness.close();
  }
});
