/** A chat with a real worker, server and model, by both clients and on both stores: policies, ends, and the stream of a session (C1, C2, C4, C8). */
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { v7 } from 'uuid';
import { z } from 'zod';
import { defineAgent, defineApp, defineTool } from '../../activities/app/app.ts';
import type { ChatHandle, SessionPart } from '../../client/chat/api.ts';
import type { ClientApi } from '../../client/client-api.ts';
import type { ModelAnswer } from '../../workers/model-server/completion.ts';
import { type ModelServer, startModelServer } from '../../workers/model-server/wire.ts';
import type { MessageEnvelopeInput } from '../../workflows/protocol/chat.ts';
import { type Backend, type Harness, openHarness, scenarioStores } from '../support/harness.ts';
import { type GatewayBench, openGateway } from './gateway/bench.ts';

/** A value that is wrong for each field of an envelope; undefined for one that must be there. */
const MALFORMED: readonly (readonly [string, unknown])[] = [
  ...[
    'eventId',
    'chatId',
    'timestampMs',
    'type',
    'sender',
    'idempotencyKey',
    'traceId',
    'correlationId',
    'payload',
  ].map((field) => [field, undefined] as const),
  ...[['eventId', 'x'.repeat(257)] as const, ['eventId', 'a\0'] as const, ['eventId', 1] as const],
  ...[['chatId', '../x'] as const, ['chatId', 'x'.repeat(129)] as const, ['chatId', ''] as const],
  ...[['sessionId', '../x'] as const, ['sessionId', '~'] as const, ['seq', -1] as const, ['seq', 1.5] as const],
  ...[['timestampMs', 'now'] as const, ['timestampMs', -1] as const, ['type', 'chat.shout'] as const],
  ...[
    ['sender', 'ann'] as const,
    ['sender', { agentId: '../x' }] as const,
    ['sender', { agentId: 'a', x: 1 }] as const,
  ],
  ...[['idempotencyKey', ''] as const, ['idempotencyKey', '\ud800'] as const, ['traceId', ''] as const],
  ...[['correlationId', {}] as const, ['causationId', null] as const, ['payload', 'hello'] as const],
  ...[['payload', { text: ' \n' }] as const, ['payload', { text: 'x', more: 1 }] as const],
  ['payload', { text: 'x', attachments: [{ name: '', text: 'x' }] }],
  ['payload', { text: 'x'.repeat(10_000_000) }],
  ['payload', { text: '\u0001'.repeat(44_000) }],
];

const says = (content: string): ModelAnswer => ({ kind: 'message', content });

/** What the last user message of a conversation says, without the frames of collected messages. */
const lastAsked = (messages: readonly { role: string; content?: unknown }[]): string =>
  String(messages.findLast(({ role }) => role === 'user')?.content ?? '');

