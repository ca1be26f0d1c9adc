import { describe, expect, test } from '@jest/globals';
import type { KernelAction, SummarizeAction } from '../../../workflows/kernel/actions.ts';
import type { Delegated } from '../../../workflows/kernel/budgets.ts';
import { endingOf, openQuestion } from '../../../workflows/kernel/phase.ts';
import { type ConfigPart, NOW, Turn } from './turn.ts';

const modelCalls = (actions: readonly KernelAction[]): number =>
  actions.filter((action) => action.type === 'call_llm').length;

/** Runs tool rounds until the kernel asks for the final report. */
function exhausted(more: ConfigPart = {}): Turn {
  const turn = new Turn({ budgets: { maxSteps: 2, maxTokens: 1_000_000 }, ...more });
  turn.start();
  while (endingOf(turn.state) === null) {
    turn.call('a');
    turn.results({ a: {} });
  }
  return turn;
}

const submission = (turn: Turn) => {
  const settled = turn.settled('submit_result', { afterExecution: 'terminate' });
  return { callId: settled.callId, tool: 'submit_result', settled };
};

describe('the step budget', () => {
  test.each([1, 2, 5])('of %i allows exactly that many model calls, then one final report (K9)', (maxSteps) => {
    const turn = exhausted({ budgets: { maxSteps, maxTokens: 1_000_000 } });
    expect(turn.actions.at(-1)).toMatchObject({
      type: 'call_llm',
      stepIndex: maxSteps + 1,
      onlyTools: ['submit_result'],
      note: { kind: 'final_report', reason: expect.stringContaining(String(maxSteps)) },
    });
    expect(turn.observations).toEqual([
      { type: 'budget_hit', code: 'max_steps_reached', used: maxSteps, limit: maxSteps },
    ]);
    turn.call('a');
    expect(turn.state.phase.kind).toBe('done');
    expect(modelCalls(turn.actions)).toBe(maxSteps + 1);
  });

  test('is not hit by a turn that ends on its last step (K9)', () => {
    const turn = new Turn({ budgets: { maxSteps: 2, maxTokens: 1_000 } });
    turn.start();
    turn.call('a');
    turn.results({ a: {} });
    expect(turn.say()).toMatchObject({ termination: { status: 'success' } });
    expect(turn.observations).toEqual([]);
  });
});

describe('the token budget', () => {
  const spend = (turn: Turn, input: number, output: number) => {
    turn.respond({ calls: [{ callId: turn.idOf('a'), tool: 'a' }], usage: { input, output, cached: input } });
    return turn.results({ a: {} });
  };
  const budgets = { maxSteps: 50, maxTokens: 100 };

  test('counts input and output, and is hit when they reach the limit exactly (K9)', () => {
    const turn = new Turn({ budgets });
    turn.start();
    expect(spend(turn, 50, 49)).not.toHaveProperty('note');
    expect(spend(turn, 1, 0)).toMatchObject({ note: { kind: 'final_report' } });
    expect(turn.observations).toEqual([{ type: 'budget_hit', code: 'budget_tokens', used: 100, limit: 100 }]);
    expect(turn.say()).toMatchObject({ termination: { status: 'partial', errorCode: 'budget_tokens' } });
  });

  test('does not end a turn whose answer is already there (K9)', () => {
    const turn = new Turn({ budgets });
    turn.start();
    const usage = { input: 500, output: 500, cached: 0 };
    expect(turn.respond({ hasText: true, usage })).toMatchObject({ termination: { status: 'success' } });
  });

  test('waits for calls that are out: it is checked before a model call only (K9)', () => {
    const turn = new Turn({ budgets });
    turn.start();
    const usage = { input: 500, output: 0, cached: 0 };
    expect(turn.respond({ calls: [{ callId: 'a-1', tool: 'a' }], usage })).toMatchObject({ type: 'execute_tools' });
    expect(turn.results({}, { a: 5_000 })).toMatchObject({ type: 'await' });
    expect(turn.results({ a: {} })).toMatchObject({ note: { kind: 'final_report' } });
  });
});

