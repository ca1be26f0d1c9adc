import { describe, expect, test } from '@jest/globals';
import { planText } from '../../../activities/tools/builtin/update-plan.ts';
import { Turn } from './turn.ts';

function write(turn: Turn, outcome: 'success' | 'failed' = 'success'): string {
  const settled = turn.settled('update_plan', { status: outcome });
  turn.respond({ calls: [{ callId: settled.callId, tool: 'update_plan', settled }] });
  return settled.callId;
}

const block = (turn: Turn) => {
  const action = turn.actions.at(-1);
  return action?.type === 'call_llm' ? action.stateBlock : action;
};

describe('the plan of a model', () => {
  test('is shown before every step once it is written down, and by name only (K3, K14)', () => {
    const turn = new Turn();
    turn.start();
    expect(block(turn)).toBeUndefined();
    const callId = write(turn);
    expect(block(turn)).toEqual([{ kind: 'plan', callId }]);
    turn.call('a');
    turn.results({ a: {} });
    expect(block(turn)).toEqual([{ kind: 'plan', callId }]);
  });

  test('is the last one that was accepted (K14)', () => {
    const turn = new Turn();
    turn.start();
    write(turn);
    const second = write(turn);
    write(turn, 'failed');
    expect(block(turn)).toEqual([{ kind: 'plan', callId: second }]);
  });

  test('is what it was when the step that changed it is taken back (K13)', () => {
    const turn = new Turn();
    turn.start();
    const first = write(turn);
    const settled = turn.settled('update_plan');
    turn.respond({
      calls: [
        { callId: settled.callId, tool: 'update_plan', settled },
        { callId: turn.idOf('a'), tool: 'a' },
      ],
    });
    turn.results({ a: { status: 'failed', errorCode: 'broken', errorKind: 'fatal' } });
    expect(block(turn)).toEqual([{ kind: 'plan', callId: first }]);
  });

  test('reads as a list that says what is done, under way and open (K14)', () => {
    const plan = [{ label: 'look', done: true }, { label: 'write' }, { label: 'check' }];
    expect(planText({ plan, current_step: 'write', progress: 'half', blocked_on: ['ann'] })).toBe(
      'Your plan:\n[x] look\n[>] write\n[ ] check\nProgress: half\nBlocked on: ann',
    );
    expect(planText({ plan: [] })).toBe('');
  });
});
