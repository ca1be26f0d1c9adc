import { afterEach, describe, expect, test } from '@jest/globals';
import OpenAI from 'openai';
import { type ModelOptions, openAiModel } from '../../../activities/llm/openai.ts';
import { providerFailure } from '../../../activities/llm/provider-failure.ts';
import { type ModelAnswer, type ModelServer, startModelServer } from '../../../workers/model-server/wire.ts';

const servers: ModelServer[] = [];
afterEach(async () => {
  await Promise.all(servers.splice(0).map((server) => server.close()));
});

const tool = { type: 'function' as const, function: { name: 'add', parameters: { type: 'object' } } };
const request = { model: 'asked-for', messages: [{ role: 'user' as const, content: 'Hello' }], tools: [tool] };

/** Short patience, so that a stall is noticed while the test watches. */
const PATIENCE: Partial<ModelOptions> = { firstByteTimeoutMs: 5_000, streamIdleTimeoutMs: 5_000 };

async function modelOn(answer: ModelAnswer, options: Partial<ModelOptions> = PATIENCE) {
  const server = await startModelServer({ answer: () => answer });
  servers.push(server);
  return { server, model: openAiModel({ apiKey: 'key', baseUrl: server.url, defaultModel: 'd', ...options }) };
}

async function replyTo(answer: ModelAnswer, options?: Partial<ModelOptions>) {
  const { model } = await modelOn(answer, options);
  return model.stream(request, new AbortController().signal);
}

/** What becomes of a call that the provider fails. */
async function failureOf(answer: ModelAnswer, options?: Partial<ModelOptions>) {
  const error = await replyTo(answer, options).then(
    () => undefined,
    (reason: unknown) => reason,
  );
  const failure = providerFailure(error);
  if (!failure) throw new Error(`expected a failure of the provider, got ${String(error)}`);
  return { code: failure.error.code, message: failure.error.message, ...failure.hint };
}

describe('a reply', () => {
  test('is the text of all its pieces, with the model that gave it and its times (W14, W17)', async () => {
    const content = 'A text that is long enough to come in several pieces 🙂.';
    const reply = await replyTo({ kind: 'message', content, chunkDelayMs: 2 });
    expect(reply).toMatchObject({ text: content, refusal: '', calls: [], finishReason: 'stop', model: 'asked-for' });
    expect(reply.firstTokenMs).toBeGreaterThan(0);
    expect(reply.latencyMs).toBeGreaterThanOrEqual(reply.firstTokenMs ?? Number.POSITIVE_INFINITY);
  });

  test('has the calls put together from their pieces, in order, with the text beside them (W14)', async () => {
    const args = { label: 'long enough for several pieces', nested: { list: [1, 2, 3] } };
    const toolCalls = [
      { id: 'one', name: 'add', arguments: args },
      { id: 'two', name: 'add', arguments: '{not json' },
      { id: 'three', name: 'add', arguments: '' },
    ];
    const reply = await replyTo({ kind: 'message', content: 'Let me see.', toolCalls });
    expect(reply).toMatchObject({ text: 'Let me see.', finishReason: 'tool_calls' });
    expect(reply.calls).toEqual([
      { id: 'one', name: 'add', arguments: JSON.stringify(args) },
      { id: 'two', name: 'add', arguments: '{not json' },
      { id: 'three', name: 'add', arguments: '' },
    ]);
  });

  test('has the usage that the provider reports, cached tokens where it reports them (W17, W18)', async () => {
    const usage = { prompt_tokens: 100, completion_tokens: 7 };
    expect((await replyTo({ kind: 'message', content: 'x', usage })).usage).toEqual({
      input: 100,
      output: 7,
      cached: 0,
    });
    const cached = { ...usage, prompt_tokens_details: { cached_tokens: 64 } };
    expect((await replyTo({ kind: 'message', content: 'x', usage: cached })).usage).toEqual({
      input: 100,
      output: 7,
      cached: 64,
    });
  });

  test.each([
    ['nothing', null],
    ['a negative count', { prompt_tokens: -5 }],
    ['less than nothing said', { completion_tokens: -5 }],
    ['half a token', { completion_tokens: 0.5 }],
    ['more than any window holds', { prompt_tokens: 1e15 }],
    ['more cached than there is', { prompt_tokens: 10, prompt_tokens_details: { cached_tokens: 11 } }],
  ])('has a count of ours, and says so, when the provider reports %s (W17)', async (_, usage) => {
    const { input, output, ...rest } = (await replyTo({ kind: 'message', content: 'some words of mine', usage })).usage;
    expect(rest).toEqual({ cached: 0, estimated: true });
    expect(input).toBeGreaterThan(20);
    expect(input).toBeLessThan(100);
    expect(output).toBeGreaterThan(2);
    expect(output).toBeLessThan(10);
  });

  test('may be empty (W15)', async () => {
    expect(await replyTo({ kind: 'message' })).toMatchObject({
      text: '',
      calls: [],
      finishReason: 'stop',
      firstTokenMs: null,
    });
  });

  test('may be a refusal, or stopped by the content filter, which is no failure of the wire (W14)', async () => {
    expect(await replyTo({ kind: 'message', refusal: 'I will not help with that.' })).toMatchObject({
      text: '',
      refusal: 'I will not help with that.',
    });
    expect(await replyTo({ kind: 'message', content: 'Well,', finishReason: 'content_filter' })).toMatchObject({
      text: 'Well,',
      finishReason: 'content_filter',
    });
  });

  test('that was cut at the length limit keeps what came (W15)', async () => {
    const reply = await replyTo({ kind: 'message', content: 'half a sent', finishReason: 'length' });
    expect(reply).toMatchObject({ text: 'half a sent', finishReason: 'length' });
  });

  test('is asked for once, as a stream with usage, and never retried by the client (W14)', async () => {
    const { server, model } = await modelOn({ kind: 'error', status: 500 });
    await expect(model.stream(request, new AbortController().signal)).rejects.toThrow();
    expect(server.requests).toHaveLength(1);
    expect(server.requests[0]).toMatchObject({ stream: true, stream_options: { include_usage: true } });
  });
});

