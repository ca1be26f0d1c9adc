import { describe, expect, test } from '@jest/globals';
import { z } from 'zod';
import { defineAgent, defineApp } from '../../../../activities/app/app.ts';
import { readProposals } from '../../../../activities/llm/proposals.ts';
import { offeredBuiltins } from '../../../../activities/tools/builtin/registry.ts';
import type { ResultFields } from '../../../../workflows/protocol/enqueue.ts';
import { profileSchema } from '../../../../workflows/protocol/profile.ts';
import { proposalContext, streamedCall } from '../../../support/proposed-calls.ts';

const FIELDS: ResultFields = {
  fields: [
    { name: 'title', description: 'one line', required: true },
    { name: 'score', description: '', required: true },
    { name: 'remark', description: '', required: false },
  ],
};

/** What becomes of the calls of one message; names stand for calls of other tools. */
async function read(resultFields: ResultFields | null, ...calls: readonly (object | string)[]) {
  const streamed = calls.map((call, index) =>
    typeof call === 'string' ? streamedCall(call, {}, `p${index}`) : streamedCall('submit_result', call, `p${index}`),
  );
  return (await readProposals(streamed, proposalContext({ resultFields }))).calls;
}

const fields = (...names: readonly string[]) => ({ fields: names.map((name) => ({ name, value: `of ${name}` })) });

function submitResultTool(resultFields: ResultFields | null) {
  const profile = profileSchema.parse({ name: 'tester' });
  const offered = offeredBuiltins({ profile, resultFields }).find(({ name }) => name === 'submit_result');
  if (!offered) throw new Error('submit_result is not offered');
  return offered;
}

describe('submit_result', () => {
  test('alone and complete is accepted at once and ends the turn (W12)', async () => {
    const [call] = await read(FIELDS, fields('title', 'score'));
    expect(call).toMatchObject({
      content: { tool: 'submit_result', arguments: fields('title', 'score') },
      result: { status: 'success', afterExecution: 'terminate' },
    });
  });

  test('may leave optional fields out, give them, and take any JSON as a value (T28)', async () => {
    for (const value of [null, 0, '', false, { deep: [1] }]) {
      const [call] = await read(null, { fields: [{ name: 'anything', value }] });
      expect(call?.result?.status).toBe('success');
    }
    expect((await read(FIELDS, fields('title', 'score', 'remark')))[0]?.result?.status).toBe('success');
  });

  test('beside other calls is refused, and leaves those to run (W12)', async () => {
    const [submission, other] = await read(FIELDS, fields('title', 'score'), 'look');
    expect(submission?.result).toMatchObject({
      status: 'failed',
      afterExecution: 'continue',
      error: { code: 'submit_result_not_alone', kind: 'recoverable' },
    });
    expect(other?.result).toBeUndefined();
  });

  test('twice in one message is refused both times: no call is left without a result (W12)', async () => {
    const calls = await read(null, fields('a'), fields('a'));
    expect(calls.map((call) => call.result?.error?.code)).toEqual(Array(2).fill('submit_result_not_alone'));
  });

  test.each([
    ['one is missing', ['title'], ['missing: score']],
    ['all are missing', ['remark'], ['missing: title, score']],
    ['one is doubled', ['title', 'title', 'score'], ['given more than once: title']],
    ['an optional one is doubled', ['title', 'score', 'remark', 'remark'], ['given more than once: remark']],
    ['one is missing and one doubled', ['title', 'title'], ['missing: score', 'given more than once: title']],
  ])('names the fields when %s (W12, T28)', async (_, names, problems) => {
    const [call] = await read(FIELDS, fields(...names));
    expect(call?.result).toMatchObject({ status: 'failed', error: { code: 'missing_result_fields' } });
    for (const problem of problems) expect(call?.result?.error?.message).toContain(problem);
  });

  test('refuses a doubled field also where no fields were asked for (W12)', async () => {
    expect((await read(null, fields('a', 'a')))[0]?.result?.error?.code).toBe('missing_result_fields');
  });

  test.each([
    ['no fields', {}, 'at fields'],
    ['an empty list', { fields: [] }, 'at fields'],
    ['fields as an object', { fields: { title: 'x' } }, 'at fields'],
    ['a field without a name', { fields: [{ value: 1 }] }, 'at fields[0].name'],
    ['a field with an empty name', { fields: [{ name: '', value: 1 }] }, 'at fields[0].name'],
    ['a field without a value', { fields: [{ name: 'a' }] }, 'at fields[0].value'],
  ])('with %s is refused with the path (W9)', async (_, args, path) => {
    const [call] = await read(null, args);
    expect(call?.result?.error).toMatchObject({ code: 'invalid_arguments', message: expect.stringContaining(path) });
  });
});

