/** What the offline model submits where an agent says what it delivers. */
import { expect, test } from '@jest/globals';
import { z } from 'zod';
import { defineAgent } from '../../../../activities/app/app.ts';
import type { OutputSchema } from '../../../../activities/app/define-agent.ts';
import { offeredBuiltins } from '../../../../activities/tools/builtin/registry.ts';
import { offlineAnswer } from '../../../../workers/demo/answerer/offline.ts';
import type { ChatMessage, ChatTool } from '../../../../workers/model-server/chat-request.ts';

/** What the offline model submits to an agent with this output. */
function submitted(output: OutputSchema, ...messages: readonly ChatMessage[]): unknown {
  const { profile } = defineAgent({ name: 'reporter', output });
  const offered = offeredBuiltins({ profile, resultFields: profile.resultFields ?? null });
  const tools = offered.map(({ name, description, parameters }) => ({
    type: 'function',
    function: { name, description, parameters },
  })) as ChatTool[];
  const answer = offlineAnswer({ model: 'x', messages: [...messages], tools });
  const [call] = answer.toolCalls ?? [];
  if (call?.name !== 'submit_result') throw new Error(`no result was submitted but ${JSON.stringify(answer)}`);
  const { fields } = call.arguments as { readonly fields: readonly { readonly name: string; value: unknown }[] };
  return Object.fromEntries(fields.map(({ name, value }) => [name, value]));
}

const asked = (content: string): ChatMessage => ({ role: 'user', content });

test('fits the schema of the output, and leaves out what may be left out', () => {
  const output = z.object({
    summary: z.string().max(40),
    score: z.int().min(3).max(9),
    share: z.number().gt(0).lt(1),
    done: z.boolean(),
    risk: z.enum(['low', 'high']),
    tags: z.array(z.string()),
    places: z.array(z.object({ city: z.string(), id: z.uuid() })).min(2),
    kind: z.literal('report'),
    remark: z.string().nullable(),
    choice: z.union([z.object({ day: z.iso.date() }), z.null()]),
    address: z.email(),
    pair: z.tuple([z.string(), z.int()]),
    more: z.string().optional(),
  });
  const values = submitted(output, asked('Assess this'));
  expect(() => output.parse(values)).not.toThrow();
  expect(values).not.toHaveProperty('more');
  expect(values).toMatchObject({ summary: expect.stringContaining('offline model'), score: 3, tags: [] });
});

test('takes numbers and words of a list from what was asked', () => {
  const output = z.object({ count: z.int(), risk: z.enum(['low', 'high']) });
  expect(submitted(output, asked('The risk is high, 12 times.'))).toEqual({ count: 12, risk: 'high' });
});

test('takes what the results of tools have by the same name, where it fits', () => {
  const output = z.object({ city: z.string(), sky: z.enum(['sunny', 'rainy']), degrees: z.number(), text: z.string() });
  const call = { id: '1', type: 'function' as const, function: { name: 'forecast', arguments: '{"city":"Rome"}' } };
  const values = submitted(
    output,
    asked('call forecast {"city":"Rome"}'),
    { role: 'assistant', tool_calls: [call] },
    { role: 'tool', tool_call_id: '1', content: '{"sky":"rainy","degrees":"7"}' },
  );
  expect(values).toEqual({
    city: 'Rome',
    sky: 'rainy',
    degrees: 7,
    text: expect.stringContaining('forecast: {"sky":"rainy"'),
  });
});
