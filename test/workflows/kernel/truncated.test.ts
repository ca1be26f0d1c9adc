import { describe, expect, test } from '@jest/globals';
import { Turn, turnIn } from './turn.ts';

const part = (turn: Turn) => turn.respond({ hasText: true, truncated: 'provider' });

describe('an answer that is cut short', () => {
  test('is kept, and the model is asked to go on (K11)', () => {
    const turn = turnIn.thinking();
    expect(part(turn)).toMatchObject({
      type: 'call_llm',
      stepIndex: 2,
      note: { kind: 'go_on' },
      plan: { ranges: [{ fromSeq: 1, toSeq: 2 }] },
    });
    expect(turn.observations).toEqual([{ type: 'truncated', part: 1 }]);
  });

  test('is delivered with all its parts, in order (K11)', () => {
    const turn = turnIn.thinking();
    part(turn);
    part(turn);
    expect(turn.say()).toEqual({
      type: 'done',
      termination: { status: 'success' },
      deliverable: { from: 'thought', cardId: 'thought-3', parts: ['thought-1', 'thought-2'] },
    });
  });

  test('is continued three times; where the fourth part is cut short too, the answer is never taken for a whole one (K11)', () => {
    const turn = turnIn.thinking();
    for (let time = 1; time <= 3; time += 1) expect(part(turn)).toMatchObject({ type: 'call_llm' });
    expect(part(turn)).toMatchObject({
      type: 'done',
      termination: {
        status: 'partial',
        errorCode: 'answer_truncated',
        reason: 'the answer was cut short by the output limit of the model or its provider, and is not whole',
      },
      deliverable: { cardId: 'thought-4', parts: ['thought-1', 'thought-2', 'thought-3'] },
    });
    expect(turn.observations.map((seen) => seen.type === 'truncated' && seen.part)).toEqual([1, 2, 3, 4]);
  });

  test.each([
    ['profile', 'model.maxTokens of the profile'],
    ['provider', 'the output limit of the model or its provider'],
    ['runtime', 'what is kept of one answer'],
  ] as const)(
    'without a word is not asked for again: the turn fails, and names the limit of the %s (K11)',
    (limit, named) => {
      const turn = turnIn.thinking();
      const end = turn.respond({ hasText: false, truncated: limit });
      expect(end).toMatchObject({
        type: 'done',
        termination: { status: 'failed', errorCode: 'answer_truncated', reason: expect.stringContaining(named) },
        deliverable: { from: 'fallback' },
      });
    },
  );

  test('for a reason that is not known is not gone on with, and may not be whole (K11)', () => {
    const turn = turnIn.thinking();
    expect(turn.respond({ hasText: true, truncated: 'unknown' })).toMatchObject({
      type: 'done',
      termination: {
        status: 'partial',
        errorCode: 'answer_truncated',
        reason: "the answer ended for a reason that is not known, which the worker's log names, and may not be whole",
      },
      deliverable: { from: 'thought', cardId: 'thought-1' },
    });
  });

  test('without a word, for a reason that is not known, is taken back, three times in a row at most (K11, K13)', () => {
    const turn = turnIn.thinking();
    const nothing = () => turn.respond({ hasText: false, truncated: 'unknown' });
    for (let time = 1; time <= 2; time += 1)
      expect(nothing()).toMatchObject({ type: 'call_llm', note: { kind: 'rolled_back' } });
    expect(nothing()).toMatchObject({ type: 'done', termination: { status: 'failed', errorCode: 'no_progress' } });
  });

  test('by nobody knows what does not keep the model from being reminded of the required tool (K11, W13)', () => {
    const turn = new Turn({ mustEndWith: ['publish'] });
    turn.start();
    expect(turn.respond({ hasText: true, truncated: 'unknown' })).toMatchObject({ note: { kind: 'must_end_with' } });
  });

  test('whose continuation says nothing ends with what was said before (K11)', () => {
    const turn = turnIn.thinking();
    part(turn);
    expect(turn.respond({ hasText: false, truncated: 'profile' })).toMatchObject({
      termination: { status: 'partial', errorCode: 'answer_truncated' },
      deliverable: { from: 'thought', cardId: 'thought-2', parts: ['thought-1'] },
    });
  });

  test('is no answer any more once the model calls a tool (K11)', () => {
    const turn = turnIn.thinking();
    part(turn);
    turn.call('a');
    turn.results({ a: {} });
    expect(turn.say()).toMatchObject({ deliverable: { from: 'thought', cardId: 'thought-3' } });
    expect(turn.state.answerParts).toEqual([]);
  });

  test.each([
    ['with more words', true],
    ['without a word', false],
  ])('is delivered whole by an agent that goes on %s and then waits (A8, K11)', (_, hasText) => {
    const turn = turnIn.thinking();
    part(turn);
    const settled = turn.settled('wait_for', { afterExecution: 'terminate' });
    expect(turn.respond({ hasText, calls: [{ callId: settled.callId, tool: 'wait_for', settled }] })).toMatchObject({
      type: 'done',
      termination: { status: 'success' },
      deliverable: { from: 'thought', cardId: 'thought-2', parts: ['thought-1'] },
    });
  });

  test('runs its calls when it has some (K11)', () => {
    const turn = turnIn.thinking();
    expect(turn.respond({ truncated: 'provider', calls: [{ callId: 'a-1', tool: 'a' }] })).toMatchObject({
      type: 'execute_tools',
    });
  });

  test('keeps its parts when a continuation is taken back, and is gone on with, not begun anew (K11, K13)', () => {
    const turn = turnIn.thinking();
    part(turn);
    for (const stepIndex of [2, 3])
      expect(turn.feed({ type: 'timeout', nowMs: 1_000, stepIndex, message: 'm' })).toMatchObject({
        type: 'call_llm',
        note: { kind: 'go_on' },
        plan: { ranges: [{ fromSeq: 1, toSeq: 2 }] },
      });
    expect(turn.say()).toMatchObject({ deliverable: { cardId: 'thought-4', parts: ['thought-1'] } });
  });

  test('is begun anew when it went over to calls and those are taken back (K11, K13)', () => {
    const turn = turnIn.thinking();
    part(turn);
    turn.call('a');
    expect(turn.results({ a: { status: 'failed', errorCode: 'x', errorKind: 'fatal' } })).toMatchObject({
      note: { kind: 'rolled_back' },
    });
    expect(turn.say()).toMatchObject({ deliverable: { from: 'thought', cardId: 'thought-3' } });
    expect(turn.state.answerParts).toEqual([]);
  });

  test('is still to be ended by the required tool (K11, W13)', () => {
    const turn = new Turn({ mustEndWith: ['publish'] });
    turn.start();
    expect(part(turn)).toMatchObject({ note: { kind: 'go_on' } });
    expect(turn.say()).toMatchObject({ note: { kind: 'must_end_with' } });
  });

  test('whose last part is followed by a reminder, or by a budget that is used up, has all of it observed (K9, K11)', () => {
    const turn = new Turn({ mustEndWith: ['publish'], budgets: { maxSteps: 4 } });
    turn.start();
    for (let time = 1; time <= 4; time += 1) part(turn);
    expect(turn.observations.slice(-3)).toMatchObject([
      { type: 'truncated', part: 4 },
      { type: 'reminded' },
      { type: 'budget_hit', code: 'max_steps_reached' },
    ]);
  });

  test('takes steps: a continuation that no budget is left for is a report (K9, K11)', () => {
    const turn = new Turn({ budgets: { maxSteps: 1 } });
    turn.start();
    expect(part(turn)).toMatchObject({ note: { kind: 'final_report' } });
  });
});
