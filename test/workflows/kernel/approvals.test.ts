import { describe, expect, test } from '@jest/globals';
import type { ApprovalDecision } from '../../../workflows/kernel/events.ts';
import { lifecycleOf, openQuestion } from '../../../workflows/kernel/phase.ts';
import { governance, NOW, Turn } from './turn.ts';

const DEADLINE = 5_000;

const policy = governance({
  default: 'allow',
  rules: [{ tool: 'g*', action: 'ask', reason: 'it needs approval' }],
  constraints: [{ tool: 'g*', path: 'amount', max: 10 }],
  rateLimits: [{ tool: 'g1', max: 1, windowMs: 1_000 }],
});

/** A turn that waits for the approvals of `gated`, after the results of its other calls, `free`, are in. */
function asked(gated: readonly string[], free: readonly string[] = []): Turn {
  const turn = new Turn({ governance: policy });
  turn.start();
  turn.call(...free, ...gated);
  const wait = Object.fromEntries(gated.map((tool) => [tool, DEADLINE]));
  turn.results(Object.fromEntries(free.map((tool) => [tool, {}])), wait);
  return turn;
}

const answer = (callId: string, more: Partial<ApprovalDecision> = {}): ApprovalDecision => ({
  callId,
  decision: 'approved',
  ...more,
});

describe('a gated call', () => {
  test('is asked about while its siblings run, and the turn awaits the approval (K7)', () => {
    const turn = new Turn({ governance: policy });
    turn.start();
    expect(turn.call('a', 'g1')).toEqual({
      type: 'execute_tools',
      stepIndex: 1,
      calls: [{ callId: 'a-1', tool: 'a' }],
      ask: [{ callId: 'g1-1', tool: 'g1', reason: 'it needs approval' }],
    });
    expect(turn.results({ a: {} }, { g1: DEADLINE })).toEqual({
      type: 'await',
      wait: 'approval',
      deadline: DEADLINE,
    });
    expect(lifecycleOf(turn.state)).toBe('suspended');
    expect(turn.observations).toMatchObject([{ type: 'tool_gated', decision: 'ask', stage: 'permission' }]);
  });

  test('is awaited as an approval; without one the turn awaits tools, until the nearest deadline (K2)', () => {
    const gated = new Turn({ governance: policy });
    gated.start();
    gated.call('a', 'g1');
    expect(gated.results({}, { a: 900, g1: DEADLINE })).toEqual({ type: 'await', wait: 'approval', deadline: 900 });
    const free = new Turn({ governance: policy });
    free.start();
    free.call('a', 'b');
    expect(free.results({}, { a: 900, b: 800 })).toEqual({ type: 'await', wait: 'tools', deadline: 800 });
  });
});

