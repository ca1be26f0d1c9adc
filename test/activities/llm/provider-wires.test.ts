/** What providers and the gateways in front of them send, as it was recorded: their words for a prompt that is too long, and answers that are no stream. */
import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterEach, describe, expect, test } from '@jest/globals';
import { openAiModel } from '../../../activities/llm/openai.ts';
import { providerFailure } from '../../../activities/llm/provider-failure.ts';

const servers: Server[] = [];
afterEach(() => {
  for (const server of servers.splice(0)) {
    server.closeAllConnections();
    server.close();
  }
});

interface Sent {
  readonly status?: number;
  readonly type?: string;
  readonly body: unknown;
}

async function replyTo({ status = 200, type = 'application/json', body }: Sent) {
  const server = createServer((incoming, response) => {
    incoming.resume().on('end', () => {
      response.writeHead(status, { 'content-type': type });
      response.end(typeof body === 'string' ? body : JSON.stringify(body));
    });
  });
  servers.push(server);
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const model = openAiModel({ apiKey: 'key', baseUrl: `http://127.0.0.1:${port}/v1`, defaultModel: 'd' });
  const request = { model: 'm', messages: [{ role: 'user' as const, content: 'Hello' }] };
  return model.stream(request, new AbortController().signal);
}

const failureOf = async (sent: Sent) => {
  const error = await replyTo(sent).then(
    () => null,
    (thrown: unknown) => thrown,
  );
  const failure = providerFailure(error);
  return { code: failure?.error.code, message: failure?.error.message, final: failure?.hint.nonRetryable };
};

const error = (message: string, more: Readonly<Record<string, unknown>> = {}) => ({ error: { message, ...more } });

describe('a prompt that is too long (W14)', () => {
  test.each([
    ['OpenAI and Groq', 400, error('Please reduce the length.', { code: 'context_length_exceeded' })],
    ['vLLM', 400, error("This model's maximum context length is 4096 tokens. However, you requested 5000.")],
    ['DeepSeek', 400, error("This model's maximum context length is 65536 tokens.", { type: 'invalid_request_error' })],
    [
      'Mistral',
      400,
      error('Prompt contains 40000 tokens, too large for model with 32768 maximum context length', { code: '3051' }),
    ],
    ['Anthropic', 400, error('prompt is too long: 210000 tokens > 200000 maximum', { type: 'invalid_request_error' })],
    [
      'Google',
      400,
      [error('The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).', { code: 400 })],
    ],
    [
      'llama.cpp',
      400,
      error('the request exceeds the available context size', { code: 400, type: 'exceed_context_size_error' }),
    ],
    ['Bedrock behind a proxy', 400, error('ValidationException: Input is too long for requested model.')],
    ['a gateway', 413, '<html>413 Request Entity Too Large</html>'],
  ])('is known by the words of %s', async (_, status, body) => {
    expect(await failureOf({ status, body })).toMatchObject({ code: 'context_overflow', final: true });
  });

  test('is not what other refusals say', async () => {
    const body = error('max_tokens is too large: 99999');
    expect(await failureOf({ status: 400, body })).toMatchObject({ code: 'provider_error', final: true });
  });
});

describe('a prompt that is refused for what it says (W14)', () => {
  test.each([
    [
      'Azure',
      400,
      error("The response was filtered due to the prompt triggering Azure OpenAI's content management policy.", {
        code: 'content_filter',
        innererror: { code: 'ResponsibleAIPolicyViolation' },
      }),
    ],
    ['OpenAI', 400, error('Your request was rejected.', { code: 'content_policy_violation' })],
    [
      "OpenAI's reasoning models",
      400,
      error('Invalid prompt: your prompt was flagged as potentially violating our usage policy.', {
        code: 'invalid_prompt',
      }),
    ],
    [
      'xAI',
      403,
      {
        code: 'The caller does not have permission to execute the specified operation',
        error:
          'Content violates usage guidelines. Team: x, API key ID: y, Model: z, Failed check: SAFETY_CHECK_TYPE_BIO',
      },
    ],
    [
      'OpenRouter',
      403,
      error('Your chosen model requires moderation and your input was flagged for "violence"', {
        code: 403,
        metadata: { reasons: ['violence'], flagged_input: 'how to', provider_name: 'OpenAI' },
      }),
    ],
    ['Anthropic', 400, error('Output blocked by content filtering policy', { type: 'invalid_request_error' })],
    ['DeepSeek', 400, error('Content Exists Risk', { code: 'invalid_request_error' })],
    ['Qwen', 400, error('Input data may contain inappropriate content.', { code: 'data_inspection_failed' })],
  ])('is known by the words of %s: nobody waits for a key, or makes it shorter', async (_, status, body) => {
    const failure = await failureOf({ status, body });
    expect(failure).toMatchObject({ code: 'provider_refusal', final: true });
    expect(failure.message).not.toMatch(/OPENAI_API_KEY|violence|flagged/);
  });

  test.each([
    ['a key without permission', error('Your key may not use this model.')],
    ['a firewall', '<html><h1>403 ERROR</h1>Request blocked. We can not connect to the server for this app.</html>'],
  ])('is not what %s says', async (_, body) => {
    expect(await failureOf({ status: 403, body })).toMatchObject({ code: 'provider_auth' });
  });
});

