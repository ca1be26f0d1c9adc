import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import {
  type ArgumentFacts,
  factsAt,
  judge,
  matches,
  NO_FACTS,
  pathsOf,
  type RateWindows,
  takeSlot,
} from '../../../workflows/kernel/governance.ts';
import type { JsonObject, JsonValue } from '../../../workflows/protocol/json.ts';
import { SIZES } from '../../../workflows/protocol/sizes.ts';
import { governance, NOW } from './turn.ts';

type Input = Parameters<typeof governance>[0];
type Check = Omit<NonNullable<Input['constraints']>[number], 'tool' | 'path'>;

const facts = (values: Readonly<Record<string, JsonValue>>, oversized: readonly string[] = []): ArgumentFacts => ({
  values,
  oversized,
});

const verdict = (policy: Input, tool = 'pay', about: ArgumentFacts = NO_FACTS, windows: RateWindows = {}) =>
  judge(governance(policy), windows, tool, about, NOW).verdict;

const decision = (policy: Input, about?: ArgumentFacts): string => verdict(policy, 'pay', about).decision;

describe('a pattern', () => {
  test.each([
    ['*', 'anything', true],
    ['read*', 'read', true],
    ['read*', 'read_file', true],
    ['read*', 'file_read', false],
    ['*_file', 'read_file', true],
    ['*_file', 'read_files', false],
    ['pay', 'pay', true],
    ['pay', 'payment', false],
    ['pay', 'repay', false],
  ])('%s against %s: %s (K5)', (pattern, tool, expected) => {
    expect(matches(pattern, tool)).toBe(expected);
  });
});

describe('permission', () => {
  test.each(['allow', 'deny', 'ask'] as const)('without a rule is the default, here %s (K5)', (by) => {
    expect(decision({ default: by })).toBe(by);
  });

  test('is given where the policy says nothing (K5)', () => {
    expect(verdict({})).toEqual({ decision: 'allow' });
  });

  test('is by the first rule that applies, with its reason (K5)', () => {
    const rules: Input['rules'] = [
      { tool: 'pay', action: 'ask', reason: 'money leaves' },
      { tool: 'p*', action: 'deny' },
    ];
    expect(verdict({ rules })).toEqual({ decision: 'ask', stage: 'permission', reason: 'money leaves' });
    expect(verdict({ rules }, 'pray')).toMatchObject({ decision: 'deny', reason: expect.stringContaining('p*') });
    expect(verdict({ rules }, 'work')).toEqual({ decision: 'allow' });
  });

  const small = { path: 'amount', max: 10 };
  const oneOf = { path: 'currency', oneOf: ['EUR', null, 3] };
  test.each([
    ['a number within', small, { amount: 10 }, true],
    ['a number outside', small, { amount: 10.5 }, false],
    ['a number below the least', { path: 'amount', min: 5 }, { amount: 4 }, false],
    ['no value but null', small, { amount: null }, false],
    ['no value', small, {}, false],
    ['one of the values', oneOf, { currency: 'EUR' }, true],
    ['null, where it is one of them', oneOf, { currency: null }, true],
    ['none of the values', oneOf, { currency: 'USD' }, false],
    ['no value where null is one', oneOf, {}, false],
  ])('of a rule with a condition, %s: it applies or does not (K5)', (_, when, values, applies) => {
    const rules: Input['rules'] = [{ tool: 'pay', action: 'deny', when }];
    expect(decision({ rules }, facts(values))).toBe(applies ? 'deny' : 'allow');
  });
});

describe('a condition that cannot be judged', () => {
  const small = { path: 'amount', max: 10 };
  const euro = { path: 'amount', oneOf: ['EUR', null] };
  const values: readonly JsonValue[] = [true, [], {}, ['EUR'], { EUR: 1 }];

  test.each(['ask', 'deny'] as const)('of a rule that says %s denies (K5)', (action) => {
    for (const when of [small, euro])
      for (const amount of [...values, when === small ? '100' : 100])
        expect(verdict({ rules: [{ tool: 'pay', action, when }] }, 'pay', facts({ amount }))).toMatchObject({
          decision: 'deny',
          stage: 'permission',
          reason: expect.stringMatching(/^argument amount (must be a number, and|is) /),
        });
  });

  test('allows nothing: the next rule decides (K5)', () => {
    const rules = [small, euro].map((when) => ({ tool: 'pay', action: 'allow' as const, when }));
    for (const amount of values) expect(decision({ rules, default: 'ask' }, facts({ amount }))).toBe('ask');
  });
});

