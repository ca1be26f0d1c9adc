import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { isAgentInput, isEnqueueDoorbell, isResultDoorbell, shallow } from '../../../workflows/messages.ts';
import { enqueueRequestSchema } from '../../../workflows/protocol/enqueue.ts';
import { toolResultReportSchema } from '../../../workflows/protocol/tool-result.ts';

const id = fc.stringMatching(/^[A-Za-z0-9][A-Za-z0-9._~-]{0,20}$/);
const RUNS = { numRuns: 1_000 };

/** Near misses of each message: its keys with values of any kind. */
const nearly = (...keys: readonly string[]) =>
  fc.dictionary(fc.constantFrom(...keys, 'other'), fc.oneof(fc.jsonValue(), fc.string()), { maxKeys: 4 });

describe('an enqueue signal', () => {
  test.each([
    ['nothing', undefined, true],
    ['null', null, true],
    ['the id of a turn', { agentTurnId: 't' }, true],
    ['a request', { instruction: 'do it' }, false],
    ['a request that also names a turn', { agentTurnId: 't', instruction: 'do it' }, false],
    ['an id that is no text', { agentTurnId: 7 }, false],
    ['an empty object', {}, false],
    ['a text', 'do it', false],
    ['a list', ['t'], false],
  ])('with %s: is it only a doorbell? (T3)', (_, body, doorbell) => {
    expect(isEnqueueDoorbell(body)).toBe(doorbell);
  });

  test('never takes a request for a doorbell, which would lose it (T3)', () => {
    const request = fc.record(
      {
        instruction: fc.string({ minLength: 1 }),
        profile: id,
        metadata: fc.dictionary(fc.string({ maxLength: 20 }), fc.string({ maxLength: 20 })),
        priority: fc.constantFrom('now', 'normal', 'background'),
        resultFields: fc.jsonValue(),
      },
      { requiredKeys: ['instruction'], noNullPrototype: true },
    );
    fc.assert(
      fc.property(request, (body) => {
        expect(enqueueRequestSchema.safeParse(body).success).toBe(true);
        expect(isEnqueueDoorbell(body)).toBe(false);
      }),
      RUNS,
    );
  });

  test('is either a doorbell or a body to be checked, whatever comes: the guard answers and never throws', () => {
    fc.assert(
      fc.property(fc.oneof(fc.jsonValue(), fc.anything(), nearly('agentTurnId', 'instruction')), (body) => {
        const doorbell = isEnqueueDoorbell(body);
        expect(typeof doorbell).toBe('boolean');
        if (doorbell) expect(enqueueRequestSchema.safeParse(body).success).toBe(false);
      }),
      RUNS,
    );
  });
});

describe('a tool_result signal', () => {
  test.each([
    ['nothing', undefined, true],
    ['the id of a call', { callId: 'c' }, true],
    ['a text', 'c', false],
    ['a list', [{ callId: 'c' }], false],
    ['a result', { callId: 'c', status: 'success', result: 1 }, false],
    ['a heartbeat', { callId: 'c', status: 'running' }, false],
    ['an unknown status, which the activity refuses', { callId: 'c', status: 'great' }, false],
  ])('with %s: is it only a doorbell? (T14)', (_, body, doorbell) => {
    expect(isResultDoorbell(body)).toBe(doorbell);
  });

  test('never takes a result for a doorbell, which would lose it (T14)', () => {
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
        expect(isResultDoorbell(body)).toBe(false);
      }),
      RUNS,
    );
  });

  test('is either a doorbell or a body to be checked, whatever comes: the guard answers and never throws', () => {
    fc.assert(
      fc.property(fc.oneof(fc.jsonValue(), fc.anything(), nearly('callId', 'status')), (body) => {
        const doorbell = isResultDoorbell(body);
        expect(typeof doorbell).toBe('boolean');
        if (doorbell) expect(toolResultReportSchema.safeParse(body).success).toBe(false);
      }),
      RUNS,
    );
  });
});

describe('the input of a mailbox', () => {
  test.each([
    ['an agent id', { agentId: 'a' }, true],
    ['a threshold', { agentId: 'a', maxHistoryEvents: 100 }, true],
    ['a threshold of zero', { agentId: 'a', maxHistoryEvents: 0 }, false],
    ['half an event', { agentId: 'a', maxHistoryEvents: 1.5 }, false],
    ['a threshold as text', { agentId: 'a', maxHistoryEvents: '100' }, false],
    ['no agent id', { maxHistoryEvents: 100 }, false],
    ['an agent id that is no text', { agentId: 1 }, false],
    ['a list', [{ agentId: 'a' }], false],
    ['nothing', undefined, false],
  ])('with %s is recognised as such', (_, value, valid) => {
    expect(isAgentInput(value)).toBe(valid);
  });

  test('is judged without a throw, whatever it is', () => {
    fc.assert(
      fc.property(fc.oneof(fc.anything(), nearly('agentId', 'maxHistoryEvents')), (value) => {
        expect(typeof isAgentInput(value)).toBe('boolean');
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
