import { describe, expect, test } from '@jest/globals';
import { z } from 'zod';
import { defineAgent, defineApp, defineTool } from '../../../activities/app/app.ts';
import type { Tool } from '../../../activities/tool.ts';
import { OPTIONAL_BUILTINS } from '../../../activities/tools/builtin/registry.ts';
import { CodedError } from '../../../workflows/protocol/failures.ts';

/** The message of the `invalid_config` that a definition throws; anything else fails the test. */
function complaint(define: () => unknown): string {
  try {
    define();
  } catch (error) {
    if (error instanceof CodedError && error.code === 'invalid_config') return error.message;
    throw error;
  }
  throw new Error('expected invalid_config, and the definition was accepted');
}

const parameters = z.object({ city: z.string().describe('where'), days: z.number().int().default(1) });
const tool = (more: Partial<Parameters<typeof defineTool<typeof parameters>>[0]> = {}): Tool =>
  defineTool({ name: 'forecast', description: 'tells the weather', parameters, execute: () => 'sun', ...more });
const named = (name: string): Tool => tool({ name });

describe('a tool', () => {
  test('is a spec with a JSON Schema of what the model may send, and safe defaults (W6, W10)', () => {
    expect(tool().spec).toEqual({
      name: 'forecast',
      description: 'tells the weather',
      parameters: {
        type: 'object',
        properties: {
          city: { type: 'string', description: 'where' },
          days: expect.objectContaining({ type: 'integer', default: 1 }),
        },
        required: ['city'],
      },
      afterExecution: 'continue',
      timeoutMs: 60_000,
      sideEffects: 'unsafe',
    });
  });

  test('keeps what it says about times and effects (W6)', () => {
    const more = { afterExecution: 'suspend', timeoutMs: 5, suspendTimeoutMs: 6, sideEffects: 'none' } as const;
    expect(tool(more).spec).toMatchObject(more);
  });

  test('says when it is executed again, with the pauses filled in; one that is unsafe may not (W6, W10)', () => {
    const retry = { attempts: 3 };
    expect(tool({ retry, sideEffects: 'none' }).spec.retry).toEqual({ attempts: 3, initialMs: 1_000, maxMs: 30_000 });
    expect(tool().spec).not.toHaveProperty('retry');
    for (const more of [{ retry }, { retry, sideEffects: 'unsafe' as const }])
      expect(complaint(() => tool(more))).toContain('tool forecast: retry would run it twice');
    const endless = { retry: { attempts: 0 }, sideEffects: 'none' as const };
    expect(complaint(() => tool(endless))).toContain('at retry.attempts');
  });

  test.each([
    ['a transform', z.string().transform(Number), true],
    ['a pipe to another type', z.string().transform(Number).pipe(z.number()), true],
    ['a codec', z.stringbool(), true],
    ['a default', z.number().default(1), false],
    ['a limit', z.string().trim().max(3), false],
  ])('says whether its schema makes other values of those it is given: with %s (K7)', (_, field, transforms) => {
    const { spec } = defineTool({ name: 't', description: '', parameters: z.object({ field }), execute: () => null });
    expect(spec.transforms ?? false).toBe(transforms);
  });

  test('parses arguments by its schema and throws what is wrong with them (W9)', () => {
    expect(tool().parse({ city: 'Rome' })).toEqual({ city: 'Rome', days: 1 });
    expect(() => tool().parse({ city: 7 })).toThrow(z.ZodError);
  });

  test.each([
    ['name', { name: 'two words' }],
    ['name', { name: '' }],
    ['name', { name: 'x'.repeat(65) }],
    ['timeoutMs', { timeoutMs: 0 }],
    ['timeoutMs', { timeoutMs: 1.5 }],
    ['suspendTimeoutMs', { suspendTimeoutMs: -1 }],
    ['afterExecution', { afterExecution: 'explode' as never }],
    ['sideEffects', { sideEffects: 'some' as never }],
    ['description', { description: undefined as never }],
  ])('with a bad %s is invalid_config with that path and the name of the tool (W6)', (path, more) => {
    const message = complaint(() => tool(more));
    expect(message).toContain(`at ${path}`);
    expect(message).toContain(`tool ${'name' in more ? more.name : 'forecast'}`);
  });

  test('whose definition is wrong is told with the line that defines it', () => {
    expect(complaint(() => tool({ timeoutMs: 0 }))).toMatch(/\(defined at .*app\.test\.ts:\d+\)$/);
    const { stackTraceLimit } = Error;
    Error.stackTraceLimit = 0;
    try {
      expect(complaint(() => tool({ timeoutMs: 0 }))).not.toContain('defined at');
    } finally {
      Error.stackTraceLimit = stackTraceLimit;
    }
  });

  test('may not take the name of a built-in (W12)', () => {
    expect(complaint(() => tool({ name: 'submit_result' }))).toContain('submit_result');
  });

  test('needs a function, unless it suspends', () => {
    const without = { name: 'ask', description: '', parameters };
    expect(complaint(() => defineTool(without))).toContain('tool ask has no execute');
    expect(complaint(() => defineTool({ ...without, afterExecution: 'terminate' }))).toContain('execute');
    expect(defineTool({ ...without, afterExecution: 'suspend' }).spec.afterExecution).toBe('suspend');
  });

  test('whose parameters have no JSON Schema is invalid_config that says so (W7)', () => {
    const odd = z.object({ when: z.date() });
    const message = complaint(() => defineTool({ name: 'odd', description: '', parameters: odd, execute: () => null }));
    expect(message).toMatch(/tool odd: its parameters cannot be used: Date/);
  });

  test('takes a union of objects, and parses by it (W6, W9)', () => {
    const schema = z.discriminatedUnion('by', [
      z.object({ by: z.literal('city'), city: z.string() }),
      z.object({ by: z.literal('id'), id: z.number() }),
    ]);
    const find = defineTool({ name: 'find', description: '', parameters: schema, execute: (args) => args.by });
    expect(find.spec.parameters).toMatchObject({ type: 'object', required: ['by'] });
    expect(find.parse({ by: 'id', id: 7, city: 'Rome' })).toEqual({ by: 'id', id: 7 });
    expect(() => find.parse({ by: 'id', city: 'Rome' })).toThrow(z.ZodError);
  });

  test('whose schema is one of zod 3 is invalid_config that says what to do (W6)', () => {
    const old = { _def: {}, safeParse: () => null } as never;
    expect(complaint(() => tool({ parameters: old }))).toMatch(/tool forecast.*expected a schema of zod 4.*zod 3/);
  });
});

