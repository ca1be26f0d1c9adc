import { describe, expect, test } from '@jest/globals';
import type { KernelAction } from '../../../workflows/kernel/actions.ts';
import { governance, NOW, Turn } from './turn.ts';

const started = (...[more]: ConstructorParameters<typeof Turn>): Turn => {
  const turn = new Turn(more);
  turn.start();
  return turn;
};

const ids = (action: KernelAction | undefined) => {
  if (action?.type !== 'execute_tools') throw new Error(`expected calls to run, got ${JSON.stringify(action)}`);
  const idOf = ({ callId }: { readonly callId: string }) => callId;
  return {
    run: action.calls.map(idOf),
    refuse: action.refuse?.map(({ callId, code }) => `${callId} ${code}`) ?? [],
    ask: action.ask?.map(idOf) ?? [],
  };
};

const policy = (onDenied: 'report' | 'rollback' | 'end') =>
  governance({
    veto: ['bad'],
    rules: [{ tool: 'gated', action: 'ask' }],
    rateLimits: [{ tool: 'limited', max: 1, windowMs: 1_000 }],
    onDenied,
  });

describe('without a policy', () => {
  test('every call runs, and nothing is gated (K5)', () => {
    const turn = started();
    expect(ids(turn.call('bad', 'gated'))).toEqual({ run: ['bad-1', 'gated-1'], refuse: [], ask: [] });
    expect(turn.observations).toEqual([]);
  });
});

describe('a denied call that is reported', () => {
  test('gets an error result, and its siblings run (K6)', () => {
    const turn = started({ governance: policy('report') });
    expect(ids(turn.call('a', 'bad', 'b'))).toEqual({
      run: ['a-1', 'b-1'],
      refuse: ['bad-1 governance_denied'],
      ask: [],
    });
    expect(turn.observations).toEqual([
      {
        type: 'tool_gated',
        callId: 'bad-1',
        tool: 'bad',
        decision: 'deny',
        stage: 'veto',
        reason: 'bad is vetoed',
      },
    ]);
    const refused = { status: 'failed', errorCode: 'governance_denied' } as const;
    expect(turn.results({ a: {}, bad: refused, b: {} })).toMatchObject({ type: 'call_llm', stepIndex: 2 });
    expect(turn.state).toMatchObject({ rollbacks: 0, toHide: [] });
  });

  test('alone goes to the driver for its result, without any call to run (K6)', () => {
    const turn = started({ governance: policy('report') });
    expect(ids(turn.call('bad'))).toEqual({ run: [], refuse: ['bad-1 governance_denied'], ask: [] });
  });

  test('is told to the model by its name and with the reason (K6)', () => {
    const turn = started({ governance: policy('report') });
    turn.call('limited');
    turn.results({ limited: {} });
    expect(turn.call('bad', 'limited')).toMatchObject({
      refuse: [
        { tool: 'bad', message: 'bad was not run: bad is vetoed' },
        { tool: 'limited', message: expect.stringMatching(/^limited was not run: .*try again in 1001 ms$/) },
      ],
    });
  });

  test('by its rate limit says so; the slot is taken by the call that runs (K6)', () => {
    const turn = started({ governance: policy('report') });
    expect(ids(turn.call('limited'))).toMatchObject({ run: ['limited-1'] });
    turn.results({ limited: {} });
    expect(ids(turn.call('limited'))).toMatchObject({ run: [], refuse: ['limited-2 rate_limited'] });
    expect(turn.state.rateWindows).toEqual({ limited: [NOW] });
  });

  test('is bounded: the model that repeats it is stopped by the fuse (K6, K12)', () => {
    const turn = started({ governance: policy('report') });
    for (let step = 1; step <= 9; step += 1) {
      turn.respond({ calls: [{ callId: turn.idOf('bad'), tool: 'bad', digest: 'x' }] });
      turn.results({ bad: { status: 'failed', errorCode: 'governance_denied' } });
    }
    expect(turn.actions.at(-1)).toMatchObject({ note: { kind: 'final_report' } });
    turn.say();
    expect(turn.state.phase).toMatchObject({ kind: 'done', termination: { errorCode: 'no_progress' } });
  });
});

