/** Chats over HTTP as others write it: what a gateway completes, what it refuses and how, who sees what, and what a burst comes to. */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import { v7 } from 'uuid';
import { defineAgent, defineApp } from '../../../activities/app/app.ts';
import { keptToken } from '../../../client/gateway/caller.ts';
import { AgentHttpClient } from '../../../client/http/http-client.ts';
import { type ModelServer, startModelServer } from '../../../workers/model-server/wire.ts';
import { type Harness, openHarness } from '../../support/harness.ts';
import { WAIT } from '../../support/wait.ts';
import { ALL, type Answer, type CallOptions, type GatewayBench, openGateway } from './bench.ts';

const MESSAGES = '/v1/agents/friend/messages';

let harness: Harness;
let model: ModelServer;
let gateway: GatewayBench;

beforeAll(async () => {
  harness = await openHarness();
  model = await startModelServer({
    answer: ({ messages }) => ({ kind: 'message', content: `heard ${String(messages.at(-1)?.content)}` }),
  });
  await harness.startWorker(defineApp({ agents: [defineAgent({ name: 'friend' })] }), model);
  gateway = await openGateway(harness);
});
beforeEach(() => void gateway.errors.splice(0));
afterAll(async () => {
  await gateway?.server.close();
  await harness?.close();
  await model?.close();
});

const newChat = () => `c-${v7()}`;
const send = (body: unknown, more: CallOptions = {}): Promise<Answer> =>
  gateway.call('POST', MESSAGES, { body, ...more });

/** That nothing is there of that chat: no session, no agent, no turn. */
async function expectNothingOf(chatId: string): Promise<void> {
  expect(await harness.store.getSession(`friend~${chatId}`)).toBeNull();
  expect(await harness.store.getAgent(`friend~${chatId}`)).toBeNull();
  expect(await harness.store.readEvents({ agentId: `friend~${chatId}` })).toEqual([]);
}

describe('a message', () => {
  test('needs a chat and a text alone, and its turn says how it ended (C1, C4)', async () => {
    const chatId = newChat();
    const { status, json } = await send({ chatId, payload: { text: 'hello' } });
    expect(status).toBe(202);
    const { message, session } = json;
    expect(json).toMatchObject({ duplicate: false, endedTurnId: null });
    expect(session).toMatchObject({ sessionId: `friend~${chatId}`, agentId: `friend~${chatId}`, of: 'friend' });
    expect(message).toMatchObject({
      seq: 1,
      sender: { agentId: 'ann' },
      payload: { text: 'hello' },
      policy: 'collect',
    });
    expect([message.traceId, message.correlationId]).toEqual([message.eventId, message.eventId]);
    const turn = await gateway.call('GET', `/v1/turns/${message.agentTurnId}?waitSeconds=60`);
    const { eventId } = message;
    const identity = { sessionId: `friend~${chatId}`, chatId, traceId: eventId, correlationId: eventId };
    expect(turn.json.chat).toEqual(identity);
    expect(turn.json.terminal).toEqual({
      ...{ turnId: message.agentTurnId, ...identity, status: 'completed' },
      deliverable: turn.json.deliverable,
    });
    const plain = await gateway.client.run('friend', { instruction: 'hello' });
    await plain.result();
    expect((await gateway.call('GET', `/v1/turns/${plain.id}`)).json).toMatchObject({ chat: null, terminal: null });
  });

  test('counts once for its key, in the header or in the envelope', async () => {
    const chatId = newChat();
    const body = { chatId, payload: { text: 'hello' } };
    const headers = { 'idempotency-key': 'k-1' };
    const [first, again] = [await send(body, { headers }), await send(body, { headers })];
    const other = await send({ ...body, idempotencyKey: 'k-1' });
    expect([first, again, other].map(({ json }) => json.duplicate)).toEqual([false, true, true]);
    expect(first.json.message.eventId).toBe('k-1');
    expect((await send({ ...body, payload: { text: 'other' } }, { headers })).json.code).toBe('idempotency_conflict');
    // Its own key goes before that of the header.
    expect((await send({ ...body, eventId: 'e-2', idempotencyKey: 'k-2' }, { headers })).json).toMatchObject({
      duplicate: false,
      message: { eventId: 'e-2', seq: 2 },
    });
  });

  test('is of whom it says, and else of whom the token names', async () => {
    const named = await openGateway(harness, {
      tokens: [keptToken('token-of-anna', { name: 'Anna Müller', scopes: ['write'], profiles: ['friend'] })],
    });
    const body = { chatId: newChat(), payload: { text: 'hello' } };
    const anna = await named.call('POST', MESSAGES, { body, token: 'token-of-anna' });
    expect(anna.json.message.sender).toEqual({ agentId: 'user', instanceId: 'Anna Müller' });
    const bob = await send({ ...body, sender: { agentId: 'bob', instanceId: 'phone' } });
    expect(bob.json.message.sender).toEqual({ agentId: 'bob', instanceId: 'phone' });
    await named.server.close();
  });

  test('whose answer was lost is sent again by the client, and counts once', async () => {
    let lost = 0;
    const losing: typeof fetch = async (input, init) => {
      const response = await fetch(input, init);
      if (lost > 0 || init?.method !== 'POST') return response;
      lost += 1;
      throw new TypeError('the connection broke');
    };
    const client = new AgentHttpClient({ url: gateway.server.url, token: ALL, fetch: losing });
    const chat = client.chat('friend', newChat());
    const sent = await chat.send('hello');
    expect([lost, sent.duplicate, sent.message.seq]).toEqual([1, true, 1]);
    expect(await sent.terminal()).toMatchObject({ status: 'completed' });
    expect(await chat.messages()).toHaveLength(1);
  });

  test('that is rejected is told so, and can be read', async () => {
    const chatId = newChat();
    const turn = await gateway.client.agent(`friend~${chatId}`, { profile: 'friend' }).enqueue({ instruction: 'x' });
    const { status, json } = await send({ chatId, payload: { text: 'no' }, policy: 'reject' });
    // Whether the turn is over by now is left to chance.
    expect(status).toBe(202);
    const listed = await gateway.call('GET', `/v1/agents/friend/chats/${chatId}/messages`);
    expect(listed.json).toEqual({ items: [expect.objectContaining({ eventId: json.message.eventId })], next: null });
    await turn.result();
  });
});