describe('an agent', () => {
  test.each([
    ['name', { name: 'no spaces' }],
    ['budgets.maxSteps', { budgets: { maxSteps: -1 } }],
    ['model.temperature', { model: { temperature: 9 } }],
    ['model.fallback.name', { model: { fallback: { name: '' } } }],
    ['allowedTools[0]', { allowedTools: ['a b'] }],
    ['resultFields.fields[0].name', { resultFields: { fields: [{ name: '' }] } }],
  ])('with a bad %s is invalid_config with that path and its name', (path, more) => {
    const message = complaint(() => defineAgent({ name: 'helper', ...more }));
    expect(message).toContain(`at ${path}`);
    expect(message).toContain(`agent ${'name' in more ? more.name : 'helper'}`);
  });

  test.each(['clock', 'submit_result', 'forecast'])(
    'that wants a built-in tool nobody can ask for, %s, is invalid_config that names it and those there are (W12)',
    (name) => {
      const message = complaint(() => defineAgent({ name: 'helper', builtins: [name] }));
      expect(message).toMatch(new RegExp(`agent helper: builtins names ${name}; .*: ${OPTIONAL_BUILTINS.join(', ')}`));
    },
  );

  test('that misspells a member, at whatever depth, is told what was most likely meant', () => {
    const misspelt = { name: 'helper', instruction: 'Be brief.', timeouts: { hartbeatMs: 5_000 } };
    const message = complaint(() => defineAgent(misspelt as never));
    expect(message).toContain('→ did you mean instructions?');
    expect(message).toContain('→ did you mean timeouts.heartbeatMs?');
    const rules = [{ tool: 'pay', action: 'ask', reson: 'money' }];
    expect(complaint(() => defineAgent({ name: 'helper', governance: { rules } } as never))).toContain(
      'did you mean governance.rules.0.reason?',
    );
  });

  test('with an output has its members as result fields, with their types (T28)', () => {
    const output = z.object({
      title: z.string().max(80).describe('one line'),
      tags: z.array(z.string()).default([]),
      note: z.string().optional(),
    });
    const { profile } = defineAgent({ name: 'helper', output });
    expect(profile.resultFields).toEqual({
      fields: [
        { name: 'title', description: 'one line', required: true, schema: { type: 'string', maxLength: 80 } },
        {
          name: 'tags',
          description: '',
          required: false,
          schema: { type: 'array', items: { type: 'string' }, default: [] },
        },
        { name: 'note', description: '', required: false, schema: { type: 'string' } },
      ],
    });
    expect(defineApp({ agents: [defineAgent({ name: 'helper', output })] }).outputs.get('helper')).toBe(output);
  });

  test('with an output that refers to a part of itself shows that field without its type (T28)', () => {
    const tree = z.object({
      get children() {
        return z.array(tree);
      },
    });
    const { profile } = defineAgent({ name: 'helper', output: tree });
    expect(profile.resultFields?.fields).toEqual([{ name: 'children', description: '', required: true }]);
  });

  test.each([
    ['is none', { output: {} as never }, /agent helper: its output cannot be used: expected a schema of zod 4/],
    ['has no JSON Schema', { output: z.object({ at: z.date() }) }, /its output cannot be used: Date/],
    ['transforms', { output: z.object({ n: z.string().transform(Number) }) }, /its output transforms values/],
    ['comes with resultFields', { output: z.object({}), resultFields: { fields: [] } }, /both output and resultFields/],
  ])('whose output %s is invalid_config (T28)', (_, more, message) => {
    expect(complaint(() => defineAgent({ name: 'helper', ...more }))).toMatch(message);
  });

  test('whose result fields have a schema that nothing can be checked by is invalid_config (T28)', () => {
    const resultFields = { fields: [{ name: 'a', schema: { type: 'nonsense' } }] };
    const message = complaint(() => defineAgent({ name: 'helper', resultFields }));
    expect(message).toContain('at resultFields.fields[0].schema');
  });

  test('with a field nobody knows is invalid_config that names it', () => {
    expect(complaint(() => defineAgent({ name: 'helper', instruction: 'x' } as never))).toContain('instruction');
  });
});

