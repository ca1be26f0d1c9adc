import { describe, expect, test } from '@jest/globals';
import { WAIT_KINDS } from '../../../workflows/agent-state/waits.ts';
import { circleOf, runnableItem, scheduled } from '../../../workflows/agent-state/work-items.ts';
import { item, wait } from './facts.ts';

const stateOf = (...args: Parameters<typeof scheduled>) => scheduled(...args)[0]?.schedulingState;

describe('a work item', () => {
  test.each(WAIT_KINDS)('that waits for %s says so (A7)', (kind) => {
    expect(scheduled([item('a')], [wait(kind, 'a')], null)).toEqual([
      expect.objectContaining({ schedulingState: `waiting_${kind}`, waitId: `wait-${kind}-a` }),
    ]);
  });

  test('that waits for several things says the first of them: task, operator, timer, external, system (A7)', () => {
    const all = ['task', 'operator', 'timer', 'external', 'system'] as const;
    const states = all.map((_, first) =>
      stateOf(
        [item('a')],
        all
          .slice(first)
          .reverse()
          .map((kind) => wait(kind, 'a')),
        null,
      ),
    );
    expect(states).toEqual(all.map((kind) => `waiting_${kind}`));
  });

  test('is completed before it waits for somebody, then needs input, then waits for a time, then is blocked (A7)', () => {
    const blocked = item('a', { blockedBy: ['b'], planStatus: 'needs_input' });
    const b = item('b', { createdAt: 2 });
    expect(stateOf([item('a', { state: 'completed' }), b], [wait('task', 'a')], null)).toBe('completed');
    expect(stateOf([blocked, b], [wait('task', 'a')], null)).toBe('waiting_task');
    expect(stateOf([blocked, b], [], null)).toBe('waiting_operator');
    expect(stateOf([blocked, b], [wait('timer', 'a')], null)).toBe('waiting_operator');
    const ready = { ...blocked, planStatus: 'ready' } as const;
    expect(stateOf([ready, b], [wait('timer', 'a')], null)).toBe('waiting_timer');
    expect(stateOf([ready, b], [], null)).toBe('blocked');
    expect(stateOf([blocked, { ...b, state: 'completed' as const }], [], null)).toBe('waiting_operator');
    expect(stateOf([item('a')], [wait('task', 'b')], null)).toBe('runnable');
  });

  test('is gone on with when it is the current one, else the oldest (A7)', () => {
    const items = [item('late', { createdAt: 3 }), item('early'), item('middle', { createdAt: 2 })];
    expect(runnableItem(scheduled(items, [], null))?.workItemId).toBe('early');
    expect(runnableItem(scheduled(items, [], 'middle'))?.workItemId).toBe('middle');
    expect(runnableItem(scheduled(items, [wait('timer', 'middle')], 'middle'))?.workItemId).toBe('early');
    expect(runnableItem(scheduled([], [], 'gone'))).toBeUndefined();
  });

  test('that would wait for itself is found, however long the way round (A7)', () => {
    const chain = [item('a', { blockedBy: ['b'] }), item('b', { blockedBy: ['c', 'd'] }), item('c'), item('d')];
    expect(circleOf(chain, 'c', ['a'])).toEqual(['c', 'a', 'b', 'c']);
    expect(circleOf(chain, 'd', ['d'])).toEqual(['d', 'd']);
    expect(circleOf(chain, 'c', ['d'])).toBeNull();
    // A diamond is no circle, and is walked through once.
    const wide = Array.from({ length: 60 }, (_, n) => item(`${n}`, { blockedBy: [`${n + 1}`, `${n + 1}`] }));
    expect(circleOf(wide, 'new', ['0'])).toBeNull();
  });
});
