import { describe, expect, test } from '@jest/globals';
import type { Plan } from '../../../workflows/kernel/actions.ts';
import { OUTPUT_BOX, Turn } from './turn.ts';

const planOf = (turn: Turn): Plan => {
  const action = turn.actions.at(-1);
  if (action?.type !== 'call_llm') throw new Error(`no model call: ${JSON.stringify(action)}`);
  return action.plan;
};

/** Whether the later plan renders all that the earlier one did in the same way, and more only behind it. */
function extended(earlier: Plan, later: Plan): boolean {
  const head = earlier.ranges.slice(0, -1);
  const [last, next] = [earlier.ranges.at(-1), later.ranges[head.length]];
  const same = JSON.stringify(head) === JSON.stringify(later.ranges.slice(0, head.length));
  return same && JSON.stringify({ ...last, toSeq: 0 }) === JSON.stringify({ ...next, toSeq: 0 });
}

describe('a prompt', () => {
  test('begins with the one before it from step to step, until something must be shortened (K14, K15)', () => {
    const turn = new Turn({ context: { windowTokens: 20_000, answerTokens: 1_000, fixedTokens: 500 } });
    turn.start([
      { boxId: OUTPUT_BOX, fromSeq: 1, toSeq: 9, tokens: [900, 900, 800, 300] },
      { boxId: 'context', fromSeq: 1, toSeq: 3, tokens: [200, 200, 200, 200] },
    ]);
    let broken = 0;
    for (let step = 0; step < 30; step += 1) {
      const before = planOf(turn);
      turn.call('a');
      turn.results({ a: { tokens: 800 } });
      if (turn.actions.at(-1)?.type !== 'call_llm') break;
      if (!extended(before, planOf(turn))) broken += 1;
    }
    const steps = turn.state.stepIndex;
    expect(steps).toBeGreaterThan(20);
    // Results are shortened many at a time, once in a while, and not a few at every step.
    expect(broken).toBeGreaterThan(0);
    expect(broken).toBeLessThan(steps / 4);
  });
});