describe('a denied call that takes the step back', () => {
  test('keeps its siblings from running, asks nobody and takes no slot (K6)', () => {
    const turn = started({ governance: policy('rollback') });
    expect(ids(turn.call('limited', 'gated', 'bad'))).toEqual({
      run: [],
      refuse: ['bad-1 governance_denied', 'limited-1 not_run', 'gated-1 not_run'],
      ask: [],
    });
    expect(turn.state).toMatchObject({ toolCalls: 0, rateWindows: {} });
  });

  test('leaves the note with its reason, and hides the step (K6, K13)', () => {
    const turn = started({ governance: policy('rollback') });
    turn.call('a', 'bad');
    const failed = { status: 'failed', errorCode: 'not_run' } as const;
    expect(turn.results({ a: failed, bad: failed })).toMatchObject({
      type: 'call_llm',
      stepIndex: 2,
      note: { kind: 'rolled_back', reason: 'bad was denied: bad is vetoed' },
      hide: [2, 3, 4],
      plan: { ranges: [{ boxId: 'output', fromSeq: 1, toSeq: 1 }] },
    });
    expect(turn.state.handles).toEqual([[1, 'user', 7]]);
    expect(turn.state.phase.kind).toBe('reasoning');
  });
});

describe('a denied call that ends the turn', () => {
  test('ends it policy_denied, once all calls have their results (K6)', () => {
    const turn = started({ governance: policy('end') });
    expect(ids(turn.call('a', 'bad'))).toMatchObject({ run: [], refuse: ['bad-1 governance_denied', 'a-1 not_run'] });
    const failed = { status: 'failed', errorCode: 'not_run' } as const;
    expect(turn.results({ a: failed, bad: failed })).toEqual({
      type: 'done',
      termination: { status: 'failed', errorCode: 'policy_denied', reason: 'bad was denied: bad is vetoed' },
      deliverable: { from: 'fallback' },
    });
  });

  test('does not discard what was submitted in the same step (K6)', () => {
    const turn = started({ governance: policy('end') });
    const settled = turn.settled('submit_result', { afterExecution: 'terminate' });
    turn.respond({
      calls: [
        { callId: 'bad-1', tool: 'bad' },
        { callId: settled.callId, tool: 'submit_result', settled },
      ],
    });
    expect(turn.results({ bad: { status: 'failed', errorCode: 'governance_denied' } })).toMatchObject({
      termination: { status: 'success' },
      deliverable: { from: 'submit_result' },
    });
  });
});

describe('the budget of tool calls', () => {
  const failed = { status: 'failed', errorCode: 'budget_tool_calls' } as const;

  test('is exact: the calls that still fit run, the others get an error result (K9)', () => {
    const turn = started({ budgets: { maxToolCalls: 3 } });
    turn.call('a', 'b');
    expect(turn.results({ a: {}, b: {} })).not.toHaveProperty('note');
    expect(ids(turn.call('a', 'b', 'c'))).toEqual({
      run: ['a-2'],
      refuse: ['b-2 budget_tool_calls', 'c-2 budget_tool_calls'],
      ask: [],
    });
    expect(turn.state.toolCalls).toBe(3);
    expect(turn.results({ a: {}, b: failed, c: failed })).toMatchObject({ note: { kind: 'final_report' } });
    expect(turn.say()).toMatchObject({ termination: { status: 'partial', errorCode: 'budget_tool_calls' } });
  });

  test('that is just used up hinders no answer: it is hit by a call that is refused (K9)', () => {
    const turn = started({ budgets: { maxToolCalls: 1 } });
    turn.call('a');
    expect(turn.results({ a: {} })).not.toHaveProperty('note');
    expect(turn.say()).toMatchObject({ termination: { status: 'success' } });
  });

  test('counts calls that wait for approval, and none that was denied or settled at once (K9)', () => {
    const turn = started({ budgets: { maxToolCalls: 2 }, governance: policy('report') });
    const settled = turn.settled('wrong', { status: 'failed', errorCode: 'invalid_arguments' });
    const calls = ['bad', 'gated', 'a', 'b'].map((tool) => ({ callId: `${tool}-1`, tool }));
    expect(ids(turn.respond({ calls: [{ callId: settled.callId, tool: 'wrong', settled }, ...calls] }))).toEqual({
      run: ['a-1'],
      refuse: ['bad-1 governance_denied', 'b-1 budget_tool_calls'],
      ask: ['gated-1'],
    });
    expect(turn.state.toolCalls).toBe(2);
  });
});
