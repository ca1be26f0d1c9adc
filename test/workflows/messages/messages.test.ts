import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { isLease, shallow } from '../../../workflows/messages/messages.ts';

const RUNS = { numRuns: 1_000 };

/** Near misses of each message: its keys with values of any kind. */
const nearly = (...keys: readonly string[]) =>
  fc.dictionary(fc.constantFrom(...keys, 'other'), fc.oneof(fc.jsonValue(), fc.string()), { maxKeys: 4 });

describe('the input of a turn', () => {
  const lease = {
    agentId: 'a',
    agentTurnId: 't',
    turnEpoch: 1,
    outputBoxId: 'b',
    profileName: 'p',
    title: '',
    kernel: { budgets: {}, context: {} },
    timeouts: { heartbeatMs: 1 },
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
