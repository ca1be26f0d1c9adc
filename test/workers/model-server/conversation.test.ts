import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { type ModelServer, startModelServer } from '../../../workers/model-server/wire.ts';

let server: ModelServer;
beforeAll(async () => {
  server = await startModelServer({ answer: () => ({ kind: 'message', content: 'ok' }) });
});
afterAll(() => server.close());

const user = { role: 'user', content: 'Hello' };
const call = (...ids: string[]) => ({
  role: 'assistant',
  content: null,
  tool_calls: ids.map((id) => ({ id, type: 'function', function: { name: 'weather', arguments: '{}' } })),
});
const answer = (tool_call_id: string) => ({ role: 'tool', tool_call_id, content: '"sunny"' });
const named = (name: string) => ({ type: 'function', function: { name, parameters: { type: 'object' } } });

async function post(body: object) {
  const response = await fetch(`${server.url}/chat/completions`, { method: 'POST', body: JSON.stringify(body) });
  const json = (await response.json()) as { error?: Record<string, unknown> };
  return { status: response.status, error: json.error };
}

const withMessages = (...messages: unknown[]) => ({ model: 'm', messages });

describe('accepted', () => {
  test.each([
    ['a single message', withMessages(user)],
    ['all roles', withMessages({ role: 'system', content: 'a' }, { role: 'developer', content: 'b' }, user)],
    ['calls answered in any order', withMessages(user, call('a', 'b'), answer('b'), answer('a'))],
    ['the same id again in a later message', withMessages(user, call('a'), answer('a'), call('a'), answer('a'))],
    ['text in parts', withMessages({ role: 'user', content: [{ type: 'text', text: 'Hi' }] })],
    [
      'an image without text',
      withMessages({ role: 'user', content: [{ type: 'image_url', image_url: { url: 'u' } }] }),
    ],
    ['an empty tool answer', withMessages(user, call('a'), { ...answer('a'), content: '' })],
    [
      'options this server does not know',
      { ...withMessages(user), temperature: 0.5, seed: 1, reasoning_effort: 'low' },
    ],
    [
      'a forced tool that is offered',
      { ...withMessages(user), tools: [named('f')], tool_choice: { type: 'function', function: { name: 'f' } } },
    ],
  ])('%s', async (_, body) => {
    expect(await post(body)).toMatchObject({ status: 200 });
  });
});

describe('refused with 400 and the error body of OpenAI', () => {
  test.each<[string, object, string | null, RegExp]>([
    ['no messages', withMessages(), 'messages', /empty array/],
    ['no model', { messages: [user] }, 'model', /Missing required parameter: 'model'/],
    ['an unknown role', withMessages({ role: 'robot', content: 'x' }), 'messages[0].role', /'robot'.*'developer'/],
    ['an empty user message', withMessages({ role: 'user', content: '' }), 'messages[0].content', /non-empty/],
    ['a user message of null', withMessages({ role: 'user', content: null }), 'messages[0].content', /null/],
    ['an assistant that says nothing', withMessages(user, { role: 'assistant' }), 'messages[1].content', /non-empty/],
    ['an empty list of calls', withMessages(user, { ...call() }), 'messages[1].tool_calls', /empty array/],
    ['a call without an answer at the end', withMessages(user, call('a')), 'messages', /did not have.*: a$/],
    ['a call answered too late', withMessages(user, call('a'), user, answer('a')), 'messages', /did not have.*: a$/],
    ['one of two calls unanswered', withMessages(user, call('a', 'b'), answer('a'), user), 'messages', /: b$/],
    [
      'a call answered twice',
      withMessages(user, call('a'), answer('a'), answer('a')),
      'messages[3].tool_call_id',
      /twice/,
    ],
    ['an answer without a call', withMessages(user, answer('a')), 'messages[1].tool_call_id', /preceeding message/],
    [
      'an answer to another message',
      withMessages(user, call('a'), answer('a'), user, answer('a')),
      'messages[4].tool_call_id',
      /preceeding message/,
    ],
    [
      'a doubled call id',
      withMessages(user, call('a', 'a'), answer('a')),
      'messages[1].tool_calls[1].id',
      /duplicate tool_call id 'a'/,
    ],
    [
      'a tool name with a dot',
      { ...withMessages(user), tools: [named('a.b')] },
      'tools[0].function.name',
      /does not match pattern/,
    ],
    [
      'a tool name of 65 letters',
      { ...withMessages(user), tools: [named('a'.repeat(65))] },
      'tools[0].function.name',
      /does not match pattern/,
    ],
    [
      'a bad name in a call',
      withMessages(user, {
        ...call('a'),
        tool_calls: [{ id: 'a', type: 'function', function: { name: 'a b', arguments: '' } }],
      }),
      'messages[1].tool_calls[0].function.name',
      /does not match pattern/,
    ],
    ['doubled tools', { ...withMessages(user), tools: [named('a'), named('a')] }, 'tools[1].function.name', /unique/],
    [
      'a forced tool that is not offered',
      { ...withMessages(user), tools: [named('a')], tool_choice: { type: 'function', function: { name: 'b' } } },
      'tool_choice',
      /no function named 'b'/,
    ],
    ['a tool choice without tools', { ...withMessages(user), tool_choice: 'auto' }, 'tool_choice', /only allowed/],
    [
      'stream options without stream',
      { ...withMessages(user), stream_options: { include_usage: true } },
      'stream_options',
      /only allowed/,
    ],
  ])('%s', async (_, body, param, message) => {
    const refused = await post(body);
    expect(refused).toMatchObject({ status: 400, error: { type: 'invalid_request_error', param } });
    expect(refused.error?.message).toMatch(message);
    expect(Object.keys(refused.error ?? {}).sort()).toEqual(['code', 'message', 'param', 'type']);
  });

  test('and neither recorded nor answered', async () => {
    const before = server.requests.length;
    await post(withMessages(user, call('a')));
    expect(server.requests).toHaveLength(before);
  });
});
