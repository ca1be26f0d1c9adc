import { describe, expect, test } from '@jest/globals';
import { Turn } from './turn.ts';

describe('the plan', () => {
  const earlier = [
    { boxId: 'output', fromSeq: 1, toSeq: 20 },
    { boxId: 'context', fromSeq: 1, toSeq: 3 },
  ];

  test('names earlier turns first, then the context, then the cards of this turn (T24)', () => {
    const turn = new Turn();
    turn.start(earlier);
    turn.call('a');
    expect(turn.results({ a: {} })).toMatchObject({
      plan: { ranges: [...earlier, { boxId: 'output', fromSeq: 21, toSeq: 23 }] },
    });
  });

  test('leaves out an extent that is empty', () => {
    const turn = new Turn();
    const empty = { boxId: 'context', fromSeq: 1, toSeq: 0 };
    expect(turn.start([empty])).toMatchObject({ plan: { ranges: [{ boxId: 'output', fromSeq: 1, toSeq: 1 }] } });
  });

  test('bridges the places of cards that are never rendered (K3)', () => {
    const turn = new Turn();
    turn.start();
    turn.call('a', 'b');
    for (let card = 0; card < 2; card += 1) turn.seq();
    expect(turn.results({ a: {}, b: {} })).toMatchObject({
      plan: { ranges: [{ boxId: 'output', fromSeq: 1, toSeq: 6 }] },
    });
  });

  test('stays as small in a turn of a thousand calls as in one of one call (K3)', () => {
    const turn = new Turn({ budgets: { maxSteps: 2_000, maxToolCalls: 10_000, maxTokens: 10_000_000 } });
    turn.start(earlier);
    for (let round = 0; round < 250; round += 1) {
      turn.call('a', 'b', 'c', 'd');
      turn.results({ a: {}, b: {}, c: {}, d: {} });
    }
    const last = turn.actions.at(-1);
    expect(last).toMatchObject({ type: 'call_llm', stepIndex: 251 });
    expect(JSON.stringify(last).length).toBeLessThan(1_024);
    expect(turn.state.handles).toHaveLength(1 + 250 * 5);
  });
});
