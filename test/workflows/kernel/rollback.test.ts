import { describe, expect, test } from '@jest/globals';
import type { ErrorKind } from '../../../workflows/kernel/calls.ts';
import type { Handle } from '../../../workflows/kernel/handles.ts';
import { estimatedTokens } from '../../../workflows/kernel/pressure.ts';
import { governance, NOW, type Outcome, Turn, turnIn } from './turn.ts';

const failed = (errorKind?: ErrorKind): Outcome => ({
  status: 'failed',
  errorCode: 'broken',
  ...(errorKind ? { errorKind } : {}),
});

const timeout = (turn: Turn) =>
  turn.feed({ type: 'timeout', nowMs: NOW, stepIndex: turn.state.stepIndex, message: 'the model took too long' });

/** A step whose one call ends with an error of this kind. */
function failing(turn: Turn, kind: ErrorKind = 'fatal') {
  turn.call('a');
  return turn.results({ a: failed(kind) });
}

describe('a tool error', () => {
  test.each([undefined, 'recoverable', 'provider_failure', 'timeout'] as const)(
    'of kind %s is shown to the model and takes nothing back (K13)',
    (kind) => {
      const turn = turnIn.acting();
      const next = turn.results({ a: failed(kind), b: {} });
      expect(next).toMatchObject({ type: 'call_llm', stepIndex: 2 });
      expect(next).not.toHaveProperty('hide');
      expect(turn.state.handles).toHaveLength(4);
      expect(turn.observations).toEqual([]);
    },
  );

  test('that is fatal takes the whole step back, and a note says why (K13)', () => {
    const turn = turnIn.acting();
    expect(turn.results({ a: {}, b: failed('fatal') })).toMatchObject({
      type: 'call_llm',
      stepIndex: 2,
      note: { kind: 'rolled_back', reason: 'b failed (broken); try another way' },
      hide: [2, 3, 4],
      plan: { ranges: [{ boxId: 'output', fromSeq: 1, toSeq: 1 }] },
    });
    expect(turn.state.handles).toEqual([[1, 'user', 7]]);
    expect(turn.observations).toMatchObject([{ type: 'rolled_back', cards: 3, inARow: 1 }]);
  });

  test('by a person’s interrupt takes it back too, and says so (K13)', () => {
    const turn = turnIn.acting();
    expect(turn.results({ a: failed('user_interrupt'), b: {} })).toMatchObject({
      note: { kind: 'rolled_back', reason: 'a was interrupted by a person' },
    });
  });

  test.each(['provider_failure', 'timeout'] as const)('of kind %s does where the profile says so (K13)', (kind) => {
    const turn = new Turn({ rollbackOn: [kind] });
    turn.start();
    expect(failing(turn, kind)).toMatchObject({ note: { kind: 'rolled_back' }, hide: [2, 3] });
  });

  test('by governance does where the profile says so, and is shown where it does not (K13)', () => {
    const denied = { status: 'failed', errorCode: 'governance_denied' } as const;
    for (const rollbackOn of [[], ['governance_denied']] as const) {
      const turn = new Turn({ rollbackOn, governance: governance({ veto: ['bad'] }) });
      turn.start();
      turn.call('bad');
      const next = turn.results({ bad: denied });
      expect(next?.type === 'call_llm' && next.note !== undefined).toBe(rollbackOn.length > 0);
    }
  });

  test('does not undo a turn that a terminating tool of the same step ends (K13, T19)', () => {
    const turn = turnIn.acting();
    expect(turn.results({ a: failed('fatal'), b: { afterExecution: 'terminate' } })).toMatchObject({
      type: 'done',
      termination: { status: 'success' },
    });
  });
});

describe('a model that does not answer in time', () => {
  test('takes the step back, which is not the end (K13)', () => {
    const turn = turnIn.thinking();
    expect(timeout(turn)).toMatchObject({
      type: 'call_llm',
      stepIndex: 2,
      note: { kind: 'rolled_back', reason: 'the model took too long' },
    });
    expect(turn.observations).toEqual([
      { type: 'rolled_back', reason: 'the model took too long', cards: 0, inARow: 1 },
    ]);
  });

  test('while it reports ends the turn with the code of the budget (K9, K13)', () => {
    const turn = new Turn({ budgets: { maxSteps: 1 } });
    turn.start();
    turn.call('a');
    turn.results({ a: {} });
    expect(timeout(turn)).toMatchObject({ termination: { status: 'failed', errorCode: 'max_steps_reached' } });
  });
});

