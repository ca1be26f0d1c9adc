import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import type { SettledCall } from '../../../workflows/kernel/calls.ts';
import type { KernelEvent } from '../../../workflows/kernel/events.ts';
import { lifecycleOf, openCalls, waitingCalls } from '../../../workflows/kernel/phase.ts';
import { NOW, type Outcome, type Turn, turnIn } from './turn.ts';

describe('tool calls', () => {
  test('run together, and the model goes on with their results (K1)', () => {
    const turn = turnIn.thinking();
    expect(turn.call('a', 'b')).toEqual({
      type: 'execute_tools',
      stepIndex: 1,
      calls: [
        { callId: 'a-1', tool: 'a' },
        { callId: 'b-1', tool: 'b' },
      ],
    });
    expect(turn.state).toMatchObject({ phase: { kind: 'acting', verdict: null } });
    expect(turn.results({ a: {}, b: { status: 'failed', errorCode: 'tool_failed' } })).toMatchObject({
      type: 'call_llm',
      stepIndex: 2,
      plan: { ranges: [{ boxId: 'output', fromSeq: 1, toSeq: 4 }] },
    });
    expect(turn.say()).toMatchObject({ type: 'done', termination: { status: 'success' } });
  });

  test('that were refused while they were proposed are not run; their siblings are (W9)', () => {
    const turn = turnIn.thinking();
    const refused = turn.settled('a', { status: 'failed', errorCode: 'invalid_arguments' });
    const calls = [
      { callId: 'a-1', tool: 'a', settled: refused },
      { callId: 'b-1', tool: 'b' },
    ];
    expect(turn.respond({ calls })).toMatchObject({
      type: 'execute_tools',
      calls: [{ callId: 'b-1', tool: 'b' }],
    });
    expect(turn.results({ b: {} })).toMatchObject({ type: 'call_llm', stepIndex: 2 });
  });

  test('that were all refused go straight back to the model (W9)', () => {
    const turn = turnIn.thinking();
    const refused = turn.settled('a', { status: 'failed', errorCode: 'unknown_tool' });
    expect(turn.respond({ calls: [{ callId: 'a-1', tool: 'a', settled: refused }] })).toMatchObject({
      type: 'call_llm',
      stepIndex: 2,
    });
    expect(turn.state.phase.kind).toBe('reasoning');
  });

  test.each(['failed', 'timeout', 'canceled', 'partial'] as const)(
    'that end %s do not end the turn (T20)',
    (status) => {
      const turn = turnIn.acting();
      expect(turn.results({ a: { status, errorCode: 'x' }, b: {} })).toMatchObject({ type: 'call_llm' });
    },
  );
});

describe('waiting calls', () => {
  test('suspend the turn until the nearest deadline (T13)', () => {
    const turn = turnIn.thinking();
    turn.call('a', 'b', 'c');
    expect(turn.results({ a: {} }, { b: 9_000, c: 4_000 })).toEqual({ type: 'await', wait: 'tools', deadline: 4_000 });
    expect(lifecycleOf(turn.state)).toBe('suspended');
  });

  test('that are left keep their own deadlines when another is settled (T13)', () => {
    const turn = turnIn.thinking();
    turn.call('a', 'b', 'c');
    turn.results({ a: {} }, { b: 9_000, c: 4_000 });
    expect(turn.results({ c: { status: 'timeout', errorCode: 'tool_timeout' } }, { b: 9_000 })).toMatchObject({
      deadline: 9_000,
    });
    expect(waitingCalls(turn.state)).toMatchObject([{ tool: 'b', deadline: 9_000 }]);
    expect(openCalls(turn.state)).toHaveLength(1);
    expect(turn.results({ b: {} })).toMatchObject({ type: 'call_llm', stepIndex: 2 });
    expect(turn.state.phase.kind).toBe('reasoning');
  });

  test('may have their deadline moved without any result (T16)', () => {
    const turn = turnIn.suspended();
    expect(turn.results({}, { b: 7_777 })).toEqual({ type: 'await', wait: 'tools', deadline: 7_777 });
  });
});

describe('the order of results', () => {
  const statuses = ['success', 'failed', 'timeout', 'canceled', 'partial'] as const;
  const outcome = fc.record({
    status: fc.constantFrom(...statuses),
    afterExecution: fc.constantFrom('continue' as const, 'terminate' as const),
  });
  const arrivals = fc.array(outcome, { minLength: 1, maxLength: 6 }).chain((outcomes) =>
    fc.record({
      outcomes: fc.constant(outcomes),
      order: fc.shuffledSubarray(
        outcomes.map((_, index) => index),
        { minLength: outcomes.length },
      ),
      sizes: fc.array(fc.integer({ min: 1, max: 3 }), { minLength: 6, maxLength: 6 }),
    }),
  );

  const settledBy = (outcomes: readonly Outcome[]): SettledCall[] =>
    outcomes.map(({ status = 'success', afterExecution = 'continue' }, index) => ({
      callId: `t${index}-1`,
      status,
      afterExecution,
      ...(status === 'success' ? {} : { errorCode: `code-${index}` }),
      seq: 10 + index,
      tokens: 1,
    }));

  /** Gives the turn its results in portions of these sizes; the calls without one wait. */
  function portions(settled: readonly SettledCall[], sizes: readonly number[]): KernelEvent[] {
    const events: KernelEvent[] = [];
    for (let at = 0; at < settled.length; ) {
      const end = at + (sizes[events.length] ?? 1);
      const suspended = settled.slice(end).map(({ callId }) => ({ callId, deadline: 50_000 }));
      events.push({ type: 'tool_results', nowMs: NOW, settled: settled.slice(at, end), suspended });
      at = end;
    }
    return events;
  }

  function run(settled: readonly SettledCall[], sizes: readonly number[]) {
    const turn = turnIn.thinking();
    turn.call(...settled.map((_, index) => `t${index}`));
    const actions = portions(settled, sizes).map((event) => turn.feed(event));
    return { state: turn.state, action: actions.at(-1) };
  }

  test('makes no difference to the state, to the plan or to how the turn ends (T15)', () => {
    fc.assert(
      fc.property(arrivals, ({ outcomes, order, sizes }) => {
        const settled = settledBy(outcomes);
        const reference = run(settled, [settled.length]);
        const shuffled = order.flatMap((index) => settled[index] ?? []);
        expect(run(shuffled, sizes)).toEqual(reference);
        expect(run(shuffled, [shuffled.length])).toEqual(reference);
      }),
      { numRuns: 300 },
    );
  });
});

