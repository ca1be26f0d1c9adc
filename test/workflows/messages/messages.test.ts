import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { isLease, isResultWakeUp, shallow } from '../../../workflows/messages/messages.ts';
import { toolResultReportSchema } from '../../../workflows/protocol/tool-result.ts';

const RUNS = { numRuns: 1_000 };

/** Near misses of each message: its keys with values of any kind. */
const nearly = (...keys: readonly string[]) =>
  fc.dictionary(fc.constantFrom(...keys, 'other'), fc.oneof(fc.jsonValue(), fc.string()), { maxKeys: 4 });

describe('a tool_result signal', () => {
  test.each([
    ['nothing', undefined, true],
    ['null', null, true],
    ['no call, as the supervisor sends it', {}, true],
    ['the id of a call', { callId: 'c' }, true],
    ['a text', 'c', false],
    ['a list', [{ callId: 'c' }], false],
    ['a result', { callId: 'c', status: 'success', result: 1 }, false],
    ['a heartbeat', { callId: 'c', status: 'running' }, false],
    ['an unknown status, which the activity refuses', { callId: 'c', status: 'great' }, false],
  ])('with %s: is it only a wake-up? (T14)', (_, body, wakeUp) => {
    expect(isResultWakeUp(body)).toBe(wakeUp);
  });

  test('never takes a result for a wake-up, which would lose it (T14)', () => {
    const report = fc.record(
      {
        callId: fc.string({ minLength: 1, maxLength: 50 }),
        status: fc.constantFrom('success', 'failed', 'timeout', 'canceled', 'partial', 'running'),
        result: fc.jsonValue(),
        turnEpoch: fc.integer({ min: 1 }),
        afterExecution: fc.constantFrom('continue', 'terminate'),
      },
      { requiredKeys: ['callId', 'status'], noNullPrototype: true },
    );
    fc.assert(
      fc.property(report, (body) => {
        expect(toolResultReportSchema.safeParse(body).success).toBe(true);
        expect(isResultWakeUp(body)).toBe(false);
      }),
      RUNS,
    );
  });

  test('is either a wake-up or a body to be checked, whatever comes: the guard answers and never throws', () => {
    fc.assert(
      fc.property(fc.oneof(fc.jsonValue(), fc.anything(), nearly('callId', 'status')), (body) => {
        const wakeUp = isResultWakeUp(body);
        expect(typeof wakeUp).toBe('boolean');
        if (wakeUp) expect(toolResultReportSchema.safeParse(body).success).toBe(false);
      }),
      RUNS,
    );
  });
});

describe('the input of a turn', () => {
  const lease = {
    agentId: 'a',
    agentTurnId: 't',
    turnEpoch: 1,
    outputBoxId: 'b',
    profileName: 'p',
    title: '',
    kernel: { budgets: {}, context: {} },
    earlier: [],
  };
  const without = (key: string) => Object.fromEntries(Object.entries(lease).filter(([name]) => name !== key));

  test('is a lease when all that the workflow reads at once is there (T1)', () => {
    expect(isLease(lease)).toBe(true);
    expect(Object.keys(lease).filter((key) => isLease(without(key)))).toEqual([]);
    expect(isLease({ ...lease, turnEpoch: '1' })).toBe(false);
    expect(isLease([lease])).toBe(false);
  });

  test('is judged without a throw, whatever it is', () => {
    fc.assert(
      fc.property(fc.oneof(fc.anything(), nearly(...Object.keys(lease))), (value) => {
        expect(typeof isLease(value)).toBe('boolean');
      }),
      RUNS,
    );
  });
});

describe('a body that is passed on', () => {
  const nested = (depth: number): unknown => JSON.parse(`${'['.repeat(depth)}${']'.repeat(depth)}`);

  test('is left as it is while it is no deeper than anybody needs', () => {
    const body = { callId: 'c', result: nested(150) };
    expect(shallow(body)).toBe(body);
  });

  test('becomes a text that says so when its depth would fail every workflow task (T8)', () => {
    expect(shallow({ result: nested(3_000) })).toMatch(/nested more than 200 deep/);
    expect(shallow(nested(50_000))).toMatch(/nested more than 200 deep/);
  });
});
