import { createServer } from 'node:net';
import { afterEach, describe, expect, test } from '@jest/globals';
import OpenAI from 'openai';
import { type ModelAnswer, type ModelServer, startModelServer } from '../../../workers/model-server/wire.ts';
import { clientOf, refusalOf } from './support.ts';

const servers: ModelServer[] = [];
const serve = async (answer: ModelAnswer, options: { model?: string; keepRequests?: number } = {}) => {
  const server = await startModelServer({ answer: () => answer, ...options });
  servers.push(server);
  return server;
};
afterEach(async () => {
  await Promise.all(servers.splice(0).map((server) => server.close()));
});

const messages = [{ role: 'user' as const, content: 'Hello' }];
const weather = { type: 'function' as const, function: { name: 'weather', parameters: { type: 'object' } } };

const streamOf = (server: ModelServer) =>
  clientOf(server).chat.completions.create({
    model: 'm',
    messages,
    tools: [weather],
    stream: true,
    stream_options: { include_usage: true },
  });

const collect = async (server: ModelServer) => {
  const chunks: OpenAI.ChatCompletionChunk[] = [];
  for await (const chunk of await streamOf(server)) chunks.push(chunk);
  return chunks;
};

describe('an answer without stream', () => {
  test('is a completion with the model that was asked for and an estimate of the usage', async () => {
    const server = await serve({ kind: 'message', content: 'Good day to you' });
    const completion = await clientOf(server).chat.completions.create({ model: 'm', messages });
    expect(completion).toMatchObject({ object: 'chat.completion', model: 'm' });
    expect(completion.choices).toMatchObject([{ finish_reason: 'stop', message: { content: 'Good day to you' } }]);
    const prompt_tokens = Math.ceil((JSON.stringify(messages).length + 2) / 4);
    expect(completion.usage).toEqual({ prompt_tokens, completion_tokens: 4, total_tokens: prompt_tokens + 4 });
  });

  test('carries tool calls, with arguments given as an object or as raw text', async () => {
    const toolCalls = [
      { name: 'weather', arguments: { city: 'Bern' } },
      { id: 'own', name: 'weather', arguments: '{broken' },
    ];
    const server = await serve({ kind: 'message', toolCalls });
    const completion = await clientOf(server).chat.completions.create({ model: 'm', messages, tools: [weather] });
    const [choice] = completion.choices;
    expect(choice).toMatchObject({ finish_reason: 'tool_calls', message: { content: null } });
    expect(choice?.message.tool_calls).toMatchObject([
      { type: 'function', function: { name: 'weather', arguments: '{"city":"Bern"}' } },
      { id: 'own', function: { arguments: '{broken' } },
    ]);
  });

  test('has the usage that is given, in part or not at all', async () => {
    const cached = await serve({ kind: 'message', content: 'x', usage: { prompt_tokens: 100 } });
    const none = await serve({ kind: 'message', content: 'x', usage: null });
    const ask = (server: ModelServer) => clientOf(server).chat.completions.create({ model: 'm', messages });
    expect((await ask(cached)).usage).toEqual({ prompt_tokens: 100, completion_tokens: 1, total_tokens: 101 });
    expect((await ask(none)).usage).toBeUndefined();
  });
});