describe('what an operator can mend (W14)', () => {
  test.each([
    [401, 'provider_auth', 'OPENAI_API_KEY'],
    [402, 'provider_error', 'pay, and the turn goes on by itself'],
    [429, 'provider_error', 'rate limit or the quota'],
  ])('is waited for, and %i says what that is', async (status, code, said) => {
    const failure = await failureOf({ status, body: error('no') });
    expect(failure).toMatchObject({ code, message: expect.stringContaining(said) });
    if (code === 'provider_error') expect(failure.final).toBe(false);
  });

  test('a page is no answer, and says where to look', async () => {
    const page = { type: 'text/html; charset=utf-8', body: '<html>Welcome</html>' };
    expect(await failureOf(page)).toMatchObject({
      code: 'provider_error',
      final: false,
      message: 'cannot reach the model (it answers with a page, text/html); check OPENAI_BASE_URL',
    });
  });
});

describe('an endpoint that does not stream (W15)', () => {
  const tool = { id: 'c1', type: 'function', function: { name: 'look', arguments: '{"at":"it"}' } };
  const whole = (message: object, finish_reason: string) => ({
    object: 'chat.completion',
    model: 'm',
    choices: [{ index: 0, message: { role: 'assistant', ...message }, finish_reason }],
    usage: { prompt_tokens: 3, completion_tokens: 4 },
  });

  test('is understood: its text, its calls and its usage', async () => {
    const body = whole({ content: 'Hi\nthere', tool_calls: [tool, { ...tool, id: 'c2' }] }, 'tool_calls');
    expect(
      await replyTo({ type: 'application/json; charset=utf-8', body: JSON.stringify(body, null, 2) }),
    ).toMatchObject({
      text: 'Hi\nthere',
      calls: [
        { id: 'c1', name: 'look', arguments: '{"at":"it"}' },
        { id: 'c2', name: 'look', arguments: '{"at":"it"}' },
      ],
      finishReason: 'tool_calls',
      usage: { input: 3, output: 4 },
    });
  });

  test('is not taken for one that streams under a wrong name', async () => {
    const chunk = { choices: [{ index: 0, delta: { content: 'hi' }, finish_reason: 'stop' }] };
    const body = `data: ${JSON.stringify(chunk)}\n\ndata: [DONE]\n\n`;
    expect(await replyTo({ type: 'application/json', body })).toMatchObject({ text: 'hi' });
  });

  test('has no more in its lines together than a stream has in one', async () => {
    const body = `{"choices":[],\n${`"x":"${'x'.repeat(1_000)}",\n`.repeat(9_000)}"y":1}`;
    await expect(replyTo({ body })).rejects.toThrow(/more than 8 MiB/);
  });

  test('a call in the form that came before tools is a call', async () => {
    const called = { function_call: { name: 'look', arguments: '{}' } };
    expect(await replyTo({ body: whole({ content: null, ...called }, 'function_call') })).toMatchObject({
      text: '',
      calls: [{ name: 'look', arguments: '{}' }],
    });
    const deltas = [
      { function_call: { name: 'look', arguments: '' } },
      { function_call: { arguments: '{"a' } },
      { function_call: { arguments: '":1}' } },
    ];
    const events = deltas.map((delta) => `data: ${JSON.stringify({ choices: [{ index: 0, delta }] })}\n\n`);
    const end = `data: ${JSON.stringify({ choices: [{ index: 0, delta: {}, finish_reason: 'function_call' }] })}\n\ndata: [DONE]\n\n`;
    expect(await replyTo({ type: 'text/event-stream', body: events.join('') + end })).toMatchObject({
      calls: [{ name: 'look', arguments: '{"a":1}' }],
    });
  });
});
