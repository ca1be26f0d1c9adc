import { describe, expect, test } from '@jest/globals';
import type { KernelAction } from '../../../workflows/kernel/actions.ts';
import { estimatedTokens } from '../../../workflows/kernel/pressure.ts';
import { NOW, OUTPUT_BOX, pressure, Turn, turnIn } from './turn.ts';

/** Brings the summary that the turn waits for. */
function summarized(turn: Turn, usage = { input: 0, output: 0, cached: 0 }): KernelAction | undefined {
  const { stepIndex } = turn.state;
  const summary = [turn.seq(), 'summary', 90] as const;
  return turn.feed({ type: 'summarized', nowMs: NOW, stepIndex: stepIndex + 1, summary, usage, cost: 0 });
}

/** Steps that each call a tool with a long result. */
function long(turn: Turn, times: number): void {
  for (let time = 0; time < times; time += 1) {
    turn.call('a');
    turn.results({ a: { tokens: 1_000 } });
  }
}

const overflows = (turn: Turn) => turn.observations.flatMap((seen) => (seen.type === 'overflow' ? [seen.time] : []));

describe('a prompt that the provider finds too long', () => {
  test('is made shorter by all that may go, and sent again as a step of its own (K11)', () => {
    const turn = turnIn.thinking();
    long(turn, 5);
    const before = estimatedTokens(turn.state);
    expect(turn.fail('context_overflow')).toMatchObject({
      type: 'summarize',
      stepIndex: 7,
      mode: 'summary',
      hide: [{ boxId: OUTPUT_BOX, fromSeq: 2 }],
    });
    expect(summarized(turn)).toMatchObject({ type: 'call_llm', stepIndex: 7 });
    expect(estimatedTokens(turn.state)).toBeLessThan(before * 0.65);
    expect(overflows(turn)).toEqual([1]);
  });

  test('is sent again with what it carried (K11)', () => {
    const turn = new Turn({ mustEndWith: ['publish'] });
    turn.start();
    turn.say();
    expect(turn.fail('context_overflow')).toMatchObject({ stepIndex: 3, note: { kind: 'must_end_with' } });
  });

  test('is shortened twice; then the turn fails with context_overflow (K11)', () => {
    const turn = turnIn.thinking();
    expect(turn.fail('context_overflow')).toMatchObject({ type: 'call_llm', stepIndex: 2 });
    expect(turn.fail('context_overflow')).toMatchObject({ type: 'call_llm', stepIndex: 3 });
    expect(turn.fail('context_overflow')).toMatchObject({
      type: 'done',
      termination: { status: 'failed', errorCode: 'context_overflow' },
    });
    expect(overflows(turn)).toEqual([1, 2]);
  });

  test('is sent again twice though nothing is left to shorten, whatever its size (K11)', () => {
    for (let fixedTokens = 1; fixedTokens <= 300; fixedTokens += 1) {
      const turn = new Turn({ context: { windowTokens: 4_000, answerTokens: 200, fixedTokens } });
      turn.start();
      for (let time = 0; time < 2; time += 1) expect(turn.fail('context_overflow')?.type).toBe('call_llm');
      expect(turn.fail('context_overflow')).toMatchObject({ type: 'done' });
    }
  });

  test('may be shortened twice again once the provider took one (K11)', () => {
    const turn = turnIn.thinking();
    turn.fail('context_overflow');
    turn.fail('context_overflow');
    long(turn, 1);
    expect(turn.fail('context_overflow')).toMatchObject({ type: 'call_llm' });
    expect(overflows(turn)).toEqual([1, 2, 1]);
  });

  test('is foreseen by what a provider counted; a count of our own teaches nothing about ours (K15)', () => {
    const used = { input: 1_000, output: 2, cached: 0 };
    const own = turnIn.thinking();
    own.respond({ usage: { ...used, estimated: true } });
    expect(own.state.context.correction).toBe(1);
    expect(own.state.usage).toEqual({ ...used, estimated: true });
    const theirs = turnIn.thinking();
    theirs.respond({ usage: used });
    expect(theirs.state.context.correction).toBeGreaterThan(1);
  });

  test('teaches that our count was too low (K11, K15)', () => {
    const turn = turnIn.thinking();
    long(turn, 2);
    expect(pressure(turn.state)).toBeLessThan(0.1);
    turn.fail('context_overflow');
    expect(turn.state.context.correction).toBeGreaterThan(100);
  });

  test('when it is the report, is sent again as the report; at last the turn ends with the code of the budget (K9, K11)', () => {
    const turn = new Turn({ budgets: { maxSteps: 1 } });
    turn.start();
    long(turn, 1);
    for (let time = 0; time < 2; time += 1)
      expect(turn.fail('context_overflow')).toMatchObject({ type: 'call_llm', note: { kind: 'final_report' } });
    expect(turn.fail('context_overflow')).toMatchObject({
      termination: { status: 'failed', errorCode: 'max_steps_reached' },
    });
  });
});