describe('a constraint', () => {
  test.each([
    [{ max: 10 }, 'argument x must be at most 10'],
    [{ min: 20 }, 'argument x must be at least 20'],
    [{ min: 1, max: 10 }, 'argument x must be from 1 to 10'],
  ])('%j says which numbers it takes', (range, reason) => {
    const constraints = [{ tool: 'pay', path: 'x', ...range }];
    expect(verdict({ constraints }, 'pay', facts({ x: 11 }))).toMatchObject({ decision: 'deny', reason });
  });

  const denies = (constraint: object, values: Readonly<Record<string, JsonValue>>): boolean =>
    decision({ constraints: [{ tool: 'pay', path: 'x', ...constraint }] }, facts(values)) === 'deny';

  test.each<[string, object, Readonly<Record<string, JsonValue>>, boolean]>([
    ['required and absent', { required: true }, {}, true],
    ['required and null', { required: true }, { x: null }, true],
    ['required and there', { required: true }, { x: false }, false],
    ['one of and another', { oneOf: ['a', 'b'] }, { x: 'c' }, true],
    ['one of and the same', { oneOf: ['a', 'b'] }, { x: 'b' }, false],
    ['one of and absent', { oneOf: ['a'] }, {}, false],
    ['one of and an object', { oneOf: ['a'] }, { x: { y: 1 } }, true],
    ['one of and a list of one', { oneOf: ['a'] }, { x: ['a'] }, true],
    ['one of and the number in a text', { oneOf: [1] }, { x: '1' }, true],
    ['one of and null', { oneOf: ['a'] }, { x: null }, false],
    ['a range and a list', { max: 10 }, { x: [1] }, true],
    ['a range and an object', { max: 10 }, { x: {} }, true],
    ['a range and a boolean', { max: 10 }, { x: true }, true],
    ['a range and null', { max: 10 }, { x: null }, false],
    ['a length and a list', { maxLength: 3 }, { x: [] }, true],
    ['a range and its edge', { min: 0, max: 10 }, { x: 10 }, false],
    ['a range and its lower edge', { min: 0, max: 10 }, { x: 0 }, false],
    ['a range and a number outside', { min: 0, max: 10 }, { x: 100 }, true],
    ['a range and one below', { min: 0 }, { x: -1 }, true],
    ['a range and a text', { max: 10 }, { x: '100' }, true],
    ['a length and a text as long', { maxLength: 3 }, { x: 'abc' }, false],
    ['a length and a longer text', { maxLength: 3 }, { x: 'abcd' }, true],
    ['a length and a number', { maxLength: 3 }, { x: 12_345 }, true],
  ])('%s (K5)', (_, constraint, values, denied) => {
    expect(denies(constraint, values)).toBe(denied);
  });

  /** The judgement in plain code: what the documentation says of each check. */
  const keeps = (check: Check, value: JsonValue | undefined): boolean => {
    if (value === undefined || value === null) return check.required !== true;
    const { oneOf, min = -Infinity, max = Infinity, maxLength } = check;
    const ranged = check.min !== undefined || check.max !== undefined;
    return (
      (oneOf === undefined || oneOf.some((one) => one === value)) &&
      (!ranged || (typeof value === 'number' && value >= min && value <= max)) &&
      (maxLength === undefined || (typeof value === 'string' && value.length <= maxLength))
    );
  };

  test('lets through what keeps it and nothing else, whatever type it has (K5)', () => {
    const scalars = fc.constantFrom('a', 'ab', '5', 5, -1, 0, 7, true, false, null);
    const value = fc.option(fc.oneof(scalars, fc.array(scalars), fc.dictionary(fc.string(), scalars)), {
      nil: undefined,
    });
    const check = fc.record(
      {
        required: fc.constant(true as const),
        oneOf: fc.array(scalars, { minLength: 1 }),
        min: fc.integer({ min: -2, max: 6 }),
        max: fc.integer({ min: -2, max: 6 }),
        maxLength: fc.nat(2),
      },
      { requiredKeys: [], noNullPrototype: true },
    );
    fc.assert(
      fc.property(check, value, fc.constantFrom('x', 'x.y', '__proto__', 'constructor.name'), (checks, at, path) => {
        fc.pre(Object.keys(checks).length > 0);
        const policy = governance({ constraints: [{ tool: 'pay', path, ...checks }] });
        const args = path.split('.').reduceRight<unknown>((inner, key) => Object.fromEntries([[key, inner]]), at);
        // Arguments come as JSON, in which nothing is undefined.
        const written = JSON.parse(JSON.stringify(args)) as JsonObject;
        const sent = JSON.parse(JSON.stringify(factsAt(policy, 'pay', written))) as ArgumentFacts;
        fc.pre(sent.oversized.length === 0);
        const allowed = judge(policy, {}, 'pay', sent, NOW).verdict.decision === 'allow';
        expect(allowed).toBe(keeps(checks, at));
      }),
    );
  });

  test.each<[string, JsonObject, boolean]>([
    ['is not there', {}, false],
    ['is null', { to: null }, false],
    ['is an object without it', { to: {} }, false],
    ['is a text', { to: '{"amount":1}' }, true],
    ['is a number', { to: 1 }, true],
    ['is a list', { to: [{ amount: 1 }] }, true],
  ])('on a part of what %s: a value that cannot be found denies (K5)', (_, args, denied) => {
    const policy = governance({ constraints: [{ tool: 'pay', path: 'to.amount', max: 10 }] });
    expect(judge(policy, {}, 'pay', factsAt(policy, 'pay', args), NOW).verdict.decision).toBe(
      denied ? 'deny' : 'allow',
    );
    const rules = governance({ rules: [{ tool: 'pay', action: 'ask', when: { path: 'to.amount', min: 10 } }] });
    expect(judge(rules, {}, 'pay', factsAt(rules, 'pay', args), NOW).verdict.decision).toBe(denied ? 'deny' : 'allow');
  });

  test('that is broken is named, the first of several, and only for its tools (K5)', () => {
    const constraints: Input['constraints'] = [
      { tool: 'pay', path: 'to', required: true },
      { tool: '*', path: 'amount', max: 1 },
    ];
    const stage = 'constraint';
    expect(verdict({ constraints }, 'pay', facts({ amount: 2 }))).toMatchObject({
      stage,
      reason: 'argument to is required',
    });
    expect(verdict({ constraints }, 'refund', facts({ amount: 2 }))).toMatchObject({
      stage,
      reason: expect.stringContaining('argument amount'),
    });
    expect(verdict({ constraints }, 'refund', facts({ amount: 1 }))).toEqual({ decision: 'allow' });
  });
});