const whole = {
  ...{ eventId: 'e', timestampMs: 1, type: 'chat.message', sender: { agentId: 'ann' }, idempotencyKey: 'k' },
  ...{ traceId: 't', correlationId: 'c', payload: { text: 'hello' } },
};

describe('what is wrong', () => {
  test.each<[string, string, unknown]>([
    ['no text', 'payload', undefined],
    ['a text that is none', 'payload.text', { text: 1 }],
    ['a text that says nothing', 'payload.text', { text: ' ' }],
    ['a text over its size', 'payload.text', { text: 'x'.repeat(300_000) }],
    ['an attachment without a name', 'payload.attachments.0.name', { text: 'x', attachments: [{ text: 'x' }] }],
    ['an event id that is none', 'eventId', 7],
    ['a time that is none', 'timestampMs', 'today'],
    ['another type', 'type', 'chat.shout'],
    ['a sender that is none', 'sender.agentId', { agentId: '../x' }],
    ['a key that is none', 'idempotencyKey', ''],
    ['a trace that is none', 'traceId', null],
    ['a correlation that is none', 'correlationId', '\ud800'],
    ['a cause that is none', 'causationId', []],
    ['a session that is none', 'sessionId', '../x'],
    ['a place that is none', 'seq', -1],
    ['a policy that is none', 'policy', 'shout'],
    ['a profile that is none', 'profile', '../x'],
  ])('%s is refused by its field, and starts nothing (C1)', async (_, path, value) => {
    const chatId = newChat();
    const [field = ''] = path.split('.');
    const { status, json } = await send({ ...whole, chatId, [field]: value });
    expect({ status, ...json }).toMatchObject({ status: 400, code: 'invalid_input' });
    expect(json.detail).toMatch(new RegExp(`(^|; )${path}: `));
    await expectNothingOf(chatId);
    expect(gateway.errors).toEqual([]);
  });

  test.each([
    ['chatId', undefined],
    ['chatId', '../x'],
    ['chatId', 'x'.repeat(125)],
    ['chatId', 'a/b'],
    ['the message', 'unknown'],
  ])('a message with %s %s is refused', async (field, value) => {
    const body = field === 'chatId' ? { ...whole, chatId: value } : { ...whole, chatId: 'c', [`${value}`]: 1 };
    const { json } = await send(body);
    expect(json).toMatchObject({ code: 'invalid_input', detail: expect.stringContaining(`${field}: `) });
    await expectNothingOf('c');
  });

  test.each<[string, string, unknown]>([
    ['/v1/agents/..%2fx/messages', 'agentId', { ...whole, chatId: 'c' }],
    ['/v1/agents/..%2fx/chats/c', 'agentId', undefined],
    ['/v1/agents/friend/chats/..%2fx', 'chatId', undefined],
    ['/v1/agents/friend/chats/..%2fx/messages', 'chatId', undefined],
    ['/v1/agents/friend/chats/..%2fx/stream', 'chatId', undefined],
    ['/v1/agents/friend/chat/..%2fx/stream', 'chatId', undefined],
    ['/v1/agents/friend/chat', 'chatId', { id: '../x', messages: [{}] }],
  ])('%s is refused by %s', async (path, field, body) => {
    const { status, json } = await gateway.call(body ? 'POST' : 'GET', path, { body });
    expect({ status, ...json }).toMatchObject({ status: 400, code: 'invalid_input' });
    expect(json.detail).toMatch(new RegExp(`^${field}: `));
  });

  test('ten megabytes, bytes that are no UTF-8 and text that is no JSON are refused, and start nothing', async () => {
    const chatId = newChat();
    const raw = (body: string | Uint8Array<ArrayBuffer>) =>
      fetch(`${gateway.server.url}${MESSAGES}`, {
        method: 'POST',
        headers: { authorization: `Bearer ${ALL}`, 'content-type': 'application/json' },
        body,
      });
    const large = await raw(JSON.stringify({ chatId, payload: { text: 'x'.repeat(10_000_000) } }));
    expect([large.status, await large.json()]).toMatchObject([413, { code: 'payload_too_large' }]);
    const bytes = Uint8Array.from(Buffer.from(JSON.stringify({ chatId, payload: { text: 'caf\u00e9' } }), 'latin1'));
    const wrong = await raw(bytes);
    expect([wrong.status, await wrong.json()]).toMatchObject([
      400,
      { code: 'invalid_request', detail: expect.stringContaining('UTF-8') },
    ]);
    for (const body of ['', '[]', '"x"', '{"chatId":', `{"chatId":"${chatId}","payload":${'['.repeat(5_000)}`]) {
      const answer = await raw(body);
      expect([answer.status, await answer.json()]).toMatchObject([400, { code: 'invalid_request' }]);
    }
    await expectNothingOf(chatId);
    expect(gateway.errors).toEqual([]);
  });

  test('the largest message is taken, and comes back as it was', async () => {
    const chatId = newChat();
    const text = '"'.repeat((256 * 1024 - 11) / 2);
    // Each character as six: what is on the wire is larger than what is said.
    const escaped = JSON.stringify({ chatId, payload: { text } }).replaceAll('\\"', '\\u0022');
    const { status } = await send(escaped);
    expect(status).toBe(202);
    const listed = await gateway.call('GET', `/v1/agents/friend/chats/${chatId}/messages`);
    expect(listed.json.items[0].payload.text).toBe(text);
  });

  test('a stream goes on only behind what the session has come to', async () => {
    const chatId = newChat();
    await (await gateway.client.chat('friend', chatId).send('hello')).terminal();
    const path = `/v1/agents/friend/chats/${chatId}/stream`;
    for (const id of ['999', 'zzz//', '1/../', 'x'.repeat(250)]) {
      const answers = [
        await gateway.call('GET', path, { headers: { 'last-event-id': id } }),
        await gateway.call('GET', `${path}?cursor=${encodeURIComponent(id)}`),
      ];
      for (const { status, json } of answers) expect([status, json.code]).toEqual([400, 'invalid_request']);
    }
  });
});