describe('an app', () => {
  const snapshotOf = (profile: Parameters<typeof defineAgent>[0], tools: readonly Tool[]) => {
    const snapshot = defineApp({ agents: [defineAgent(profile)], tools }).agents.get(profile.name);
    if (!snapshot) throw new Error('the agent is missing');
    return { ...snapshot, names: snapshot.tools.map((spec) => spec.name) };
  };

  test('with one name twice is invalid_config that names it', () => {
    const agents = [defineAgent({ name: 'helper' })];
    expect(complaint(() => defineApp({ agents, tools: [named('a'), named('b'), named('a')] }))).toMatch(/two tools.*a/);
    expect(complaint(() => defineApp({ agents: [...agents, ...agents] }))).toMatch(
      /two agents are named helper; names must be unique \(defined at .*app\.test\.ts:\d+ and .*app\.test\.ts:\d+\)$/,
    );
  });

  test('offers an agent all tools, or those it is allowed in its own order (W7)', () => {
    const tools = [named('a'), named('b'), named('c')];
    expect(snapshotOf({ name: 'helper' }, tools).names).toEqual(['a', 'b', 'c']);
    expect(snapshotOf({ name: 'helper', allowedTools: ['c', 'a'] }, tools).names).toEqual(['c', 'a']);
    expect(snapshotOf({ name: 'helper', allowedTools: [] }, tools).names).toEqual([]);
  });

  const rule = (tool: string) => ({ tool, action: 'ask' as const });
  const skill = (name: string) => ({ name: 'packing', description: 'd', content: 'c', allowedTools: [name] });
  test.each<[string, Partial<Parameters<typeof defineAgent>[0]>]>([
    ['allowedTools', { allowedTools: ['forecast', 'forcast'] }],
    ['governance.rules[1]', { governance: { rules: [rule('forecast'), rule('forcast')] } }],
    ['governance.constraints[0]', { governance: { constraints: [{ tool: 'forcast', path: 'n', max: 1 }] } }],
    ['governance.rateLimits[0]', { governance: { rateLimits: [{ tool: 'forcast', max: 1, windowMs: 1_000 }] } }],
    ['governance.veto', { governance: { veto: ['forcast'] } }],
    ['skill packing', { skills: [skill('forcast')] }],
    ['stableCore', { stableCore: ['forcast'] }],
    ['capabilities.ids', { capabilities: { ids: ['forcast'] } }],
    ['mustEndWith', { mustEndWith: ['forcast'] }],
  ])(
    'in which %s names a tool that is not there is invalid_config, with the name that was meant (W7)',
    (field, profile) => {
      const message = complaint(() => snapshotOf({ name: 'helper', ...profile }, [named('forecast'), named('book')]));
      expect(message).toContain('agent helper: ');
      expect(message).toContain(`${field} names forcast, which is no tool of the app; did you mean forecast?`);
      expect(message).toMatch(/\(defined at .*app\.test\.ts:\d+\)$/);
    },
  );

  test('in which several names are wrong names them all, and guesses only where one is written like it (W7)', () => {
    const profile = { name: 'helper', allowedTools: ['mail', 'Book'], stableCore: ['ask_exprt'] };
    const message = complaint(() => snapshotOf(profile, [named('forecast'), named('book')]));
    expect(message).toMatch(
      /names mail, which is no tool of the app\n.*did you mean book\?\n.*did you mean ask_expert\?/,
    );
  });

  test('takes patterns that match nothing yet, and names of built-in tools (W7)', () => {
    const governance = { rules: [rule('mcp_*'), rule('submit_result')], veto: ['delete_*'] };
    expect(snapshotOf({ name: 'helper', governance, allowedTools: ['a', 'now'] }, [named('a')])).toMatchObject({
      names: ['a'],
      warnings: [],
    });
  });

  test('refuses a built-in tool other than submit_result as an ending (W13)', () => {
    const message = complaint(() => snapshotOf({ name: 'helper', mustEndWith: ['now'] }, []));
    expect(message).toContain('mustEndWith names now');
  });

  test('warns of a tool that is there and the profile keeps away (W7, W13)', () => {
    const tools = [named('a'), named('publish')];
    const ending = { name: 'helper', mustEndWith: ['publish', 'submit_result'] };
    expect(snapshotOf(ending, tools).warnings).toEqual([]);
    const hidden = snapshotOf({ ...ending, allowedTools: ['a'], stableCore: ['publish'] }, tools);
    expect(hidden.warnings).toEqual([
      expect.stringContaining('mustEndWith names publish'),
      expect.stringContaining('stableCore names publish'),
    ]);
    const barred = snapshotOf({ ...ending, capabilities: { ids: ['a'] } }, tools);
    expect(barred.warnings).toEqual([expect.stringContaining('publish')]);
  });

  test('offers a tool once, however often it is allowed: a provider refuses doubled names (W7)', () => {
    expect(snapshotOf({ name: 'helper', allowedTools: ['a', 'a'] }, [named('a')]).names).toEqual(['a']);
  });

  test('takes prices by model, and refuses a bad one by its path (W17)', () => {
    const agents = [defineAgent({ name: 'helper' })];
    const price = { input: 1, output: 2 };
    expect(defineApp({ agents, models: { small: price } }).prices.get('small')).toEqual(price);
    const message = complaint(() => defineApp({ agents, models: { small: { input: -1, output: 2 } } }));
    expect(message).toContain('price of model small');
    expect(message).toContain('at input');
  });
});