describe('a stream', () => {
  test('sends the role first, then pieces, then the finish, then the usage', async () => {
    const server = await serve({ kind: 'message', content: 'A text that is long enough for several pieces 🙂.' });
    const chunks = await collect(server);
    expect(chunks[0]?.choices[0]?.delta).toMatchObject({ role: 'assistant', content: '' });
    expect(chunks.length).toBeGreaterThan(5);
    const text = chunks.map((chunk) => chunk.choices[0]?.delta.content ?? '').join('');
    expect(text).toBe('A text that is long enough for several pieces 🙂.');
    expect(chunks.at(-2)?.choices[0]?.finish_reason).toBe('stop');
    expect(chunks.at(-1)).toMatchObject({ choices: [], usage: { completion_tokens: 13 } });
    expect(chunks.slice(0, -1).every((chunk) => chunk.usage === null)).toBe(true);
  });

  test('never cuts a character in two', async () => {
    const chunks = await collect(await serve({ kind: 'message', content: `a${'🙂'.repeat(40)}` }));
    expect(chunks.every((chunk) => (chunk.choices[0]?.delta.content ?? '').isWellFormed())).toBe(true);
  });

  test('sends the name of a tool call first and its arguments in pieces', async () => {
    const call = { name: 'weather', arguments: { city: 'Llanfairpwllgwyngyll' } };
    const server = await serve({ kind: 'message', toolCalls: [call, call] });
    const deltas = (await collect(server)).flatMap((chunk) => chunk.choices[0]?.delta.tool_calls ?? []);
    const first = deltas.filter((delta) => delta.index === 0);
    expect(first[0]).toMatchObject({ type: 'function', function: { name: 'weather', arguments: '' } });
    expect(first.length).toBeGreaterThan(3);
    expect(first.map((delta) => delta.function?.arguments).join('')).toBe('{"city":"Llanfairpwllgwyngyll"}');
    const ids = deltas.flatMap((delta) => delta.id ?? []);
    expect(new Set(ids).size).toBe(2);
  });

  test('ends with [DONE], without usage unless it was asked for', async () => {
    const server = await serve({ kind: 'message', content: 'Hi' });
    const body = await rawBody(server, { model: 'm', messages, stream: true });
    expect(body.endsWith('data: [DONE]\n\n')).toBe(true);
    expect(body).not.toContain('usage');
  });

  test('is byte for byte the same for the same request', async () => {
    const server = await serve({ kind: 'message', content: 'Hi', toolCalls: [{ name: 'weather', arguments: {} }] });
    const request = { model: 'm', messages, tools: [weather], stream: true };
    expect(await rawBody(server, request)).toBe(await rawBody(server, request));
  });

  test('waits before the first byte and between the chunks', async () => {
    const server = await serve({ kind: 'message', content: 'Hi', delayMs: 60, chunkDelayMs: 30 });
    const start = performance.now();
    await collect(server);
    expect(performance.now() - start).toBeGreaterThanOrEqual(60 + 3 * 30 - 5);
  });

  test('stops when its reader goes away', async () => {
    const server = await serve({ kind: 'message', content: 'x'.repeat(2000), chunkDelayMs: 20 });
    for await (const _ of await streamOf(server)) break;
    expect((await clientOf(server).models.list()).data).toHaveLength(1);
  });
});

const rawBody = async (server: ModelServer, body: object) => {
  const response = await fetch(`${server.url}/chat/completions`, { method: 'POST', body: JSON.stringify(body) });
  return response.text();
};