describe('an approval', () => {
  test('lets the call run, which is not asked about again (K7)', () => {
    const turn = asked(['g1'], ['a']);
    expect(turn.approve(answer('g1-1'))).toEqual({
      type: 'execute_tools',
      stepIndex: 1,
      calls: [{ callId: 'g1-1', tool: 'g1' }],
    });
    expect(lifecycleOf(turn.state)).toBe('running');
    expect(turn.state).toMatchObject({ phase: { kind: 'acting' }, toolCalls: 2, rateWindows: { g1: [NOW] } });
    expect(turn.observations.at(-1)).toEqual({ type: 'approval_answered', callId: 'g1-1', decision: 'approved' });
    expect(turn.results({ g1: {} })).toMatchObject({ type: 'call_llm', stepIndex: 2 });
  });

  test('is about one call: the next one of the same tool is asked about (K7)', () => {
    const turn = asked(['g1']);
    turn.approve(answer('g1-1'));
    turn.results({ g1: {} });
    expect(turn.call('g2')).toMatchObject({ calls: [], ask: [{ callId: 'g2-2' }] });
  });

  test('of a call that then waits for the outside leaves it a waiting tool (K7)', () => {
    const turn = asked(['g1']);
    turn.approve(answer('g1-1'));
    expect(turn.results({}, { g1: 9_000 })).toEqual({ type: 'await', wait: 'tools', deadline: 9_000 });
  });

  test.each([
    ['denied', 'approval_denied', { by: 'ann', reason: 'too much' }, 'ann denied g1: too much'],
    ['denied', 'approval_denied', {}, 'an approver denied g1'],
    ['unanswered', 'approval_unanswered', {}, 'nobody approved g1 in time; it was not run'],
  ] as const)('that is %s refuses the call: %s (K7)', (decision, code, more, message) => {
    const turn = asked(['g1']);
    expect(turn.approve(answer('g1-1', { decision, ...more }))).toEqual({
      type: 'execute_tools',
      stepIndex: 1,
      calls: [],
      refuse: [{ callId: 'g1-1', tool: 'g1', code, message }],
    });
    expect(turn.state).toMatchObject({ toolCalls: 0, rateWindows: {} });
    expect(turn.results({ g1: { status: 'failed', errorCode: code } })).toMatchObject({
      type: 'call_llm',
      stepIndex: 2,
    });
    expect(turn.state.rollbacks).toBe(0);
  });

  test('with edited arguments is judged again, though not asked about again (K7)', () => {
    const values = (amount: number) => ({ edited: { facts: { values: { amount }, oversized: [] } } });
    expect(asked(['g1']).approve(answer('g1-1', values(10)))).toMatchObject({ calls: [{ callId: 'g1-1' }] });
    const refused = asked(['g1']).approve(answer('g1-1', values(11)));
    expect(refused).toMatchObject({ calls: [], refuse: [{ callId: 'g1-1', code: 'governance_denied' }] });
  });

  test('answers two calls one by one: the other is waited for on (K7)', () => {
    const turn = asked(['g1', 'g2']);
    expect(turn.approve(answer('g2-1'))).toMatchObject({ calls: [{ callId: 'g2-1' }] });
    expect(turn.results({ g2: {} })).toEqual({ type: 'await', wait: 'approval', deadline: DEADLINE });
    expect(turn.approve(answer('g2-1'))).toBeUndefined();
    expect(turn.approve(answer('g1-1'))).toMatchObject({ calls: [{ callId: 'g1-1' }] });
    expect(turn.results({ g1: {} })).toMatchObject({ type: 'call_llm' });
  });

  test('of one leaves its result when a sibling is denied: both are in view of the model (K7)', () => {
    const turn = asked(['g1', 'g2'], ['a']);
    expect(turn.approve(answer('g1-1'), answer('g2-1', { decision: 'denied' }))).toMatchObject({
      calls: [{ callId: 'g1-1' }],
      refuse: [{ callId: 'g2-1', code: 'approval_denied' }],
    });
    expect(turn.state.toolCalls).toBe(2);
    const next = turn.results({ g1: {}, g2: { status: 'failed', errorCode: 'approval_denied' } });
    expect(next).toMatchObject({ type: 'call_llm', plan: { ranges: [{ fromSeq: 1, toSeq: 5 }] } });
    expect(next).not.toHaveProperty('hide');
    expect(turn.state.handles.map(([, role]) => role)).toEqual(['user', 'assistant', 'tool', 'tool', 'tool']);
  });

  test('of nobody, of a stranger or twice changes nothing (K1, K7)', () => {
    for (const answers of [[], [answer('z')], [answer('g1-1'), answer('g1-1')]]) {
      const turn = asked(['g1']);
      const before = turn.state;
      expect(turn.approve(...answers)).toBeUndefined();
      expect(turn.state).toBe(before);
    }
  });
});

