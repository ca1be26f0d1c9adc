import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { z } from 'zod';
import { defineTool } from '../../../activities/app/app.ts';
import { callId } from '../../../activities/ids.ts';
import { digestOf } from '../../../activities/llm/facts.ts';
import { type ProposalContext, readProposals } from '../../../activities/llm/proposals.ts';
import type { StreamedCall } from '../../../activities/llm/reply.ts';
import type { ToolResultContent } from '../../../workflows/protocol/cards.ts';
import { governanceSchema } from '../../../workflows/protocol/governance.ts';
import { testApp } from '../../support/app.ts';

const TURN = '0190f3a0-0000-7000-8000-000000000001';

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

const context = (more: Partial<ProposalContext> = {}): ProposalContext => ({
  agentTurnId: TURN,
  stepIndex: 3,
  offered: new Set(['add', 'nested', 'look', 'submit_result']),
  app,
  resultFields: null,
  ...more,
});

const call = (name: string, args: unknown, id = 'p1'): StreamedCall => ({
  id,
  name,
  arguments: typeof args === 'string' ? args : JSON.stringify(args),
});

/** One call alone in its message. */
function readOne(name: string, args: unknown, more: Partial<ProposalContext> = {}) {
  const { proposed, calls } = readProposals([call(name, args)], context(more));
  return { proposed: proposed[0], call: calls[0], error: calls[0]?.result?.error };
}