describe('an error of the provider', () => {
  test.each([
    [401, 'invalid_api_key'],
    [403, 'forbidden'],
  ])('%i is provider_auth, not retried, and says what to set (W14)', async (status, code) => {
    expect(await failureOf({ kind: 'error', status, code })).toMatchObject({
      code: 'provider_auth',
      nonRetryable: true,
      message: expect.stringContaining('OPENAI_API_KEY'),
    });
  });

  test.each([
    ['its code', { code: 'context_length_exceeded' }],
    ['its words', { message: 'This model has a maximum context length of 8192 tokens.' }],
  ])('400 for a context that is too long, known by %s, is context_overflow (W14)', async (_, more) => {
    expect(await failureOf({ kind: 'error', status: 400, ...more })).toMatchObject({
      code: 'context_overflow',
      nonRetryable: true,
    });
  });

  test.each([400, 404, 422])('%i is provider_error, not retried, and names the status (W14)', async (status) => {
    const failure = await failureOf({ kind: 'error', status, code: 'model_not_found' });
    expect(failure).toMatchObject({ code: 'provider_error', nonRetryable: true });
    expect(failure.message).toContain(`${status}, model_not_found`);
  });

  test.each([400, 401, 403, 404, 429, 500])('%i leaves the words of the provider behind (W14)', async (status) => {
    const words = 'wrong key sk-proj-a1b2c3d4e5, prompt: my secret plan';
    const { model } = await modelOn({ kind: 'error', status, code: 'sk-a1b2c3d4e5', message: words });
    const error = await model.stream(request, new AbortController().signal).catch((reason: unknown) => reason);
    const failure = providerFailure(error);
    expect(failure?.error.cause).toBeUndefined();
    expect(failure?.error.message).not.toMatch(/sk-|secret plan/);
    expect(failure?.said).toContain(words);
  });

  test('that never ends is read only so far (W14)', async () => {
    const { model } = await modelOn({ kind: 'error', status: 400, message: 'x'.repeat(5_000_000) });
    const error = await model.stream(request, new AbortController().signal).catch((reason: unknown) => reason);
    const failure = providerFailure(error);
    expect(failure?.hint.nonRetryable).toBe(true);
    expect(failure?.said.length).toBeLessThan(20_000);
  });

  test.each([408, 409, 429, 500, 502, 503, 529])('%i is provider_error and retried (W14)', async (status) => {
    expect(await failureOf({ kind: 'error', status })).toMatchObject({ code: 'provider_error', nonRetryable: false });
  });

  const later = () => new Date(Date.now() + 30_000).toUTCString();
  test.each([
    ['seconds', () => ({ 'retry-after': '7' }), 7_000, 7_000],
    ['milliseconds, which are preferred', () => ({ 'retry-after-ms': '1500', 'retry-after': '7' }), 1_500, 1_500],
    ['a date', () => ({ 'retry-after': later() }), 25_000, 30_000],
    ['more than an hour, which is cut', () => ({ 'retry-after': '86400' }), 3_600_000, 3_600_000],
  ])('429 with retry-after in %s is retried then (W14)', async (_, headers, atLeast, atMost) => {
    const { retryAfterMs } = await failureOf({ kind: 'error', status: 429, headers: headers() });
    expect(retryAfterMs).toBeGreaterThanOrEqual(atLeast);
    expect(retryAfterMs).toBeLessThanOrEqual(atMost);
  });

  test.each([
    ['none', {}],
    ['one that is no time', { 'retry-after': 'soon' }],
    ['a date gone by', { 'retry-after': 'Wed, 21 Oct 2015 07:28:00 GMT' }],
    ['a negative one', { 'retry-after': '-5' }],
    ['no seconds', { 'retry-after': '0' }],
    ['an empty one', { 'retry-after': '' }],
    ['no milliseconds', { 'retry-after-ms': '0' }],
  ])('429 with %s is retried by the policy (W14)', async (_, headers) => {
    const failure = await failureOf({ kind: 'error', status: 429, headers });
    expect(failure).toMatchObject({ nonRetryable: false });
    expect(failure.retryAfterMs).toBeUndefined();
  });

  test('that is not retried takes no retry-after (W14)', async () => {
    const failure = await failureOf({ kind: 'error', status: 400, headers: { 'retry-after': '7' } });
    expect(failure.retryAfterMs).toBeUndefined();
  });
});