describe('an operator', () => {
  const exhausted = (): Turn => {
    const turn = new Turn({ budgets: { maxSteps: 1, onExhausted: 'ask' } });
    turn.start();
    turn.call('a');
    turn.results({ a: {} });
    return turn;
  };
  const askId = 'budget-1-max_steps_reached';

  test('is asked to extend a budget that is used up (K9)', () => {
    const turn = exhausted();
    expect(turn.actions.at(-1)).toMatchObject({ type: 'await', wait: 'operator', askId, used: 1, limit: 1 });
    expect(lifecycleOf(turn.state)).toBe('suspended');
  });

  test('is answered for by nothing else: results, approvals of calls and messages change nothing (K1, K9)', () => {
    const turn = exhausted();
    const before = turn.state;
    turn.results({ a: {} });
    turn.approve(answer('a-1'));
    turn.approve(answer(askId), answer(askId));
    turn.say();
    expect(turn.state).toBe(before);
    expect(turn.observations.slice(-4).map(({ type }) => type)).toEqual(Array(4).fill('event_ignored'));
  });

  test('who extends it lets the turn go on (K9)', () => {
    const turn = exhausted();
    const budgets = { maxSteps: 3 };
    turn.feed({ type: 'budgets', nowMs: NOW, budgets });
    const action = turn.approve(answer(askId));
    expect(action).toMatchObject({ type: 'call_llm', stepIndex: 2 });
    expect(action).not.toHaveProperty('note');
    expect(turn.state.budgets.maxSteps).toBe(3);
  });

  test('who extends it by too little is asked again, and that is another question each time (K9)', () => {
    const turn = exhausted();
    const ids: string[] = [];
    for (const budgets of [{ maxTokens: 2_000_000 }, { maxSteps: 1 }, {}]) {
      ids.push(openQuestion(turn.state)?.askId ?? '');
      turn.feed({ type: 'budgets', nowMs: NOW, budgets });
      expect(turn.approve(answer(ids.at(-1) ?? ''))).toMatchObject({ type: 'await', wait: 'operator' });
    }
    expect(ids).toEqual([askId, `${askId}-2`, `${askId}-3`]);
    turn.feed({ type: 'budgets', nowMs: NOW, budgets: { maxSteps: 2 } });
    expect(turn.approve(answer(`${askId}-4`))).toMatchObject({ type: 'call_llm' });
    turn.call('b');
    expect(turn.results({ b: {} })).toMatchObject({ wait: 'operator', askId: 'budget-2-max_steps_reached' });
  });

  test('is asked again when the summary that came first used up what was given (K9)', () => {
    const turn = new Turn({
      budgets: { maxTokens: 10_000, onExhausted: 'ask' },
      context: { windowTokens: 4_000, answerTokens: 200, fixedTokens: 100 },
    });
    turn.start();
    for (const input of [1, 1, 1, 9_999]) {
      const calls = [{ callId: turn.idOf('a'), tool: 'a' }];
      turn.respond({ calls, handles: [[turn.seq(), 'assistant', 900]], usage: { input, output: 0, cached: 0 } });
      turn.results({ a: {} });
    }
    const first = openQuestion(turn.state)?.askId ?? '';
    turn.feed({ type: 'budgets', nowMs: NOW, budgets: { maxTokens: 12_000 } });
    expect(turn.approve(answer(first))).toMatchObject({ type: 'summarize' });
    const summary = [turn.seq(), 'summary', 100] as const;
    const usage = { input: 3_000, output: 0, cached: 0 };
    const stepIndex = turn.state.stepIndex + 1;
    const next = turn.feed({ type: 'summarized', nowMs: NOW, stepIndex, summary, usage, cost: 0 });
    expect(next).toMatchObject({ wait: 'operator', askId: `${first}-2` });
  });

  test('is not asked about a cost that is not known: no limit lifts it (K9)', () => {
    const turn = new Turn({ budgets: { maxCost: 1, onExhausted: 'ask' } });
    turn.start();
    turn.respond({ calls: [{ callId: 'a-1', tool: 'a' }], cost: null });
    expect(turn.results({ a: {} })).toMatchObject({ note: { kind: 'final_report' } });
  });

  test('who does not answer lets the turn go on when the budget was raised meanwhile; one who says no does not (K9)', () => {
    for (const [decision, goesOn] of [
      ['unanswered', true],
      ['denied', false],
    ] as const) {
      const turn = exhausted();
      turn.feed({ type: 'budgets', nowMs: NOW, budgets: { maxSteps: 2 } });
      const action = turn.approve(answer(askId, { decision }));
      expect(action?.type === 'call_llm' && action.note === undefined).toBe(goesOn);
    }
  });

  test.each(['denied', 'unanswered'] as const)('whose answer is %s ends it with a report (K9)', (decision) => {
    const turn = exhausted();
    expect(turn.approve(answer(askId, { decision }))).toMatchObject({ note: { kind: 'final_report' } });
    expect(turn.say()).toMatchObject({ termination: { status: 'partial', errorCode: 'max_steps_reached' } });
  });
});