describe('the other budgets', () => {
  const report = { type: 'call_llm', note: { kind: 'final_report' } };

  test('of wall time counts from the start, and is hit when it is reached (K9)', () => {
    for (const [passed, hit] of [
      [999, false],
      [1_000, true],
    ] as const) {
      const turn = new Turn({ budgets: { maxWallTimeMs: 1_000 } });
      turn.start();
      turn.call('a');
      const settled = [turn.settled('a')];
      const next = turn.feed({ type: 'tool_results', nowMs: NOW + passed, settled, suspended: [] });
      expect(next?.type === 'call_llm' && next.note !== undefined).toBe(hit);
      expect(turn.say()).toMatchObject({
        termination: hit ? { status: 'partial', errorCode: 'budget_wall_time' } : { status: 'success' },
      });
    }
  });

  test('of cost counts every model call, and is hit when it is reached (K9)', () => {
    const turn = new Turn({ budgets: { maxCost: 1 } });
    turn.start();
    const spend = (cost: number | null) => {
      turn.respond({ calls: [{ callId: turn.idOf('a'), tool: 'a' }], cost });
      return turn.results({ a: {} });
    };
    expect(spend(0.75)).not.toHaveProperty('note');
    expect(spend(0.25)).toMatchObject(report);
    expect(turn.observations).toEqual([{ type: 'budget_hit', code: 'budget_cost', used: 1, limit: 1 }]);
  });

  test('of cost is used up by a price nobody knows; without a limit it does not matter (K9)', () => {
    for (const budgets of [{ maxCost: 1 }, {}]) {
      const turn = new Turn({ budgets });
      turn.start();
      turn.respond({ calls: [{ callId: 'a-1', tool: 'a' }], cost: null });
      const next = turn.results({ a: {} });
      expect(next?.type === 'call_llm' && next.note !== undefined).toBe('maxCost' in budgets);
    }
  });

  const stand = (turn: Turn, delegated: Delegated) => turn.feed({ type: 'delegated', nowMs: NOW, delegated });

  test.each([
    ['tokens', { maxTokens: 912 }, { tokens: 900, cost: 0.5, open: true }, true],
    ['tokens that are one short of it', { maxTokens: 913 }, { tokens: 900, cost: 0.5, open: true }, false],
    ['money', { maxCost: 0.5 }, { tokens: 1, cost: 0.5, open: false }, true],
    ['money that nobody can count', { maxCost: 9 }, { tokens: 1, cost: null, open: false }, true],
    ['money that nobody budgets', {}, { tokens: 1, cost: null, open: false }, false],
  ] as const)('are used up by what delegated turns hold or spent: %s (K9)', (_, budgets, delegated, hit) => {
    const turn = new Turn({ budgets });
    turn.start();
    turn.call('a');
    expect(stand(turn, delegated)).toBeUndefined();
    const next = turn.results({ a: {} });
    expect(next?.type === 'call_llm' && next.note !== undefined).toBe(hit);
  });

  test('count delegated turns by the last sum: none twice, and a smaller one gives back (K9)', () => {
    const turn = new Turn({ budgets: { maxTokens: 1_000 } });
    turn.start();
    for (const tokens of [900, 900, 990, 300]) {
      turn.call('a');
      stand(turn, { tokens, cost: 0, open: tokens > 300 });
      // An event without a sum leaves the sum as it is.
      turn.feed({ type: 'budgets', nowMs: NOW, budgets: { maxSteps: 40 } });
      if (tokens === 990) stand(turn, { tokens: 300, cost: 0, open: false });
      expect(turn.results({ a: {} })).not.toHaveProperty('note');
    }
    expect(turn.state.delegated).toEqual({ tokens: 300, cost: 0, open: false });
    expect(turn.state.usage).toMatchObject({ input: 40, output: 8 });
  });

  test('ask no operator about money that nobody can count (K9)', () => {
    const turn = new Turn({ budgets: { maxCost: 1, onExhausted: 'ask' } });
    turn.start();
    turn.call('a');
    stand(turn, { tokens: 1, cost: null, open: false });
    expect(turn.results({ a: {} })).toMatchObject(report);
  });

  test('may be changed while the turn runs, and count before the next model call (K9)', () => {
    const turn = new Turn({ budgets: { maxSteps: 9 } });
    turn.start();
    turn.call('a');
    expect(turn.feed({ type: 'budgets', nowMs: NOW, budgets: { maxSteps: 1 } })).toBeUndefined();
    expect(turn.state.budgets).toMatchObject({ maxSteps: 1, maxToolCalls: 200 });
    expect(turn.results({ a: {} })).toMatchObject(report);
  });
});