describe('the checkpoint', () => {
  test('is taken before each model call, at the last card before it (K13)', () => {
    const turn = turnIn.thinking();
    expect(turn.state.checkpoint).toMatchObject({ seq: 1, lastThought: null });
    turn.call('a');
    turn.results({ a: {} });
    expect(turn.state.checkpoint).toMatchObject({ seq: 3, lastThought: { cardId: 'thought-1' } });
  });

  test('is what a later step returns to: earlier steps stay, and the tokens are exact (K13)', () => {
    const turn = turnIn.thinking();
    turn.call('a', 'b');
    turn.results({ a: { tokens: 300 }, b: { tokens: 40 } });
    const { handles } = turn.state;
    const tokens = estimatedTokens(turn.state);
    turn.call('c');
    turn.results({ c: { ...failed('fatal'), tokens: 5_000 } });
    expect(turn.state.handles).toEqual(handles);
    expect(estimatedTokens(turn.state)).toBe(tokens);
    expect(turn.state.lastThought).toEqual({ cardId: 'thought-1', hasText: false });
    expect(turn.state.usage).toEqual({ input: 20, output: 4, cached: 0 });
  });

  test('leaves what users said meanwhile in view (K13)', () => {
    const turn = turnIn.thinking();
    const said: Handle = [turn.seq(), 'user', 11];
    const thought: Handle = [turn.seq(), 'assistant', 5];
    turn.feed({
      type: 'llm_response',
      nowMs: NOW,
      stepIndex: 1,
      handles: [said, thought],
      thoughtCardId: 't',
      hasText: false,
      refused: false,
      calls: [{ callId: 'a-1', tool: 'a' }],
      usage: { input: 1, output: 1, cached: 0 },
    });
    expect(turn.results({ a: failed('fatal') })).toMatchObject({ hide: [3, 4] });
    expect(turn.state.handles).toEqual([[1, 'user', 7], said]);
  });

  test('also holds whether the required ending was there (K13, W13)', () => {
    const turn = new Turn({ mustEndWith: ['publish'] });
    turn.start();
    turn.call('publish');
    turn.results({ publish: {} });
    failing(turn);
    expect(turn.state.requiredToolDone).toBe(true);
    expect(turn.say()).toMatchObject({ termination: { status: 'success' } });
  });
});

describe('rollbacks in a row', () => {
  test('fail the turn at the third (K13)', () => {
    const turn = turnIn.thinking();
    expect(failing(turn)).toMatchObject({ type: 'call_llm', stepIndex: 2 });
    expect(timeout(turn)).toMatchObject({ type: 'call_llm', stepIndex: 3 });
    expect(failing(turn)).toMatchObject({
      type: 'done',
      termination: { status: 'failed', errorCode: 'no_progress', reason: expect.stringContaining('3 steps') },
      deliverable: { from: 'fallback' },
    });
  });

  test('leave nothing in view, also when no model call follows that would hide it (K13)', () => {
    const third = turnIn.thinking();
    failing(third);
    failing(third);
    expect(failing(third)).toMatchObject({ type: 'done', hide: [6, 7] });
  });

  test('leave nothing in view when the turn is stopped before the next call was answered (K13, T21)', () => {
    const stopped = turnIn.thinking();
    expect(failing(stopped)).toMatchObject({ type: 'call_llm', hide: [2, 3] });
    expect(stopped.stop()).toMatchObject({ type: 'done', hide: [2, 3] });
    const silent = turnIn.thinking();
    failing(silent);
    expect(timeout(silent)).toMatchObject({ type: 'call_llm', hide: [2, 3] });
    const answered = turnIn.thinking();
    failing(answered);
    expect(answered.say()).not.toHaveProperty('hide');
  });

  test('are counted anew after a step that was kept (K13)', () => {
    const turn = turnIn.thinking();
    for (let round = 0; round < 4; round += 1) {
      failing(turn);
      failing(turn);
      turn.call('a');
      turn.results({ a: {} });
    }
    expect(turn.state).toMatchObject({ phase: { kind: 'reasoning' }, rollbacks: 0 });
  });

  test('are counted anew after a part of an answer, and after a reminder (K13)', () => {
    const parts = turnIn.thinking();
    failing(parts);
    failing(parts);
    parts.respond({ hasText: true, truncated: 'provider' });
    expect(failing(parts)).toMatchObject({ type: 'call_llm' });
    const reminded = new Turn({ mustEndWith: ['publish'] });
    reminded.start();
    failing(reminded);
    failing(reminded);
    reminded.say();
    expect(failing(reminded)).toMatchObject({ type: 'call_llm' });
  });

  test('are steps of the budget (K9, K13)', () => {
    const turn = new Turn({ budgets: { maxSteps: 2 } });
    turn.start();
    failing(turn);
    expect(failing(turn)).toMatchObject({ type: 'call_llm', stepIndex: 3, note: { kind: 'final_report' } });
    expect(turn.actions.at(-1)).toMatchObject({ hide: [4, 5] });
  });
});
