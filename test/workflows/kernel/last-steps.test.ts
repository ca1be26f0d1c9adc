import { describe, expect, test } from '@jest/globals';
import type { CallLlmAction } from '../../../workflows/kernel/actions.ts';
import { endingOf } from '../../../workflows/kernel/phase.ts';
import { type ConfigPart, Turn } from './turn.ts';

/** All model calls of a turn that calls `tool` at each step, up to its final report. */
function calls(more: ConfigPart, tool = 'a'): readonly CallLlmAction[] {
  const turn = new Turn(more);
  turn.start();
  while (endingOf(turn.state) === null) {
    turn.call(tool);
    turn.results({ [tool]: {} });
  }
  return turn.actions.flatMap((action) => (action.type === 'call_llm' ? [action] : []));
}

const budgets = { maxSteps: 4 };

describe('the last steps', () => {
  test('are announced when two are left, and the report needs no announcement (K10)', () => {
    const lines = calls({ budgets }).map(({ stateBlock }) => stateBlock);
    const left = (steps: number) => [{ kind: 'steps_left', steps }];
    expect(lines).toEqual([undefined, undefined, left(2), left(1), undefined]);
  });

  test('end with nothing but the required tool on offer (K10)', () => {
    const offered = calls({ budgets, mustEndWith: ['submit_result'] }).map(({ onlyTools, requireTool }) => ({
      onlyTools,
      requireTool,
    }));
    const all = { onlyTools: undefined, requireTool: undefined };
    expect(offered.slice(0, 4)).toEqual([all, all, all, { onlyTools: ['submit_result'], requireTool: true }]);
  });

  test('leave all tools on offer where none is required, or it has run already (K10)', () => {
    expect(calls({ budgets })[3]).not.toHaveProperty('onlyTools');
    expect(calls({ budgets, mustEndWith: ['a'] })[3]).not.toHaveProperty('onlyTools');
  });
});
