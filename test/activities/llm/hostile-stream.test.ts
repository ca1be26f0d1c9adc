/** Streams that no provider should send, over real HTTP: each call ends, with what came or with a failure that says what happened. */
import { afterEach, describe, expect, test } from '@jest/globals';
import { type ModelOptions, openAiModel } from '../../../activities/llm/openai.ts';
import { providerFailure } from '../../../activities/llm/provider-failure.ts';
import { REPLY_BOUNDS } from '../../../activities/llm/reply.ts';
import { type ModelServer, startModelServer } from '../../../workers/model-server/wire.ts';

const servers: ModelServer[] = [];
afterEach(async () => {
  await Promise.all(servers.splice(0).map((server) => server.close()));
});

const request = { model: 'asked-for', messages: [{ role: 'user' as const, content: 'Hello' }] };
const said = (content: unknown) => ({ choices: [{ delta: { content } }] });
const finished = { choices: [{ delta: {}, finish_reason: 'stop' }] };

/** Chunks are made as the client takes them; `made` counts them. */
async function streaming(chunks: Iterable<unknown>, times: Partial<ModelOptions> = {}) {
  const count = { made: 0 };
  function* counted() {
    for (const chunk of chunks) {
      count.made += 1;
      yield chunk;
    }
  }
  const server = await startModelServer({ answer: () => ({ kind: 'raw', chunks: counted() }) });
  servers.push(server);
  const model = openAiModel({ apiKey: undefined, baseUrl: server.url, defaultModel: 'd', ...times });
  return { count, reply: () => model.stream(request, new AbortController().signal) };
}

function* forever<T>(item: T): Generator<T> {
  for (;;) yield item;
}

function* endlessAfter(first: readonly unknown[], item: unknown): Generator<unknown> {
  yield* first;
  yield* forever(item);
}

const failureOf = async (call: Promise<unknown>) => {
  const error = await call.then(
    () => undefined,
    (reason: unknown) => reason,
  );
  return providerFailure(error);
};

describe('a stream', () => {
  test('of endless text is left when the answer is as long as one may be, and its tokens are counted by us (W15, W17)', async () => {
    const { count, reply } = await streaming(forever(said('word '.repeat(200))));
    const { text, finishReason, usage } = await reply();
    expect(finishReason).toBe('length');
    expect(text.length).toBeGreaterThan(REPLY_BOUNDS.bytes - 2_000);
    expect(text.length).toBeLessThanOrEqual(REPLY_BOUNDS.bytes);
    expect(usage.estimated).toBe(true);
    // What lies in the buffers between is made too.
    expect(count.made).toBeLessThan(20_000);
  });

  test('of endless chunks that say nothing ends, with what it said before (W15)', async () => {
    const nothing = { choices: [{ delta: {}, padding: 'x'.repeat(60_000) }] };
    const { reply } = await streaming(endlessAfter([said('so far')], nothing));
    expect(await reply()).toMatchObject({ text: 'so far', finishReason: 'length' });
  });

  test('of endless chunks that say nothing at all fails, and may be tried again (W14)', async () => {
    const { reply } = await streaming(forever({ choices: [], padding: 'x'.repeat(60_000) }));
    const failure = await failureOf(reply());
    expect(failure?.error).toMatchObject({ code: 'provider_error', message: expect.stringContaining('64 MiB') });
    expect(failure?.hint.nonRetryable).toBe(false);
  });

  test('with a line that never ends is not gathered in memory (W15)', async () => {
    const { count, reply } = await streaming(endlessAfter(['data: '], 'x'.repeat(60_000)));
    expect((await failureOf(reply()))?.error.message).toContain('8 MiB');
    expect(count.made).toBeLessThan(2_000);
  });

  test('that says a little for ever is left when its time is over, with what it said (T23)', async () => {
    // Long enough for the first word on a busy machine.
    const times = { callTimeoutMs: 3_000 };
    const slow = await startModelServer({
      answer: () => ({ kind: 'message', content: 'slowly '.repeat(2_000), chunkDelayMs: 100 }),
    });
    servers.push(slow);
    const model = openAiModel({ apiKey: undefined, baseUrl: slow.url, defaultModel: 'd', ...times });
    const { text, finishReason } = await model.stream(request, new AbortController().signal);
    expect(finishReason).toBe('length');
    expect(text).toMatch(/^slowly /);
  });

  test('that says nothing of use in all its time fails, and says so (T23)', async () => {
    const { reply } = await streaming(forever({ choices: [] }), { callTimeoutMs: 200 });
    expect((await failureOf(reply()))?.error.message).toMatch(/not done after 200 ms|64 MiB/);
  });

  test('with an index beyond all bounds is read at once (W15)', async () => {
    const call = { index: 4_294_967_294, id: 'a', function: { name: 'add', arguments: '{}' } };
    const { reply } = await streaming([{ choices: [{ delta: { tool_calls: [call] } }] }, finished]);
    expect((await reply()).calls).toEqual([{ id: 'a', name: 'add', arguments: '{}' }]);
  });

  test.each([
    ['is no JSON', ['data: {"choices":\n\n']],
    ['is an error nested too deeply to be written', [`data: {"error":${'['.repeat(9_000)}${']'.repeat(9_000)}}\n\n`]],
    ['is an error', [{ error: { message: 'my secret', code: 'server_error' } }]],
  ])('that %s fails in words of ours, and may be tried again (W14)', async (_, chunks) => {
    const { reply } = await streaming(chunks);
    const failure = await failureOf(reply());
    expect(failure?.error).toMatchObject({ code: 'provider_error' });
    expect(failure?.error.cause).toBeUndefined();
    expect(failure?.error.message).not.toContain('secret');
    expect(failure?.hint.nonRetryable).toBe(false);
  });
});