describe('a connection', () => {
  const lost = { code: 'provider_error', nonRetryable: false };

  test('that is refused is retried, and says where the address is set (W14)', async () => {
    const { server, model } = await modelOn({ kind: 'message' });
    await server.close();
    const error = await model.stream(request, new AbortController().signal).catch((reason: unknown) => reason);
    const failure = providerFailure(error);
    expect(failure?.error).toMatchObject({
      code: 'provider_error',
      message: expect.stringContaining('OPENAI_BASE_URL'),
    });
    expect(failure?.hint.nonRetryable).toBe(false);
  });

  test.each([0, 1, 3])('that is reset after %i chunks is retried (W14)', async (afterChunks) => {
    expect(await failureOf({ kind: 'reset', afterChunks })).toMatchObject(lost);
  });

  test('that is reset in the middle of a call is retried: half a call is never used (W14)', async () => {
    const partial = { toolCalls: [{ name: 'add', arguments: { label: 'long enough for several pieces' } }] };
    expect(await failureOf({ kind: 'reset', afterChunks: 3, partial })).toMatchObject(lost);
  });

  test.each([
    ['no header', { kind: 'message', delayMs: 60_000 } as const],
    ['no chunk', { kind: 'stall', afterChunks: 0 } as const],
  ])('on which %s comes in time is given up and retried (T23)', async (_, answer) => {
    const failure = await failureOf(answer, { firstByteTimeoutMs: 100, streamIdleTimeoutMs: 60_000 });
    expect(failure).toMatchObject(lost);
  });

  test('that falls silent in the middle is given up after the idle time, and says so (T23)', async () => {
    const timeouts = { firstByteTimeoutMs: 60_000, streamIdleTimeoutMs: 100 };
    const failure = await failureOf({ kind: 'stall', afterChunks: 3 }, timeouts);
    expect(failure).toMatchObject({ ...lost, message: expect.stringContaining('nothing for 100 ms') });
  });

  test('that is slow but never silent is read to its end, however long it takes (T23)', async () => {
    // Far apart, so that a busy machine does not make a silence of a pause.
    const timeouts = { firstByteTimeoutMs: 3_000, streamIdleTimeoutMs: 3_000 };
    const content = 'x'.repeat(100);
    const reply = await replyTo({ kind: 'message', content, chunkDelayMs: 400 }, timeouts);
    expect(reply.text).toBe(content);
    expect(reply.latencyMs).toBeGreaterThan(3_000);
  });
});

describe('an abort by its caller', () => {
  test.each([
    ['before the first byte', { kind: 'message', delayMs: 60_000 } as const],
    ['in the middle of the stream', { kind: 'stall', afterChunks: 3 } as const],
  ])('%s ends the call at once and is no failure of the provider (T21)', async (_, answer) => {
    const { server, model } = await modelOn(answer, { firstByteTimeoutMs: 60_000, streamIdleTimeoutMs: 60_000 });
    const controller = new AbortController();
    const call = model.stream(request, controller.signal).then(
      () => 'answered',
      () => 'aborted',
    );
    while (server.requests.length === 0) await new Promise((resolve) => setImmediate(resolve));
    controller.abort();
    expect(await call).toBe('aborted');
  });

  test('that came first makes no request at all (T21)', async () => {
    const { server, model } = await modelOn({ kind: 'message', content: 'x' });
    const error = await model.stream(request, AbortSignal.abort()).catch((reason: unknown) => reason);
    expect(providerFailure(error)).toBeNull();
    expect(server.requests).toHaveLength(0);
  });
});

describe('an error that is none of the provider', () => {
  test.each([new Error('a bug'), new TypeError('x is undefined'), 'text', undefined, new OpenAI.APIUserAbortError()])(
    'is left alone: %p',
    (error) => {
      expect(providerFailure(error)).toBeNull();
    },
  );
});