describe.each<readonly [string, Backend, 'directly' | 'over HTTP']>([
  ...scenarioStores(import.meta.url).map((backend) => [`directly on ${backend}`, backend, 'directly'] as const),
  ['over HTTP', 'sqlite', 'over HTTP'],
])('a chat %s', (_, backend, way) => {
  let harness: Harness;
  let gateway: GatewayBench | null = null;
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
    if (way === 'over HTTP') gateway = await openGateway(harness);
  });
  afterAll(async () => {
    await gateway?.server.close();
    await harness?.close();
    await model?.close();
  });

  const client = (): ClientApi => gateway?.client ?? harness.client;
  const newChat = (profile = 'friend'): ChatHandle => client().chat(profile, `c-${v7()}`);
  /** Whether a turn of it is at work, in its tool. */
  const atWork = async (chat: ChatHandle) => {
    const sent = await chat.send(`hold ${chat.chatId}`);
    await gate(`${chat.chatId} began`).promise;
    return sent;
  };

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

  test('a session is there from its first message on, and is listed with what it has (C2)', async () => {
    const chat = newChat();
    expect(await chat.get()).toBeNull();
    expect(await chat.messages()).toEqual([]);
    const sent = await chat.send('hello', { sender: 'ann', key: 'k-1', sessionId: `s-${chat.chatId}` });
    expect(sent).toMatchObject({
      duplicate: false,
      endedTurnId: null,
      message: { seq: 1, sender: { agentId: 'ann' }, policy: 'collect', eventId: 'k-1' },
      session: { sessionId: `s-${chat.chatId}`, agentId: chat.agent.id, of: 'friend', chatId: chat.chatId, lastSeq: 1 },
    });
    const again = await chat.send('hello', { sender: 'ann', key: 'k-1' });
    expect([again.duplicate, again.turn?.id]).toEqual([true, sent.turn?.id]);
    await expect(chat.send('other', { sender: 'ann', key: 'k-1' })).rejects.toMatchObject({
      code: 'idempotency_conflict',
    });
    await sent.terminal();
    await (await chat.send('again')).terminal();
    expect(await chat.get()).toMatchObject({ chatId: chat.chatId, lastSeq: 2 });
    const all = await chat.messages();
    expect(await chat.messages({ after: 1 })).toEqual(all.slice(1));
    expect(await chat.messages({ last: 1 })).toEqual(all.slice(1));
    expect(await chat.messages({ limit: 1 })).toEqual(all.slice(0, 1));
    expect(await chat.messages({ agentTurnId: sent.turn?.id ?? '' })).toEqual(all.slice(0, 1));
    const listed = await Array.fromAsync(client().chats({ agentId: 'friend' }));
    expect(listed).toContainEqual(await chat.get());
    expect(await Array.fromAsync(client().chats({ agentId: chat.agent.id }))).toEqual([]);
    expect((await sent.turn?.get())?.chat).toMatchObject({ chatId: chat.chatId, correlationId: 'k-1' });
  });

  test('what is malformed is refused by the field it names, and starts nothing (C1)', async () => {
    const chat = newChat();
    const envelope: MessageEnvelopeInput = {
      ...{ eventId: v7(), chatId: chat.chatId, timestampMs: 1, type: 'chat.message', sender: { agentId: 'ann' } },
      ...{ idempotencyKey: 'k', traceId: 't', correlationId: 'c', payload: { text: 'hello' } },
    };
    for (const [field, value] of MALFORMED) {
      const wrong = { ...envelope, [field]: value } as MessageEnvelopeInput;
      await expect(chat.deliver(wrong)).rejects.toMatchObject({
        code: 'invalid_input',
        message: expect.stringMatching(new RegExp(`(^|; )${field}[.:]`)),
      });
    }
    await expect(chat.deliver({ ...envelope, chatId: 'another' })).rejects.toMatchObject({ code: 'invalid_input' });
    await expect(chat.deliver(envelope, { policy: 'shout' as never })).rejects.toMatchObject({
      code: 'invalid_input',
      message: expect.stringMatching(/^policy: /),
    });
    await expect(client().chat('nobody', chat.chatId).send('hello')).rejects.toMatchObject({
      code: 'profile_not_found',
    });
    expect([await chat.get(), await chat.agent.get()]).toEqual([null, null]);
    expect(await harness.store.readEvents({ agentId: chat.agent.id })).toEqual([]);
    expect(await (await chat.deliver(envelope)).terminal()).toMatchObject({ status: 'completed', traceId: 't' });
  });

  test('a message that does not wait is rejected while a turn is open, and has no terminal (C8)', async () => {
    const chat = newChat();
    const first = await atWork(chat);
    const no = await chat.send('no', { policy: 'reject' });
    expect([no.message.status, no.turn, no.message.agentTurnId]).toEqual(['rejected', null, null]);
    await expect(no.terminal()).rejects.toMatchObject({ code: 'agent_busy' });
    await expect(first.terminal({ timeoutMs: 0 })).rejects.toMatchObject({ code: 'result_wait_timeout' });
    gate(chat.chatId).resolve();
    expect(await first.terminal()).toMatchObject({ status: 'completed' });
  });

  test.each(['interrupt', 'rollback'] as const)('a turn ends by its %s, and the next one goes on (C8)', async (end) => {
    const chat = newChat();
    const first = await atWork(chat);
    const steer = await chat.send('quick', { policy: 'steer' });
    expect(await first.turn?.[end]('enough')).toMatchObject({ ack: 'stopped' });
    expect(await first.turn?.get()).toMatchObject({ status: 'failed', errorCode: 'stopped', reason: 'enough' });
    expect(await steer.terminal()).toMatchObject({
      status: 'completed',
      deliverable: { text: end === 'rollback' ? 'heard 1: quick' : 'heard 2: quick' },
    });
    expect(await first.turn?.[end]()).toMatchObject({ ack: 'already_ended' });
  });

  test('a cursor of another session leads nowhere', async () => {
    const [chat, other] = [newChat(), newChat()];
    await (await chat.send('hello')).terminal();
    const turn = (await (await other.send('hello')).terminal()).turnId;
    for (const cursor of ['x', '1/2', `1/${turn}/`, `0/${turn}/`, 'zzzz//', '../../1//'])
      await expect(chat.stream({ cursor }).next()).rejects.toMatchObject({ code: 'invalid_request' });
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
    const first = await atWork(chat);
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
    await atWork(chat);
    const next = await chat.send('something else', { policy: 'rollback' });
    expect(await next.terminal()).toMatchObject({ deliverable: { text: 'heard 2: something else' } });
  });

  test('a steer that comes before the end is read, and one that comes after makes the next turn (C8)', async () => {
    const chat = newChat();
    const first = await atWork(chat);
    const steer = await chat.send('and be brief', { policy: 'steer' });
    expect(steer.message.status).toBe('steered');
    gate(chat.chatId).resolve();
    const ended = await first.terminal();
    expect(await steer.terminal()).toEqual(ended);
    expect(ended.deliverable?.text).toBe('heard 2: and be brief');
  });

  test('the stream of a session has the end of a turn that was denied before it began, once (C4, C8)', async () => {
    const chat = newChat('careful');
    const denied = await chat.send('my password is x');
    await (await chat.send('hello')).terminal();
    const read = async (wanted: number, cursor?: string): Promise<readonly SessionPart[]> => {
      const parts: SessionPart[] = [];
      for await (const part of chat.stream(cursor === undefined ? {} : { cursor })) {
        parts.push(part);
        if (parts.filter(({ type }) => type === 'end').length === wanted) break;
      }
      return parts;
    };
    const parts = await read(2);
    const [first] = parts.filter(({ type }) => type === 'end');
    expect(first).toMatchObject({ agentTurnId: denied.turn?.id, status: 'failed', errorCode: 'policy_denied' });
    expect((await read(1, first?.cursor)).some(({ agentTurnId }) => agentTurnId === denied.turn?.id)).toBe(false);
  });

  test('the stream of a session has the end of a turn that was stopped while it waited (C8)', async () => {
    const chat = newChat();
    const first = await atWork(chat);
    const waits = await chat.send('later');
    expect(await waits.turn?.stop()).toMatchObject({ ack: 'canceled' });
    gate(chat.chatId).resolve();
    const ends: (string | null)[] = [];
    for await (const part of chat.stream()) {
      if (part.type === 'end') ends.push(part.agentTurnId);
      if (ends.length === 2) break;
    }
    expect(ends).toEqual([first.turn?.id, waits.turn?.id]);
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
    await atWork(chat);
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
