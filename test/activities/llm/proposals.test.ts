import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { z } from 'zod';
import { defineTool } from '../../../activities/app/app.ts';
import { callId } from '../../../activities/ids.ts';
import { digestOf } from '../../../activities/llm/facts.ts';
import { type ProposalContext, readProposals } from '../../../activities/llm/proposals.ts';
import { testApp } from '../../support/app.ts';
import { streamedCall as call, proposalContext, readOne as readOneOf, TURN } from '../../support/proposed-calls.ts';

const add = defineTool({
  name: 'add',
  description: 'adds',
  parameters: z.object({ a: z.number(), b: z.number().default(10), label: z.string().optional() }),
  execute: ({ a, b }) => a + b,
});
const nested = defineTool({
  name: 'nested',
  description: 'deep',
  parameters: z.object({ order: z.object({ lines: z.array(z.object({ amount: z.number().max(5) })) }) }),
  execute: () => null,
});
const look = defineTool({
  name: 'look',
  description: 'changes nothing',
  parameters: z.object({}),
  sideEffects: 'none',
  execute: () => null,
});
const app = testApp([add, nested, look]);

type More = Parameters<typeof proposalContext>[0];

const context = (more: More = {}): ProposalContext =>
  proposalContext({ offered: new Set(['add', 'nested', 'look', 'submit_result']), app, ...more });

/** One call alone in its message. */
const readOne = (name: string, args: unknown, more: More = {}) => readOneOf(name, args, context(more));

describe('a call with good arguments', () => {
  test('is left for the runtime to run, its defaults filled in (W9)', async () => {
    const { call: read, proposed } = await readOne('add', { a: 1 });
    expect(read).toEqual({
      index: 0,
      content: { callId: callId(TURN, 3, 0), tool: 'add', arguments: { a: 1, b: 10 } },
      digest: digestOf({ b: 10, a: 1 }),
    });
    expect(proposed).toMatchObject({ name: 'add', arguments: '{"a":1}' });
  });

  test('counts an explicit value as given, also null (W8)', async () => {
    expect((await readOne('add', { a: 1, b: 2 })).call?.content.arguments).toEqual({ a: 1, b: 2 });
    expect((await readOne('add', { a: 1, b: null })).error).toMatchObject({ code: 'invalid_arguments' });
  });

  test('that a limit has cut short are not called wrong, but short; those before them are as they are (K11)', async () => {
    const calls = ['{"a": 1}', '{"a": [1, '].map((args) => ({ id: '', name: 'add', arguments: args }));
    const { calls: read } = await readProposals(calls, context({ truncated: 'provider' }));
    expect(read.map(({ result }) => result?.error?.code)).toEqual([undefined, 'arguments_truncated']);
    const { calls: whole } = await readProposals(calls, context());
    expect(whole.map(({ result }) => result?.error?.code)).toEqual([undefined, 'invalid_arguments']);
  });

  test('goes back on the wire as the model wrote it (W18)', async () => {
    expect((await readOne('add', '{ "a" : 1.0 }')).proposed?.arguments).toBe('{ "a" : 1.0 }');
  });

  test('may have no arguments at all where none is required; on the wire they are an empty object (W9, W15)', async () => {
    const ping = defineTool({ name: 'ping', description: '', parameters: z.object({}), execute: () => 'pong' });
    for (const empty of ['', '  ', '{}']) {
      const { call: read, proposed } = await readOne('ping', empty, {
        app: testApp([ping]),
        offered: new Set(['ping']),
      });
      expect(read?.result).toBeUndefined();
      expect(read?.content.arguments).toEqual({});
      expect(proposed?.arguments).toBe('{}');
    }
  });
});