describe('a budget of calls that is raised', () => {
  const refused = { status: 'failed', errorCode: 'budget_tool_calls' } as const;

  test.each(['at once', 'with the answer to the question'] as const)(
    '%s is a new one: calls refused before do not end the turn (K9)',
    (when) => {
      const turn = new Turn({ budgets: { maxToolCalls: 1, onExhausted: when === 'at once' ? 'finish' : 'ask' } });
      turn.start();
      turn.call('a', 'b');
      const raised = { type: 'budgets', nowMs: NOW, budgets: { maxToolCalls: 3 } } as const;
      if (when === 'at once') turn.feed(raised);
      turn.results({ a: {}, b: refused });
      const question = openQuestion(turn.state);
      if (question) {
        turn.feed(raised);
        turn.approve({ callId: question.askId, decision: 'approved' });
      }
      turn.call('c', 'd');
      // All three calls are used and none has been refused since, so the model may still answer.
      const next = turn.results({ c: {}, d: {} });
      expect(next).toMatchObject({ type: 'call_llm' });
      expect(next).not.toHaveProperty('note');
    },
  );

  test('on another axis leaves what was refused refused (K9)', () => {
    const turn = new Turn({ budgets: { maxToolCalls: 1 } });
    turn.start();
    turn.call('a', 'b');
    turn.feed({ type: 'budgets', nowMs: NOW, budgets: { maxSteps: 9 } });
    expect(turn.results({ a: {}, b: refused })).toMatchObject({ note: { kind: 'final_report' } });
  });
});

describe('budgets that are said again', () => {
  test('change nothing, and nothing is said of it (K9)', () => {
    const turn = new Turn({ budgets: { maxSteps: 9 } });
    turn.start();
    turn.feed({ type: 'budgets', nowMs: NOW, budgets: { maxSteps: 1 } });
    const before = turn.state;
    turn.feed({ type: 'budgets', nowMs: NOW, budgets: { maxSteps: 1, maxToolCalls: 200 } });
    expect(turn.state).toBe(before);
    expect(turn.observations).toEqual([{ type: 'budgets_changed', budgets: { maxSteps: 1 } }]);
  });
});