describe('who sees what', () => {
  test('a token of some agents has their chats, and none of others', async () => {
    const chatId = newChat();
    const token = 'token-of-team';
    const said = { chatId, payload: { text: 'hello' } };
    await (await gateway.client.chat('friend', chatId).send('hello')).terminal();
    const before = await harness.store.readEvents({ agentId: `friend~${chatId}` });
    const chat = `/v1/agents/friend/chats/${chatId}`;
    for (const path of [chat, `${chat}/messages`, `${chat}/stream`, `/v1/agents/friend/chat/${chatId}/stream`]) {
      const { status, json } = await gateway.call('GET', path, { token });
      expect([path, status, json.code]).toEqual([path, 404, 'agent_not_found']);
    }
    expect((await send(said, { token })).json.code).toBe('agent_not_found');
    expect(await harness.store.readEvents({ agentId: `friend~${chatId}` })).toEqual(before);
    const own = await gateway.call('POST', '/v1/agents/team-a/messages', {
      body: { ...said, profile: 'friend' },
      token,
    });
    expect(own.status).toBe(202);
    const sessions = await gateway.call('GET', '/v1/chats?limit=1000', { token });
    expect(sessions.json.items).toEqual([own.json.session]);
    expect((await gateway.call('GET', '/v1/chats?agentId=friend', { token })).json.items).toEqual([]);
  });

  test('a token may be for one chat alone', async () => {
    const chatId = newChat();
    const guarded = await openGateway(harness, {
      tokens: [keptToken('one', { name: 'guest', scopes: ['read', 'write'], agents: [`friend~${chatId}`] })],
    });
    const body = (id: string) => ({ body: { chatId: id, payload: { text: 'hello' } }, token: 'one' });
    expect((await guarded.call('POST', MESSAGES, body(chatId))).status).toBe(202);
    expect((await guarded.call('POST', MESSAGES, body(newChat()))).json.code).toBe('agent_not_found');
    expect((await guarded.call('GET', '/v1/agents/friend', { token: 'one' })).json.code).toBe('agent_not_found');
    expect((await guarded.call('GET', '/v1/chats', { token: 'one' })).json.items).toMatchObject([{ chatId }]);
    await guarded.server.close();
  });
});