describe('a call with bad arguments is a failed result written for the model', () => {
  test.each([
    ['broken JSON', '{"a": 1'],
    ['JSON with a tail', '{"a":1} and so on'],
    ['a list', '[1]'],
    ['a text', '"a"'],
    ['a number', '7'],
    ['null', 'null'],
  ])('%s is no object: it says what was expected and what came (W9, W15)', async (_, text) => {
    const { call: read, error, proposed } = await readOne('add', text);
    expect(error).toMatchObject({ code: 'invalid_arguments', kind: 'recoverable' });
    expect(error?.message).toContain('one JSON object');
    expect(error?.message).toContain(text);
    expect(read).toMatchObject({
      content: { arguments: {} },
      result: { status: 'failed', afterExecution: 'continue', tool: 'add', callId: callId(TURN, 3, 0) },
    });
    expect(proposed?.arguments).toBe('{}');
  });

  test.each([
    ['add', { a: 'one' }, 'at a'],
    ['add', {}, 'at a'],
    ['add', { a: 1, b: 'x' }, 'at b'],
    ['nested', { order: { lines: [{ amount: 1 }, { amount: 9 }] } }, 'at order.lines[1].amount'],
    ['nested', { order: {} }, 'at order.lines'],
  ])('%s(%j) names the path %s (W9)', async (name, args, path) => {
    const { error, proposed } = await readOne(name, args);
    expect(error).toMatchObject({ code: 'invalid_arguments', kind: 'recoverable' });
    expect(error?.message).toContain(path);
    // What can be parsed goes back unchanged: the model sees its own mistake.
    expect(proposed?.arguments).toBe(JSON.stringify(args));
  });

  test('a long text is quoted in part only (W9)', async () => {
    expect((await readOne('add', `"${'x'.repeat(100_000)}"`)).error?.message.length).toBeLessThan(500);
  });

  test('a schema that throws where it should refuse does not end the turn (W15)', async () => {
    const odd = defineTool({
      name: 'odd',
      description: '',
      parameters: z.object({
        when: z.string().refine((text) => {
          throw new TypeError(`cannot look at ${text}`);
        }),
      }),
      execute: () => null,
    });
    const { error } = await readOne('odd', { when: 'now' }, { app: testApp([odd]), offered: new Set(['odd']) });
    expect(error).toMatchObject({ code: 'invalid_arguments' });
  });
});

describe('a schema whose transforms yield what is not JSON', () => {
  test.each([
    ['a BigInt, which cannot be stored', z.string().transform((text) => BigInt(text))],
    ['a Date, which the tool would get as a text', z.string().transform((text) => new Date(Number(text)))],
    ['a Map, which would be stored empty', z.string().transform((text) => new Map([[text, 1]]))],
  ])('%s, is a failed result that says so: an error here asks the model again and again (W15)', async (_, id) => {
    const find = defineTool({ name: 'find', description: '', parameters: z.object({ id }), execute: () => null });
    const { error } = await readOne('find', { id: '7' }, { app: testApp([find]), offered: new Set(['find']) });
    expect(error?.message).toContain('JSON');
  });
});

describe('a call of a tool that is not offered', () => {
  test('that does not exist is unknown_tool and names what is offered (W9)', async () => {
    const { error } = await readOne('subtract', { a: 1 });
    expect(error).toMatchObject({ code: 'unknown_tool' });
    expect(error?.message).toContain('subtract');
    expect(error?.message).toMatch(/add, nested, look, submit_result$/);
  });

  test('that is written like an offered one names that one (W9)', async () => {
    const { error } = await readOne('submit_results', { fields: [] });
    expect(error?.message).toMatch(/; did you mean submit_result\?$/);
  });

  test('that exists but is not offered in this request is unknown_tool (W9, K8)', async () => {
    expect((await readOne('add', { a: 1 }, { offered: new Set(['submit_result']) })).error?.code).toBe('unknown_tool');
    const none = await readOne('submit_result', { fields: [] }, { offered: new Set() });
    expect(none.error).toMatchObject({ code: 'unknown_tool', message: expect.stringContaining('none') });
  });

  test('is refused also when only its name with odd characters resembles an offered one (W9)', async () => {
    const weather = defineTool({ name: 'get_w', description: '', parameters: z.object({}), execute: () => null });
    const offered = { app: testApp([weather]), offered: new Set(['get_w', 'submit_result']) };
    expect((await readOne('get w', {}, offered)).error?.code).toBe('unknown_tool');
    expect((await readOne('submit.result', { fields: [{ name: 'a', value: 1 }] }, offered)).error?.code).toBe(
      'unknown_tool',
    );
  });

  test('is an error of few words, however long its name is (W9)', async () => {
    const { message = '' } = (await readOne('n'.repeat(100_000), {})).error ?? {};
    expect(Buffer.byteLength(message)).toBeLessThan(9_000);
    expect(message).not.toBe('');
  });

  test.each(['', 'two words', 'ünï', 'x'.repeat(100), '{"a":1}'])(
    '%j gets a name the wire takes (W15)',
    async (name) => {
      expect((await readOne(name, {})).proposed?.name).toMatch(/^[a-zA-Z0-9_-]{1,64}$/);
    },
  );
});