describe('the final report', () => {
  test('with a text makes the turn partial and is its deliverable (T8)', () => {
    const turn = exhausted();
    expect(turn.say()).toMatchObject({
      type: 'done',
      termination: { status: 'partial', errorCode: 'max_steps_reached' },
      deliverable: { from: 'thought', cardId: 'thought-3' },
    });
  });

  test('without a text makes it failed with the same code (T8)', () => {
    const turn = exhausted();
    expect(turn.respond()).toMatchObject({
      termination: { status: 'failed', errorCode: 'max_steps_reached' },
      deliverable: { from: 'fallback' },
    });
  });

  test('by submit_result makes it partial with those fields (K9)', () => {
    const turn = exhausted();
    expect(turn.respond({ hasText: true, calls: [submission(turn)] })).toMatchObject({
      termination: { status: 'partial', errorCode: 'max_steps_reached' },
      deliverable: { from: 'submit_result', callId: 'submit_result-3' },
    });
  });

  test('ignores other tool calls in it: nothing runs any more (K9)', () => {
    const turn = exhausted();
    const calls = [submission(turn), { callId: 'a-3', tool: 'a' }];
    expect(turn.respond({ calls })).toMatchObject({ deliverable: { from: 'submit_result' } });
    const other = exhausted();
    expect(other.respond({ hasText: true, calls: [{ callId: 'a-3', tool: 'a' }] })).toMatchObject({
      termination: { status: 'partial' },
      deliverable: { from: 'thought' },
    });
    const silent = exhausted();
    expect(silent.call('a')).toMatchObject({ termination: { status: 'failed' } });
  });

  test('with a refused submission and no text makes it failed (T8)', () => {
    const turn = exhausted();
    const settled = turn.settled('submit_result', { status: 'failed', errorCode: 'missing_result_fields' });
    const calls = [{ callId: settled.callId, tool: 'submit_result', settled }];
    expect(turn.respond({ calls })).toMatchObject({ termination: { status: 'failed' } });
  });

  test('that the model refuses is no usable report: the turn is failed with the code of the budget (T8)', () => {
    const turn = exhausted();
    expect(turn.respond({ refused: true, hasText: true })).toMatchObject({
      termination: { status: 'failed', errorCode: 'max_steps_reached' },
      deliverable: { from: 'fallback' },
    });
  });

  test.each(['provider_error', 'provider_auth'] as const)(
    'whose model call fails with %s makes the turn failed with the code of the budget (T8)',
    (code) => {
      const turn = exhausted();
      expect(turn.fail(code)).toMatchObject({
        termination: { status: 'failed', errorCode: 'max_steps_reached' },
        deliverable: { from: 'fallback' },
      });
    },
  );

  test.each([
    [5_000, { byRule: true }],
    [1_000_000, {}],
  ])('is the one model call after the budget: with %i tokens its room is made %j (K9)', (maxTokens, how) => {
    const turn = new Turn({
      budgets: { maxTokens },
      context: { windowTokens: 4_000, answerTokens: 200, fixedTokens: 100 },
    });
    turn.start();
    for (const input of [1, 1, 1, 5_000]) {
      const handles = [[turn.seq(), 'assistant', 900]] as const;
      const calls = [{ callId: turn.idOf('a'), tool: 'a' }];
      turn.respond({ handles, calls, usage: { input, output: 0, cached: 0 } });
      turn.results({ a: {} });
    }
    const { type, plan, hide } = turn.actions.at(-1) as SummarizeAction;
    expect(turn.actions.at(-1)).toEqual({ type, stepIndex: 5, mode: 'summary', plan, hide, maxTokens: 400, ...how });
    const usage = { input: 0, output: 0, cached: 0 };
    const summary = [turn.seq(), 'summary', 100] as const;
    const next = turn.feed({ type: 'summarized', nowMs: NOW, stepIndex: 5, summary, usage, cost: 0 });
    expect(next?.type === 'call_llm' && next.note !== undefined).toBe('byRule' in how);
  });

  test('offers nothing where the profile does not use submit_result (K9)', () => {
    const turn = exhausted({ submitResult: false });
    expect(turn.actions.at(-1)).toMatchObject({ onlyTools: [], note: { kind: 'final_report' } });
  });

  test('takes the place of a reminder: its note is the only one (K9, W13)', () => {
    const turn = new Turn({ mustEndWith: ['publish'], budgets: { maxSteps: 1, maxTokens: 1_000 } });
    turn.start();
    const report = turn.say();
    expect(report).toMatchObject({ onlyTools: ['submit_result'], note: { kind: 'final_report' } });
    expect(report).not.toHaveProperty('requireTool');
  });
});