describe('submit_result of fields with types', () => {
  const typed: ResultFields = {
    fields: [
      { name: 'score', description: '', required: true, schema: { type: 'integer', minimum: 0 } },
      { name: 'remark', description: '', required: false, schema: { type: 'string' } },
      { name: 'rest', description: '', required: false },
    ],
  };
  const score = (value: unknown, ...more: readonly object[]) => ({ fields: [{ name: 'score', value }, ...more] });

  test('takes values of those types, and any value where a field says nothing (T28, W9)', async () => {
    const rest = { name: 'rest', value: { deep: [1] } };
    const [call] = await read(typed, score(7, rest));
    expect(call).toMatchObject({ content: { arguments: score(7, rest) }, result: { status: 'success' } });
  });

  test.each([
    ['of another type', score('seven'), 'at score'],
    ['out of bounds', score(-1), 'at score'],
    ['of another type in an optional field', score(7, { name: 'remark', value: 7 }), 'at remark'],
  ])('refuses a value %s, by its path (T28, W9)', async (_, args, path) => {
    const [call] = await read(typed, args);
    expect(call?.result?.error).toMatchObject({ code: 'invalid_arguments', message: expect.stringContaining(path) });
    expect(call?.result?.afterExecution).toBe('continue');
  });

  test('shows the model a type with each name (T28)', () => {
    const { parameters } = submitResultTool(typed);
    expect(parameters).toMatchObject({
      properties: {
        fields: {
          items: {
            anyOf: [
              { properties: { name: { enum: ['score'] }, value: { type: 'integer', minimum: 0 } } },
              { properties: { name: { enum: ['remark'] }, value: { type: 'string' } } },
              { properties: { name: { enum: ['rest'] }, value: { description: 'any JSON value' } } },
            ],
          },
        },
      },
    });
  });

  test('of an agent whose output has changed since is checked by what is pinned (T28, W4)', async () => {
    const output = z.object({ score: z.int().refine((value) => value % 2 === 0, 'must be even') });
    const agent = defineAgent({ name: 'tester', output });
    const app = defineApp({ agents: [agent] });
    const submitted = async (resultFields: ResultFields | null, value: number) => {
      const streamed = [streamedCall('submit_result', score(value), 'p0')];
      const [call] = (await readProposals(streamed, proposalContext({ app, resultFields }))).calls;
      return call?.result?.status;
    };
    const pinned = agent.profile.resultFields ?? null;
    expect(await submitted(pinned, 7)).toBe('failed');
    expect(await submitted(pinned, 8)).toBe('success');
    expect(await submitted(typed, 7)).toBe('success');
  });
});

describe('submit_result as it is offered', () => {
  test('lists the fields with what they are for, and takes no other names (T28)', () => {
    const { description, parameters } = submitResultTool(FIELDS);
    for (const line of ['title (required): one line', 'score (required)', 'remark (optional)']) {
      expect(description).toContain(line);
    }
    expect(JSON.stringify(parameters)).toContain('"enum":["title","score","remark"]');
  });

  test('takes any name where no fields were asked for', () => {
    for (const none of [null, { fields: [] }]) {
      expect(JSON.stringify(submitResultTool(none).parameters)).not.toContain('enum');
    }
  });
});
