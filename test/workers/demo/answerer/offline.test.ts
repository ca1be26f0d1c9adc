import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import type OpenAI from 'openai';
import type { ChatCompletionMessageParam } from 'openai/resources';
import { OFFLINE_MODEL, startOfflineModel } from '../../../../workers/demo/answerer/offline.ts';
import type { ModelServer } from '../../../../workers/model-server/wire.ts';
import { clientOf } from '../../model-server/support.ts';
import { offer } from './document-folder.ts';

let server: ModelServer;
let client: OpenAI;
beforeAll(async () => {
  server = await startOfflineModel();
  client = clientOf(server);
});
afterAll(() => server.close());

type Options = Partial<Pick<OpenAI.ChatCompletionCreateParams, 'tools' | 'tool_choice'>>;

async function ask(messages: ChatCompletionMessageParam[], options: Options = {}) {
  const completion = await client.chat.completions.create({ model: 'gpt', messages, ...options, stream: false });
  const message = completion.choices[0]?.message;
  const calls = (message?.tool_calls ?? []).flatMap((call) => (call.type === 'function' ? [call.function] : []));
  return { model: completion.model, content: message?.content, calls };
}

const user = (content: string): ChatCompletionMessageParam => ({ role: 'user', content });

const submitTool = (parameters: Record<string, unknown>, description = ''): OpenAI.ChatCompletionFunctionTool => ({
  type: 'function',
  function: { name: 'submit_result', description, parameters: { type: 'object', ...parameters } },
});

const namedFields = (...names: string[]) => ({
  properties: { fields: { type: 'array', items: { type: 'object', properties: { name: { enum: names } } } } },
});

describe('without tools', () => {
  test('says that it is offline and what it received, under its own name', async () => {
    const { model, content } = await ask([user('Write a poem')]);
    expect(model).toBe(OFFLINE_MODEL);
    expect(content).toBe(
      'No answer (offline model: a weak rule-based stand-in, no language model): received "Write a poem". It calls tools: write call TOOL {"argument": 1}.',
    );
  });

  test('shows at most 200 characters and never half of one', async () => {
    const { content } = await ask([user('🙂'.repeat(300))]);
    expect(content).toContain(`"${'🙂'.repeat(200)}"`);
  });

  test('takes no system note for the words of a person', async () => {
    const notes = ['<state>goal: x</state>', '[system] two steps are left', 'System note: be brief'].map(user);
    const system: ChatCompletionMessageParam = { role: 'system', content: 'You are helpful.' };
    const { content } = await ask([system, user('Write a poem'), ...notes]);
    expect(content).toContain('received "Write a poem"');
  });
});

describe('call NAME {json}', () => {
  const tools = offer('add', 'greet');

  test('calls the tool with the JSON as it was written', async () => {
    const { calls } = await ask([user('please call add {"a": {"b": 1}} now')], { tools });
    expect(calls).toEqual([{ name: 'add', arguments: '{"a": {"b": 1}}' }]);
  });

  test('calls several tools at once, whatever their arguments hold', async () => {
    const { calls } = await ask([user('call add {} call greet {"text": "a } brace, call remove {}"}')], { tools });
    expect(calls.map((call) => call.name)).toEqual(['add', 'greet']);
    expect(calls[1]?.arguments).toBe('{"text": "a } brace, call remove {}"}');
  });

  test.each([
    ['a tool that is not offered', 'call gret {}', 'there is no tool gret, did you mean greet?'],
    ['a tool like no other', 'call subtract {}', 'there is no tool subtract'],
    ['JSON that does not parse', 'call add {a: 1', 'what follows "call add" does not parse as a JSON object'],
    ['one call of two', 'call add {} call remove {}', 'there is no tool remove'],
    ['no object', 'Call add 1 and 2', 'no JSON object follows "call add"'],
  ])('%s is not understood, and nothing is called', async (_, text, problem) => {
    const { calls, content } = await ask([user(text)], { tools });
    expect(calls).toEqual([]);
    expect(content).toContain(`Not understood (offline model`);
    expect(content).toContain(`: ${problem}\nTools: add, greet. Write: call TOOL {"argument": "value"}`);
  });

  test('lists the results afterwards, failures included', async () => {
    const call = (id: string, name: string) => ({ id, type: 'function' as const, function: { name, arguments: '{}' } });
    const messages: ChatCompletionMessageParam[] = [
      user('call add {} call greet {}'),
      { role: 'assistant', tool_calls: [call('1', 'add'), call('2', 'greet')] },
      { role: 'tool', tool_call_id: '1', content: '{"sum":3}' },
      { role: 'tool', tool_call_id: '2', content: '{"error":{"code":"invalid_arguments","message":"text: expected"}}' },
    ];
    const { calls, content } = await ask(messages, { tools });
    expect(calls).toEqual([]);
    expect(content).toMatch(
      /offline model.*\n- add: \{"sum":3\}\n- greet: failed \(invalid_arguments\): text: expected$/,
    );
  });

  test('respects a tool choice of none', async () => {
    const { calls } = await ask([user('call add {}')], { tools, tool_choice: 'none' });
    expect(calls).toEqual([]);
  });
});

describe('submit_result', () => {
  const fieldsOf = (result: Awaited<ReturnType<typeof ask>>): { name: string; value: string }[] =>
    result.calls[0] ? JSON.parse(result.calls[0].arguments).fields : [];

  test.each([
    ['the allowed names of its parameters', submitTool(namedFields('summary', 'risk'))],
    ['quoted names of its description', submitTool({}, 'Ends the turn. Required fields: `summary`, `risk`.')],
    ['plain names of its description', submitTool({}, 'Required fields: summary (text), risk')],
  ])('fills %s with an honest placeholder', async (_, tool) => {
    const fields = fieldsOf(await ask([user('Assess this')], { tools: [tool] }));
    expect(fields.map((field) => field.name)).toEqual(['summary', 'risk']);
    expect(fields.every((field) => field.value.includes('a weak rule-based stand-in, no language model'))).toBe(true);
  });

  test('is called when it is forced, whatever its fields', async () => {
    const tool_choice = { type: 'function' as const, function: { name: 'submit_result' } };
    const fields = fieldsOf(await ask([user('Assess this')], { tools: [submitTool({})], tool_choice }));
    expect(fields.map((field) => field.name)).toEqual(['answer']);
  });

  test('is left alone when a text is enough', async () => {
    const { calls, content } = await ask([user('Assess this')], { tools: [submitTool({}, 'Ends the turn.')] });
    expect(calls).toEqual([]);
    expect(content).toContain('received "Assess this"');
  });
});