describe('names that every object knows', () => {
  const names = ['toString', 'constructor', '__proto__', 'hasOwnProperty'];
  const throughJson = <T>(value: T): T => JSON.parse(JSON.stringify(value)) as T;

  test.each(names)('a tool named %s has a rate limit of its own, also after a snapshot (K5, K22)', (tool) => {
    const policy = governance({ rateLimits: [{ tool: '*', max: 2, windowMs: 1_000 }] });
    let windows: RateWindows = {};
    for (const expected of ['allow', 'allow', 'rate_limited']) {
      const judged = judge(policy, throughJson(windows), tool, NO_FACTS, NOW);
      expect(judged.verdict.decision).toBe(expected);
      windows = judged.windows;
    }
    expect(Object.entries(windows)).toEqual([[tool, [NOW, NOW]]]);
    expect(judge(policy, windows, 'other', NO_FACTS, NOW).verdict.decision).toBe('allow');
  });

  test.each(names)('a path named %s finds what was sent there, and nothing else (K4)', (path) => {
    const policy = governance({ constraints: [{ tool: 'pay', path, required: true, max: 10 }] });
    const at = (text: string) =>
      judge(policy, {}, 'pay', throughJson(factsAt(policy, 'pay', JSON.parse(text) as JsonObject)), NOW).verdict;
    expect(at('{}')).toMatchObject({ decision: 'deny', reason: `argument ${path} is required` });
    expect(at(`{"${path}": 3}`)).toEqual({ decision: 'allow' });
    expect(at(`{"${path}": 11}`)).toMatchObject({ decision: 'deny' });
  });
});