describe('a failure', () => {
  test('is an HTTP error with code, message and headers', async () => {
    const answer = { kind: 'error', status: 429, message: 'Slow down', headers: { 'retry-after': '7' } } as const;
    const error = await refusalOf(streamOf(await serve(answer)));
    expect(error).toBeInstanceOf(OpenAI.RateLimitError);
    expect(error).toMatchObject({ status: 429, code: 'rate_limit_exceeded', type: 'requests' });
    expect(error.message).toContain('Slow down');
    expect(error.headers?.get('retry-after')).toBe('7');
  });

  test.each([
    [400, 'context_length_exceeded', 'invalid_request_error'],
    [401, 'invalid_api_key', 'invalid_request_error'],
    [429, 'insufficient_quota', 'insufficient_quota'],
    [503, 'overloaded', 'server_error'],
  ])('%i %s has the type %s', async (status, code, type) => {
    const error = await refusalOf(streamOf(await serve({ kind: 'error', status, code })));
    expect(error).toMatchObject({ status, code, type });
  });

  test('reset cuts the connection after the chunks it was told to send', async () => {
    const server = await serve({ kind: 'reset', afterChunks: 3 });
    const chunks: unknown[] = [];
    const read = async () => {
      for await (const chunk of await streamOf(server)) chunks.push(chunk);
    };
    await expect(read()).rejects.toThrow(/terminated|premature|closed|connection/i);
    expect(chunks).toHaveLength(3);
  });

  test('reset in the middle of a tool call leaves its arguments unfinished', async () => {
    const partial = { toolCalls: [{ name: 'weather', arguments: { city: 'Llanfairpwllgwyngyll' } }] };
    const server = await serve({ kind: 'reset', afterChunks: 3, partial });
    let text = '';
    const read = async () => {
      for await (const chunk of await streamOf(server)) {
        text += chunk.choices[0]?.delta.tool_calls?.[0]?.function?.arguments ?? '';
      }
    };
    await expect(read()).rejects.toThrow();
    expect(text).toBe('{"city":"Lla');
  });

  test('reset without stream is a lost connection', async () => {
    const server = await serve({ kind: 'reset', afterChunks: 0 });
    const create = clientOf(server).chat.completions.create({ model: 'm', messages });
    await expect(create).rejects.toBeInstanceOf(OpenAI.APIConnectionError);
  });

  test('stall falls silent and ends only when the server closes', async () => {
    const server = await serve({ kind: 'stall', afterChunks: 2 });
    const stream = (await streamOf(server))[Symbol.asyncIterator]();
    await stream.next();
    await stream.next();
    const third = stream.next().then(
      () => 'more',
      () => 'cut',
    );
    const silence = new Promise((resolve) => setTimeout(resolve, 150, 'silence'));
    expect(await Promise.race([third, silence])).toBe('silence');
    await server.close();
    expect(await third).toBe('cut');
  });

  test('an answer function that throws is a server error that says so', async () => {
    const server = await startModelServer({ answer: () => Promise.reject(new Error('no idea')) });
    servers.push(server);
    const error = await refusalOf(streamOf(server));
    expect(error).toMatchObject({ status: 500, type: 'server_error' });
    expect(error.message).toContain('no idea');
  });
});

describe('the server', () => {
  test('lists its model and uses its own name in every answer', async () => {
    const server = await serve({ kind: 'message', content: 'Hi' }, { model: 'local-1' });
    const models = await clientOf(server).models.list();
    expect(models.data.map((model) => model.id)).toEqual(['local-1']);
    const completion = await clientOf(server).chat.completions.create({ model: 'other', messages });
    expect(completion.model).toBe('local-1');
  });

  test('keeps the requests, and only the newest where a bound is set', async () => {
    const server = await serve({ kind: 'message', content: 'Hi' }, { keepRequests: 2 });
    for (const model of ['a', 'b', 'c']) await clientOf(server).chat.completions.create({ model, messages });
    expect(server.requests.map((request) => request.model)).toEqual(['b', 'c']);
  });

  test('answers an unknown address with 404 and a broken body with 400', async () => {
    const server = await serve({ kind: 'message', content: 'Hi' });
    const unknown = await fetch(`${server.url}/embeddings`, { method: 'POST', body: '{}' });
    expect([unknown.status, await unknown.json()]).toMatchObject([404, { error: { code: 'unknown_url' } }]);
    const broken = await fetch(`${server.url}/chat/completions`, { method: 'POST', body: '{' });
    expect([broken.status, await broken.json()]).toMatchObject([400, { error: { type: 'invalid_request_error' } }]);
  });

  test('refuses a port in use by name', async () => {
    const blocker = createServer();
    await new Promise<void>((resolve) => blocker.listen(0, '127.0.0.1', resolve));
    const address = blocker.address();
    const port = typeof address === 'object' && address ? address.port : 0;
    const start = startModelServer({ port, answer: () => ({ kind: 'message' }) });
    await expect(start).rejects.toMatchObject({ name: 'CodedError', code: 'port_in_use' });
    await expect(start).rejects.toThrow(String(port));
    await new Promise((resolve) => blocker.close(resolve));
  });
});