describe('a terminating tool', () => {
  const end = { afterExecution: 'terminate' } as const;

  test('that succeeded ends the turn with its result (T8, T19)', () => {
    const turn = turnIn.acting();
    expect(turn.results({ a: end, b: {} })).toEqual({
      type: 'done',
      termination: { status: 'success' },
      deliverable: { from: 'tool_result', callId: 'a-1' },
    });
  });

  test.each([
    ['failed', 'failed'],
    ['timeout', 'timeout'],
  ] as const)('that ended %s ends the turn %s with the code of the tool (T8)', (status, turnStatus) => {
    const turn = turnIn.acting();
    expect(turn.results({ a: {}, b: { ...end, status, errorCode: 'quota_used_up' } })).toMatchObject({
      termination: { status: turnStatus, errorCode: 'quota_used_up', reason: expect.stringContaining('b') },
      deliverable: { from: 'tool_result', callId: 'b-1' },
    });
  });

  test('without a code of its own is tool_failed (T8)', () => {
    const turn = turnIn.acting();
    expect(turn.results({ a: { ...end, status: 'failed' }, b: {} })).toMatchObject({
      termination: { status: 'failed', errorCode: 'tool_failed' },
    });
  });

  test('waits until all calls of its step are settled (T19)', () => {
    const turn = turnIn.acting();
    expect(turn.results({ a: end }, { b: 5_000 })).toMatchObject({ type: 'await' });
    expect(turn.results({ b: { status: 'timeout' } })).toMatchObject({
      type: 'done',
      deliverable: { from: 'tool_result', callId: 'a-1' },
    });
  });

  const decisions = [
    ['the first of several that succeeded', { a: {}, b: end, c: end }, 'b-1', 'success'],
    [
      'the first failed one',
      { a: end, b: { ...end, status: 'failed' }, c: { ...end, status: 'timeout' } },
      'b-1',
      'failed',
    ],
    [
      'a timeout before a failure',
      { a: { ...end, status: 'timeout' }, b: { ...end, status: 'failed' } },
      'a-1',
      'timeout',
    ],
    ['not a failed call that only continues', { a: { status: 'failed' }, b: end }, 'b-1', 'success'],
  ] as const;
  test.each(decisions)('decides: %s (T19)', (_, outcomes, callId, status) => {
    const turn = turnIn.thinking();
    turn.call(...Object.keys(outcomes));
    const action = turn.results(outcomes as Readonly<Record<string, Outcome>>);
    expect(action).toMatchObject({ termination: { status }, deliverable: { from: 'tool_result', callId } });
  });

  test('is decided in the order of the calls, not of their results (T15, T19)', () => {
    const turn = turnIn.acting();
    turn.results({ b: { ...end, status: 'timeout', errorCode: 'late' } }, { a: 5_000 });
    expect(turn.results({ a: { ...end, status: 'failed', errorCode: 'broken' } })).toMatchObject({
      termination: { status: 'failed', errorCode: 'broken' },
    });
  });
});

describe('submit_result', () => {
  const submission = (turn: Turn, outcome: Outcome = {}) => ({
    callId: turn.idOf('submit_result'),
    tool: 'submit_result',
    settled: turn.settled('submit_result', { afterExecution: 'terminate', ...outcome }),
  });

  test('that was accepted ends the turn with its fields (W12)', () => {
    const turn = turnIn.thinking();
    expect(turn.respond({ calls: [submission(turn)] })).toEqual({
      type: 'done',
      termination: { status: 'success' },
      deliverable: { from: 'submit_result', callId: 'submit_result-1' },
    });
  });

  test('that was refused goes back to the model (W12)', () => {
    const turn = turnIn.thinking();
    const refused = submission(turn, {
      status: 'failed',
      afterExecution: 'continue',
      errorCode: 'missing_result_fields',
    });
    expect(turn.respond({ calls: [refused] })).toMatchObject({ type: 'call_llm', stepIndex: 2 });
    expect(turn.respond({ calls: [submission(turn)] })).toMatchObject({ type: 'done' });
  });

  test('that was refused for not being alone lets the other calls run (W12)', () => {
    const turn = turnIn.thinking();
    const refused = submission(turn, {
      status: 'failed',
      afterExecution: 'continue',
      errorCode: 'submit_result_not_alone',
    });
    expect(turn.respond({ calls: [refused, { callId: 'a-1', tool: 'a' }] })).toMatchObject({
      type: 'execute_tools',
      calls: [{ callId: 'a-1', tool: 'a' }],
    });
    expect(turn.results({ a: {} })).toMatchObject({ type: 'call_llm', stepIndex: 2 });
  });
});