describe('the order of decisions', () => {
  const once = { tool: 'pay', max: 1, windowMs: 1_000 };
  const used = { pay: [NOW] };

  test('is deny, then ask, then the rate limit, then allow (K5)', () => {
    const ask = [{ tool: 'pay', action: 'ask' as const }];
    const constraints = [{ tool: 'pay', path: 'to', required: true as const }];
    const all = { rules: ask, constraints, rateLimits: [once] };
    expect(verdict(all, 'pay', NO_FACTS, used)).toMatchObject({ decision: 'deny', stage: 'constraint' });
    expect(verdict(all, 'pay', facts({ to: 'x' }), used)).toMatchObject({ decision: 'ask' });
    expect(verdict({ rateLimits: [once] }, 'pay', NO_FACTS, used)).toMatchObject({ decision: 'rate_limited' });
    expect(verdict({ rateLimits: [once] })).toEqual({ decision: 'allow' });
  });

  test('names the first stage of those that deny (K5)', () => {
    const deny = { rules: [{ tool: 'pay', action: 'deny' as const }], veto: ['pay'] };
    expect(verdict(deny)).toMatchObject({ decision: 'deny', stage: 'permission' });
  });

  test('lets a veto beat a rule that allows, however often it is asked (K5)', () => {
    const vetoed = { rules: [{ tool: 'pay', action: 'allow' as const }], veto: ['p*'] };
    for (let time = 0; time < 3; time += 1)
      expect(verdict(vetoed)).toEqual({ decision: 'deny', stage: 'veto', reason: 'pay is vetoed' });
  });
});

describe('a rate limit', () => {
  const limit = (max: number, windowMs: number) =>
    governance({ rateLimits: [{ tool: '*', max, windowMs }], veto: ['vetoed'] });
  const at = (policy: ReturnType<typeof governance>, windows: RateWindows, nowMs: number, tool = 'pay') =>
    judge(policy, windows, tool, NO_FACTS, nowMs);

  test('refuses the call beyond it and says when to try again (K5)', () => {
    const policy = limit(1, 60_000);
    const first = at(policy, {}, NOW);
    expect(first).toEqual({ verdict: { decision: 'allow' }, windows: { pay: [NOW] } });
    const second = at(policy, first.windows, NOW + 1);
    expect(second).toMatchObject({ verdict: { decision: 'rate_limited', stage: 'rate_limit', retryAfterMs: 60_000 } });
    expect(second.windows).toBe(first.windows);
  });

  test('counts a start exactly at the edge of the window, and none before it (K5)', () => {
    const policy = limit(1, 100);
    expect(at(policy, { pay: [NOW] }, NOW + 100).verdict.decision).toBe('rate_limited');
    expect(at(policy, { pay: [NOW] }, NOW + 101)).toEqual({
      verdict: { decision: 'allow' },
      windows: { pay: [NOW + 101] },
    });
  });

  test('is over when it said it would be, also after more starts than it allows (K5)', () => {
    const policy = limit(2, 100);
    const windows = { pay: [NOW, NOW + 10, NOW + 20] };
    const { verdict } = at(policy, windows, NOW + 30);
    if (verdict.decision !== 'rate_limited') throw new Error(`it was ${verdict.decision}`);
    const { retryAfterMs } = verdict;
    expect(at(policy, windows, NOW + 30 + retryAfterMs - 1).verdict.decision).toBe('rate_limited');
    expect(at(policy, windows, NOW + 30 + retryAfterMs).verdict.decision).toBe('allow');
  });

  test('is each tool’s own, also under one pattern (K5)', () => {
    expect(at(limit(1, 100), { pay: [NOW] }, NOW, 'refund').verdict.decision).toBe('allow');
  });

  test('of several on one tool, the longest is remembered and each one holds (K5)', () => {
    const policy = governance({
      rateLimits: [
        { tool: 'pay', max: 1, windowMs: 10 },
        { tool: 'p*', max: 2, windowMs: 1_000 },
      ],
    });
    const two = at(policy, at(policy, {}, NOW).windows, NOW + 11);
    expect(two.verdict.decision).toBe('allow');
    expect(at(policy, two.windows, NOW + 22).verdict.decision).toBe('rate_limited');
    expect(at(policy, two.windows, NOW + 1_001).verdict.decision).toBe('allow');
  });

  test('loses no slot to a call that does not run (K5)', () => {
    const policy = limit(1, 100);
    const denied = at(policy, {}, NOW, 'vetoed');
    expect(denied).toMatchObject({ verdict: { decision: 'deny' }, windows: {} });
    const asking = governance({ default: 'ask', rateLimits: [{ tool: '*', max: 1, windowMs: 100 }] });
    expect(at(asking, {}, NOW).windows).toEqual({});
    expect(takeSlot(asking, {}, 'pay', NOW)).toEqual({ pay: [NOW] });
  });

  test('that nobody configured does not exist: a hundred calls at the same time run (K5)', () => {
    const policy = governance({});
    let windows: RateWindows = {};
    for (let call = 0; call < 100; call += 1) {
      const judged = at(policy, windows, 0);
      expect(judged.verdict).toEqual({ decision: 'allow' });
      windows = judged.windows;
    }
    expect(windows).toEqual({});
  });
});