describe('the path of a rule', () => {
  const order = z.object({
    kind: z.enum(['refund', 'sale']),
    lines: z.array(z.object({ price: z.number() })),
    more: z.record(z.string(), z.string()),
  });
  const settle = defineTool({
    name: 'settle',
    description: 'settles',
    parameters: z.object({ order }),
    execute: () => 1,
  });
  const ruled = (path: string, name = 'settle') =>
    defineApp({
      agents: [
        defineAgent({
          name: 'clerk',
          governance: {
            rules: [{ tool: name, action: 'ask', when: { path, oneOf: ['refund'] } }],
            constraints: [{ tool: name, path, required: true }],
          },
        }),
      ],
      tools: [settle],
    });

  test.each([
    ['order.knd', 'have no knd; did you mean kind?'],
    ['ordr.kind', 'have no ordr; did you mean order?'],
    ['order.lines.0.prize', 'have no prize; did you mean price?'],
  ])('%s that no argument has is refused: the rule would never hold, and the call would run (K5)', (path, expected) => {
    const message = complaint(() => ruled(path));
    expect(message).toContain(`governance.rules[0].when has the path ${path}, and the arguments of settle ${expected}`);
    expect(message).toContain(`governance.constraints[0] has the path ${path}`);
  });

  test.each([['order.kind'], ['order.lines.0.price'], ['order.lines'], ['order.more.anything']])(
    '%s that leads to an argument, or to what is left open, is taken',
    (path) => {
      expect(ruled(path).agents.has('clerk')).toBe(true);
    },
  );

  test('of a pattern, and of a tool whose schema transforms, is left to those who wrote it', () => {
    expect(ruled('anything', 'se*').agents.has('clerk')).toBe(true);
    const shaped = defineTool({
      name: 'settle',
      description: 'settles',
      parameters: z.object({ a: z.string() }).transform(({ a }) => ({ b: a })),
      execute: () => 1,
    });
    const rules = [{ tool: 'settle', action: 'ask' as const, when: { path: 'b', oneOf: ['x'] } }];
    const agents = [defineAgent({ name: 'clerk', governance: { rules } })];
    expect(defineApp({ agents, tools: [shaped] }).agents.has('clerk')).toBe(true);
  });
});
