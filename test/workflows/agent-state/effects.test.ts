import { describe, expect, test } from '@jest/globals';
import {
  type AgentWork,
  MOST_OPEN_WORK_ITEMS,
  NO_WORK as NOTHING,
  type WorkEffect,
  withEffect,
} from '../../../workflows/agent-state/effects.ts';
import { DEFAULT_DEADLINE_MS } from '../../../workflows/agent-state/waits.ts';
import { item, wait } from './facts.ts';

const apply = (work: AgentWork, ...effects: readonly WorkEffect[]): AgentWork =>
  effects.reduce((before, effect) => withEffect(before, effect, 100), work);
const create = (workItemId: string, blockedBy: readonly string[] = []): WorkEffect => ({
  type: 'create',
  workItemId,
  change: { objective: `the work of ${workItemId}`, blockedBy },
});
const refusal = (message: string) =>
  expect.objectContaining({ code: 'invalid_request', message: expect.stringContaining(message) });
const waitFor = (workItemId: string | null, more: Partial<Extract<WorkEffect, { type: 'wait' }>> = {}): WorkEffect => ({
  type: 'wait',
  waitId: 'wait-1',
  kind: 'external',
  workItemId,
  resource: null,
  reason: 'until the order is there',
  recheckAfterMs: null,
  deadlineMs: null,
  ...more,
});

describe('an effect', () => {
  test('makes, changes, picks and completes a work item, whose revision rises each time (A7)', () => {
    const made = apply(NOTHING, create('a'), create('b', ['a']));
    expect(made.items).toEqual([
      item('a', { createdAt: 100, updatedAt: 100 }),
      item('b', { createdAt: 101, updatedAt: 100, blockedBy: ['a'] }),
    ]);
    const todoList = [{ text: 'one', state: 'pending' as const }];
    const changed = apply(
      made,
      { type: 'update', workItemId: 'b', change: { planStatus: 'needs_input', todoList, recheckAfterMs: 50 } },
      { type: 'pick', workItemId: 'a' },
    );
    expect(changed.currentId).toBe('a');
    expect(changed.items[1]).toMatchObject({
      ...{
        revision: 2,
        objective: 'the work of b',
        blockedBy: ['a'],
        planStatus: 'needs_input',
        todoList,
        recheckAt: 150,
      },
    });
    const done = apply(changed, { type: 'complete', workItemId: 'a', resultSummary: 'done' });
    expect(done.currentId).toBeNull();
    expect(done.items[0]).toMatchObject({ state: 'completed', revision: 2, resultSummary: 'done' });
  });

  test('on a work item that is unknown, of another agent or completed is refused, and names those that are open (A7)', () => {
    const work = { ...NOTHING, items: [item('a'), item('b', { state: 'completed' })] };
    for (const workItemId of ['b', 'c', 'x'.repeat(10_000)])
      for (const effect of [
        { type: 'update', workItemId, change: {} },
        { type: 'pick', workItemId },
        { type: 'complete', workItemId, resultSummary: null },
        waitFor(workItemId),
        create('new', [workItemId]),
      ] as const)
        expect(() => apply(work, effect)).toThrow(refusal('open are: a'));
  });

  test('that would close a circle is refused with the circle (A7)', () => {
    const work = apply(NOTHING, create('a'), create('b', ['a']), create('c', ['b']));
    expect(() => apply(work, { type: 'update', workItemId: 'a', change: { blockedBy: ['c'] } })).toThrow(
      refusal('a would wait for c would wait for b would wait for a'),
    );
    expect(() => apply(work, { type: 'update', workItemId: 'a', change: { blockedBy: ['a'] } })).toThrow(
      refusal('a would wait for a'),
    );
  });

  test('makes no more work items than an agent may have open (A7)', () => {
    const full = { ...NOTHING, items: Array.from({ length: MOST_OPEN_WORK_ITEMS }, (_, n) => item(`${n}`)) };
    expect(() => apply(full, create('more'))).toThrow(refusal('1000 open work items'));
    const room = apply(full, { type: 'complete', workItemId: '0', resultSummary: null }, create('more'));
    expect(room.items.filter(({ state }) => state === 'open')).toHaveLength(MOST_OPEN_WORK_ITEMS);
  });

  test('waits for a day where nobody says for how long, and takes the place of the wait before it (A8)', () => {
    const before = { ...NOTHING, items: [item('a')], waits: [wait('task', 'a'), wait('timer')] };
    const { waits } = apply(before, waitFor('a'));
    expect(waits).toEqual([
      wait('timer'),
      {
        ...{ waitId: 'wait-1', kind: 'external', workItemId: 'a', resource: null, reason: 'until the order is there' },
        ...{ recheckAt: null, deadline: 100 + DEFAULT_DEADLINE_MS, createdAt: 100 },
      },
    ]);
    expect(apply(NOTHING, waitFor(null, { recheckAfterMs: 5, deadlineMs: 10 })).waits[0]).toMatchObject({
      recheckAt: 105,
      deadline: 110,
    });
    const late = apply(NOTHING, waitFor(null, { recheckAfterMs: 2 * DEFAULT_DEADLINE_MS })).waits[0];
    expect(late?.deadline).toBe(late?.recheckAt);
  });

  test('that completes a work item ends its waits, and no others (A8)', () => {
    const before = {
      ...NOTHING,
      items: [item('a'), item('b')],
      waits: [wait('task', 'a'), wait('task', 'b'), wait('timer')],
      currentId: 'b',
    };
    const after = apply(before, { type: 'complete', workItemId: 'a', resultSummary: null });
    expect(after).toMatchObject({ waits: [wait('task', 'b'), wait('timer')], currentId: 'b' });
  });
});