describe('call ids', () => {
  async function ids(...given: readonly string[]): Promise<readonly string[]> {
    const streamed = given.map((id) => call('add', { a: 1 }, id));
    const { proposed } = await readProposals(streamed, context());
    return proposed.map((each) => each.providerCallId);
  }

  test('are our own, the same for the same turn, step and place (W15)', async () => {
    const streamed = [call('add', { a: 1 }, 'x'), call('add', { a: 2 }, 'y')];
    const { proposed, calls } = await readProposals(streamed, context());
    expect(proposed.map((each) => each.callId)).toEqual([callId(TURN, 3, 0), callId(TURN, 3, 1)]);
    expect(calls.map((each) => each.content.callId)).toEqual(proposed.map((each) => each.callId));
    expect(await readProposals(streamed, context())).toEqual({ proposed, calls });
    const next = await readProposals(streamed, context({ stepIndex: 4 }));
    expect(next.proposed[0]?.callId).not.toBe(proposed[0]?.callId);
  });

  test('of the provider are kept for the wire (W15)', async () => {
    expect(await ids('call_a', 'call_b')).toEqual(['call_a', 'call_b']);
  });

  test('of the provider that are missing or repeated are replaced by ours (W15)', async () => {
    expect(await ids('', 'call_b', 'call_b', '')).toEqual([
      callId(TURN, 3, 0),
      'call_b',
      callId(TURN, 3, 2),
      callId(TURN, 3, 3),
    ]);
  });
});

describe('whatever the model sends', () => {
  /** No arguments at all is a case of its own. */
  const notBlank = (text: string): boolean => text.trim() !== '';
  const streamed = fc.array(
    fc.record({
      id: fc.constantFrom('', 'a', 'b', 'c'),
      name: fc.oneof(fc.constantFrom('add', 'nested', 'submit_result', 'other'), fc.string()),
      arguments: fc.oneof(
        fc.string().filter(notBlank),
        fc.json(),
        fc.constantFrom('{"a":1}', '{"fields":[{"name":"x","value":1}]}', '{'),
      ),
    }),
    { maxLength: 5 },
  );

  test('each call is either valid or settled, and is well-formed on the wire (W9, W15)', async () => {
    await fc.assert(
      fc.asyncProperty(streamed, async (calls) => {
        const read = await readProposals(calls, context());
        expect(read.calls).toHaveLength(calls.length);
        const wireIds = read.proposed.map((each) => each.providerCallId);
        expect(new Set(wireIds).size).toBe(calls.length);
        for (const [index, { content, result }] of read.calls.entries()) {
          const { name, arguments: text } = read.proposed[index] ?? { name: '', arguments: '' };
          expect(name).toMatch(/^[a-zA-Z0-9_-]{1,64}$/);
          expect(JSON.parse(text)).toBeInstanceOf(Object);
          if (result) expect((result.status === 'success') === (result.error === undefined)).toBe(true);
          else expect(app.tools.get(content.tool)?.parse(content.arguments)).toEqual(content.arguments);
        }
      }),
      { numRuns: 1_000 },
    );
  });
});

describe('the first start of a call', () => {
  const claimed = async (name: string, args: unknown, more: More = {}) =>
    (await readOne(name, args, more)).call?.claimed;

  test('is claimed with its step where it may be repeated and no rule can forbid it (W10)', async () => {
    expect(await claimed('look', {})).toBe(true);
    expect(await claimed('add', { a: 1 })).toBeUndefined();
    expect(await claimed('look', {}, { profile: { governance: {} } })).toBeUndefined();
    expect(await claimed('look', 'not JSON')).toBeUndefined();
    expect(await claimed('submit_result', {})).toBeUndefined();
  });
});