describe('a burst', () => {
  test('whoever asks too often waits as long as he is told, and sends again', async () => {
    const limited = await openGateway(harness, { limits: { requestsPerSecond: 0.5, burst: 1 } });
    let refused = 0;
    const counted: typeof fetch = async (input, init) => {
      const response = await fetch(input, init);
      if (response.status === 429) refused += 1;
      return response;
    };
    const client = new AgentHttpClient({ url: limited.server.url, token: ALL, fetch: counted });
    const chat = client.chat('friend', newChat());
    const sent = await Promise.all(['a', 'b', 'c', 'd'].map((text) => chat.send(text)));
    expect(refused).toBeGreaterThan(0);
    expect(sent.map(({ message }) => message.seq).toSorted()).toEqual([1, 2, 3, 4]);
    const hasty = new AgentHttpClient({ url: limited.server.url, token: ALL, patienceMs: 0 });
    const asked = await Promise.allSettled(['e', 'f', 'g'].map((text) => hasty.chat('friend', chat.chatId).send(text)));
    expect(asked.some(({ status }) => status === 'rejected')).toBe(true);
    for (const each of asked)
      if (each.status === 'rejected') expect(each.reason).toMatchObject({ code: 'too_many_requests' });
    await limited.server.close();
  });

  test('of a thousand messages at once each is in one turn, and all are done in their order (C8)', async () => {
    const client = new AgentHttpClient({ url: gateway.server.url, token: ALL, patienceMs: WAIT.timeoutMs });
    const chat = client.chat('friend', newChat());
    const keys = Array.from({ length: 1_000 }, (_, index) => `m-${index}`);
    const sent = await Promise.all(keys.map((key) => chat.send(`message ${key}`, { key })));
    const last = sent.reduce((a, b) => (a.message.seq > b.message.seq ? a : b));
    expect(last.message.seq).toBe(1_000);
    await last.terminal();
    const listed = await chat.messages({ limit: 1_000 });
    expect(listed.map(({ seq }) => seq)).toEqual(keys.map((_, index) => index + 1));
    expect(listed.map(({ eventId }) => eventId).toSorted()).toEqual(keys.toSorted());
    expect(new Set(listed.map(({ status }) => status))).toEqual(new Set(['done']));
    const turns = await Array.fromAsync(client.turns({ agentId: chat.agent.id }));
    expect(new Set(turns.map(({ status }) => status))).toEqual(new Set(['success']));
    // One turn after the other, each with its messages in a row.
    const order = listed.map(({ agentTurnId }) => agentTurnId).filter((id, index, ids) => id !== ids[index - 1]);
    expect(order).toEqual(turns.toReversed().map(({ agentTurnId }) => agentTurnId));
  });
});