describe('what rules look at', () => {
  const policy = governance({
    rules: [
      { tool: 'pay', action: 'deny', when: { path: 'customer.address.0.city', oneOf: ['Rome'] } },
      { tool: 'other', action: 'deny', when: { path: 'elsewhere', oneOf: [1] } },
    ],
    constraints: [{ tool: 'p*', path: 'note', maxLength: 5 }],
  });

  test('are the paths of the rules for that tool alone (K4)', () => {
    expect(pathsOf(policy, 'pay')).toEqual(['customer.address.0.city', 'note']);
    expect(pathsOf(policy, 'work')).toEqual([]);
  });

  test('is found at dotted paths, through arrays, and not in prototypes (K4)', () => {
    const args = { customer: { address: [{ city: 'Rome' }] }, secret: 'x' };
    expect(factsAt(policy, 'pay', args)).toEqual({ values: { 'customer.address.0.city': 'Rome' }, oversized: [] });
    const inherited = governance({ constraints: [{ tool: 'pay', path: 'toString.name', required: true }] });
    expect(factsAt(inherited, 'pay', {})).toEqual({ values: {}, oversized: [] });
  });

  test('travels up to 512 bytes; what is larger is named only (K4)', () => {
    const quotes = 2;
    const fits = 'é'.repeat((SIZES.factBytes - quotes) / 2);
    expect(factsAt(policy, 'pay', { note: fits })).toEqual({ values: { note: fits }, oversized: [] });
    expect(factsAt(policy, 'pay', { note: `${fits}x` })).toEqual({ values: {}, oversized: ['note'] });
  });

  test('denies when it is too large, by a constraint as by a condition (K4)', () => {
    const large = facts({}, ['note', 'customer.address.0.city']);
    const reason = (path: string) => `argument ${path} is too large to be checked`;
    const city = 'customer.address.0.city';
    expect(judge(policy, {}, 'pay', large, NOW).verdict).toEqual({
      decision: 'deny',
      stage: 'permission',
      reason: reason(city),
    });
    expect(judge(policy, {}, 'pray', facts({}, ['note']), NOW).verdict).toEqual({
      decision: 'deny',
      stage: 'constraint',
      reason: reason('note'),
    });
  });
});
