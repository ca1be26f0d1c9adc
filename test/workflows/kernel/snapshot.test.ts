import { describe, expect, test } from '@jest/globals';
import { NOW, Turn } from './turn.ts';

describe('a snapshot', () => {
  test('keeps the budgets as an operator changed them (K22)', () => {
    const turn = new Turn({ budgets: { maxSteps: 3 } });
    turn.start();
    turn.feed({ type: 'budgets', nowMs: NOW, budgets: { maxSteps: 9 } });
    turn.state = JSON.parse(JSON.stringify(turn.state));
    expect(turn.state.budgets.maxSteps).toBe(9);
  });
});