describe('a prompt that cannot be made to fit', () => {
  test('is not sent: a turn whose system text and tools fill the window ends at its start (K15)', () => {
    const turn = new Turn({ context: { windowTokens: 4_000, answerTokens: 200, fixedTokens: 3_790 } });
    expect(turn.start([{ boxId: OUTPUT_BOX, fromSeq: 1, toSeq: 9, tokens: [50, 40, 30, 20] }])).toMatchObject({
      type: 'summarize',
    });
    expect(summarized(turn)).toEqual({
      type: 'done',
      termination: { status: 'failed', errorCode: 'context_overflow', reason: expect.stringContaining('window') },
      deliverable: { from: 'fallback' },
    });
    expect(turn.actions.filter(({ type }) => type === 'call_llm')).toEqual([]);
  });
});

describe('what came with the request', () => {
  test('stays, and whole, when everything goes that may (K11, K15)', () => {
    const turn = new Turn();
    turn.start([{ boxId: 'context', fromSeq: 1, toSeq: 3, tokens: [900, 90, 50, 9] }]);
    long(turn, 5);
    expect(turn.fail('context_overflow')).toMatchObject({ type: 'summarize', hide: [{ boxId: OUTPUT_BOX }] });
    expect(summarized(turn)).toMatchObject({
      plan: { ranges: expect.arrayContaining([{ boxId: 'context', fromSeq: 1, toSeq: 3 }]) },
    });
  });
});

describe('a summary', () => {
  const remembering = (): Turn => turnIn.shortening();

  test('is asked for before the model call it makes room for, of what leaves the view (K15)', () => {
    expect(remembering().actions.at(-1)).toMatchObject({
      type: 'summarize',
      stepIndex: 1,
      mode: 'summary',
      plan: { ranges: [{ boxId: OUTPUT_BOX, fromSeq: 1, toSeq: 9 }] },
      hide: [{ boxId: OUTPUT_BOX, fromSeq: 1, toSeq: 9 }],
      maxTokens: 400,
    });
  });

  test('takes the first place in the plan; the tokens are exact afterwards (K14, K15)', () => {
    const turn = remembering();
    expect(summarized(turn)).toMatchObject({
      type: 'call_llm',
      stepIndex: 1,
      plan: {
        ranges: [
          { boxId: OUTPUT_BOX, fromSeq: 11, toSeq: 11 },
          { boxId: OUTPUT_BOX, fromSeq: 10, toSeq: 10 },
        ],
      },
    });
    expect(estimatedTokens(turn.state)).toBe(100 + 90 + 7 + 8);
    expect(turn.observations).toEqual([{ type: 'shortened', mode: 'summary', cards: 1, tokens: 3_900 - 90 }]);
  });

  test('is paid for: it may use up the budget, then a report is asked for (K9, K15)', () => {
    const turn = remembering();
    expect(summarized(turn, { input: 999_000, output: 1_000, cached: 0 })).toMatchObject({
      type: 'call_llm',
      note: { kind: 'final_report' },
    });
    expect(turn.state.usage.input).toBe(999_000);
  });
});

describe('a new sprint', () => {
  test('begins with the task, the summary and the newest unit, and is counted (K16)', () => {
    const turn = new Turn({ context: { windowTokens: 10_000, answerTokens: 0, fixedTokens: 0 } });
    turn.start();
    const usage = { input: 1, output: 1, cached: 0 };
    const thought = (tokens: number) =>
      turn.feed({
        type: 'llm_response',
        nowMs: NOW,
        stepIndex: turn.state.stepIndex,
        handles: [[turn.seq(), 'assistant', tokens]],
        thoughtCardId: `t-${tokens}`,
        hasText: true,
        refused: false,
        calls: [],
        usage,
        truncated: 'provider',
      });
    thought(4_900);
    expect(thought(4_950)).toMatchObject({ type: 'summarize', mode: 'sprint', hide: [{ fromSeq: 2, toSeq: 2 }] });
    expect(summarized(turn)).toMatchObject({
      type: 'call_llm',
      plan: {
        ranges: [
          { fromSeq: 4, toSeq: 4 },
          { fromSeq: 1, toSeq: 1 },
          { fromSeq: 3, toSeq: 3 },
        ],
      },
    });
    expect(turn.state.context.sprint).toBe(1);
    expect(turn.observations.at(-1)).toMatchObject({ type: 'shortened', mode: 'sprint' });
    expect(turn.say()).toMatchObject({ deliverable: { parts: ['t-4900', 't-4950'] } });
  });
});