describe('a call with good arguments', () => {
  test('is left for the runtime to run, its defaults filled in (W9)', () => {
    const { call: read, proposed } = readOne('add', { a: 1 });
    expect(read).toEqual({
      index: 0,
      content: { callId: callId(TURN, 3, 0), tool: 'add', arguments: { a: 1, b: 10 } },
      digest: digestOf({ b: 10, a: 1 }),
    });
    expect(proposed).toMatchObject({ name: 'add', arguments: '{"a":1}' });
  });

  test('counts an explicit value as given, also null (W8)', () => {
    expect(readOne('add', { a: 1, b: 2 }).call?.content.arguments).toEqual({ a: 1, b: 2 });
    expect(readOne('add', { a: 1, b: null }).error).toMatchObject({ code: 'invalid_arguments' });
  });

  test('goes back on the wire as the model wrote it (W18)', () => {
    expect(readOne('add', '{ "a" : 1.0 }').proposed?.arguments).toBe('{ "a" : 1.0 }');
  });

  test('may have no arguments at all where none is required; on the wire they are an empty object (W9, W15)', () => {
    const ping = defineTool({ name: 'ping', description: '', parameters: z.object({}), execute: () => 'pong' });
    for (const empty of ['', '  ', '{}']) {
      const { call: read, proposed } = readOne('ping', empty, { app: testApp([ping]), offered: new Set(['ping']) });
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
  ])('%s is no object: it says what was expected and what came (W9, W15)', (_, text) => {
    const { call: read, error, proposed } = readOne('add', text);
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
  ])('%s(%j) names the path %s (W9)', (name, args, path) => {
    const { error, proposed } = readOne(name, args);
    expect(error).toMatchObject({ code: 'invalid_arguments', kind: 'recoverable' });
    expect(error?.message).toContain(path);
    // What can be parsed goes back unchanged: the model sees its own mistake.
    expect(proposed?.arguments).toBe(JSON.stringify(args));
  });

  test('a long text is quoted in part only (W9)', () => {
    expect(readOne('add', `"${'x'.repeat(100_000)}"`).error?.message.length).toBeLessThan(500);
  });

  test('a schema that throws where it should refuse does not end the turn (W15)', () => {
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
    const read = () => readOne('odd', { when: 'now' }, { app: testApp([odd]), offered: new Set(['odd']) });
    expect(read).not.toThrow();
    expect(read().error).toMatchObject({ code: 'invalid_arguments' });
  });
});

describe('a schema whose transforms yield what is not JSON', () => {
  test.each([
    ['a BigInt, which cannot be stored', z.string().transform((text) => BigInt(text))],
    ['a Date, which the tool would get as a text', z.string().transform((text) => new Date(Number(text)))],
    ['a Map, which would be stored empty', z.string().transform((text) => new Map([[text, 1]]))],
  ])('%s, is a failed result that says so: an error here asks the model again and again (W15)', (_, id) => {
    const find = defineTool({ name: 'find', description: '', parameters: z.object({ id }), execute: () => null });
    const { error } = readOne('find', { id: '7' }, { app: testApp([find]), offered: new Set(['find']) });
    expect(error?.message).toContain('JSON');
  });
});

describe('a call of a built-in tool is answered while it is proposed', () => {
  const offered = new Set(['skill', 'read_result', 'update_plan']);
  const skills = [{ name: 'debug', description: 'd', content: 'read the log first', allowedTools: null }];
  const stored: ToolResultContent = {
    callId: 'c7',
    tool: 'add',
    status: 'success',
    afterExecution: 'continue',
    result: '0123456789',
  };
  const results = new Map([['c7', stored]]);
  const answerOf = (name: string, args: object) => readOne(name, args, { offered, skills, results }).call;

  test('skill, by its instructions, and the kernel is told which one (K8)', () => {
    expect(answerOf('skill', { name: 'debug' })).toMatchObject({
      skill: 'debug',
      result: { status: 'success', result: { skill: 'debug', instructions: 'read the log first' } },
    });
  });

  test('skill that is not there, by an error that names those that are (K8)', () => {
    const answer = answerOf('skill', { name: 'cook' });
    expect(answer).toMatchObject({
      result: { status: 'failed', error: { message: expect.stringContaining('debug') } },
    });
    expect(answer).not.toHaveProperty('skill');
  });

  test.each([
    [{ call_id: 'c7' }, { text: '0123456789', offset: 0, total: 10, next_offset: null }],
    [
      { call_id: 'c7', offset: 2, limit: 3 },
      { text: '234', offset: 2, total: 10, next_offset: 5 },
    ],
    [
      { call_id: 'c7', offset: 99 },
      { text: '', offset: 99, total: 10, next_offset: null },
    ],
  ])('read_result %j, by that part (W11)', (args, result) => {
    expect(answerOf('read_result', args)).toMatchObject({ result: { status: 'success', result } });
  });

  test('read_result never parts the halves of a character, and reads on to the end (W11)', () => {
    const text = '😀ab😀😀c';
    const halves: ToolResultContent = {
      callId: 'c9',
      tool: 'add',
      status: 'success',
      afterExecution: 'continue',
      result: text,
    };
    for (const limit of [1, 2, 3, 4]) {
      const parts: string[] = [];
      for (let offset: unknown = 0; typeof offset === 'number' && parts.length < 20; ) {
        const context = { offered, skills, results: new Map([['c9', halves]]) };
        const answer = readOne('read_result', { call_id: 'c9', offset, limit }, context).call?.result?.result as {
          text: string;
          next_offset: number | null;
        };
        parts.push(answer.text);
        offset = answer.next_offset;
      }
      expect(parts.join('')).toBe(text);
      expect(parts.every((part) => part.isWellFormed())).toBe(true);
    }
    const inTheMiddle = readOne(
      'read_result',
      { call_id: 'c9', offset: 1, limit: 3 },
      { offered, skills, results: new Map([['c9', halves]]) },
    );
    expect(inTheMiddle.call?.result?.result).toMatchObject({ text: '😀a', offset: 0, next_offset: 3 });
  });

  test.each([
    ['skill', { name: 'x'.repeat(100_000) }],
    ['read_result', { call_id: '🧬'.repeat(50_000) }],
    ['nobody', {}],
  ])('%s, asked for what has a very long name, says so in few words (W11, K8)', (name, args) => {
    const asked = name === 'nobody' ? 'n'.repeat(100_000) : name;
    const { message = '' } = readOne(asked, args, { offered, skills, results }).error ?? {};
    expect(message.isWellFormed()).toBe(true);
    expect(Buffer.byteLength(message)).toBeLessThan(9_000);
    expect(message).not.toBe('');
  });

  test('read_result of a call that nobody made, by an error (W11)', () => {
    const answer = answerOf('read_result', { call_id: 'c8' });
    expect(answer).toMatchObject({ result: { status: 'failed', error: { code: 'invalid_arguments' } } });
  });

  test('update_plan, as accepted (K14)', () => {
    expect(answerOf('update_plan', { plan: [{ label: 'look' }] })).toMatchObject({
      content: { arguments: { plan: [{ label: 'look', done: false }] } },
      result: { status: 'success', result: { accepted: true } },
    });
  });
});

describe('a call of a tool that is not offered', () => {
  test('that does not exist is unknown_tool and names what is offered (W9)', () => {
    const { error } = readOne('subtract', { a: 1 });
    expect(error).toMatchObject({ code: 'unknown_tool' });
    expect(error?.message).toContain('subtract');
    expect(error?.message).toContain('add, nested, look, submit_result');
  });

  test('that exists but is not offered in this request is unknown_tool (W9, K8)', () => {
    expect(readOne('add', { a: 1 }, { offered: new Set(['submit_result']) }).error?.code).toBe('unknown_tool');
    const none = readOne('submit_result', { fields: [] }, { offered: new Set() });
    expect(none.error).toMatchObject({ code: 'unknown_tool', message: expect.stringContaining('none') });
  });

  test('is refused also when only its name with odd characters resembles an offered one (W9)', () => {
    const weather = defineTool({ name: 'get_w', description: '', parameters: z.object({}), execute: () => null });
    const offered = { app: testApp([weather]), offered: new Set(['get_w', 'submit_result']) };
    expect(readOne('get w', {}, offered).error?.code).toBe('unknown_tool');
    expect(readOne('submit.result', { fields: [{ name: 'a', value: 1 }] }, offered).error?.code).toBe('unknown_tool');
  });

  test.each(['', 'two words', 'ünï', 'x'.repeat(100), '{"a":1}'])('%j gets a name the wire takes (W15)', (name) => {
    expect(readOne(name, {}).proposed?.name).toMatch(/^[a-zA-Z0-9_-]{1,64}$/);
  });
});

describe('call ids', () => {
  const ids = (...given: readonly string[]) =>
    readProposals(
      given.map((id) => call('add', { a: 1 }, id)),
      context(),
    ).proposed.map((each) => each.providerCallId);

  test('are our own, the same for the same turn, step and place (W15)', () => {
    const streamed = [call('add', { a: 1 }, 'x'), call('add', { a: 2 }, 'y')];
    const { proposed, calls } = readProposals(streamed, context());
    expect(proposed.map((each) => each.callId)).toEqual([callId(TURN, 3, 0), callId(TURN, 3, 1)]);
    expect(calls.map((each) => each.content.callId)).toEqual(proposed.map((each) => each.callId));
    expect(readProposals(streamed, context())).toEqual({ proposed, calls });
    expect(readProposals(streamed, context({ stepIndex: 4 })).proposed[0]?.callId).not.toBe(proposed[0]?.callId);
  });

  test('of the provider are kept for the wire (W15)', () => {
    expect(ids('call_a', 'call_b')).toEqual(['call_a', 'call_b']);
  });

  test('of the provider that are missing or repeated are replaced by ours (W15)', () => {
    expect(ids('', 'call_b', 'call_b', '')).toEqual([
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

  test('each call is either valid or settled, and is well-formed on the wire (W9, W15)', () => {
    fc.assert(
      fc.property(streamed, (calls) => {
        const read = readProposals(calls, context());
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
  const claimed = (name: string, args: unknown, more: Partial<ProposalContext> = {}) =>
    readProposals([call(name, args)], context(more)).calls[0]?.claimed;

  test('is claimed with its step where it may be repeated and no rule can forbid it (W10)', () => {
    expect(claimed('look', {})).toBe(true);
    expect(claimed('add', { a: 1 })).toBeUndefined();
    expect(claimed('look', {}, { governance: governanceSchema.parse({}) })).toBeUndefined();
    expect(claimed('look', 'not JSON')).toBeUndefined();
    expect(claimed('submit_result', {})).toBeUndefined();
  });
});
