import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { type ClosureFacts, closureOf } from '../../../workflows/agent-state/closure.ts';
import { WAIT_KINDS } from '../../../workflows/agent-state/waits.ts';
import { closureFacts, type Has, item, wait } from './facts.ts';

const all: Has = {
  items: [...WAIT_KINDS.map((kind) => item(kind)), item('blocked', { blockedBy: ['task'] })],
  waits: [...WAIT_KINDS.map((kind) => wait(kind, kind)), ...WAIT_KINDS.map((kind) => wait(kind))],
};
const failed = { agentTurnId: 'turn-1', status: 'failed', errorCode: 'provider_error' } as const;
const needsInput = item('asked', { planStatus: 'needs_input' });

interface Row {
  readonly given: string;
  readonly has: Has;
  readonly more?: Partial<ClosureFacts>;
  readonly expected: string;
}

const ROWS: readonly Row[] = [
  { given: 'nothing', has: {}, expected: 'completed' },
  { given: 'an agent that has had no turn', has: {}, more: { lastEnd: null }, expected: 'completed' },
  {
    given: 'a runtime error, and all waits',
    has: { ...all, items: [...(all.items ?? []), item('runnable')] },
    more: { runtimeError: 'the store is corrupt' },
    expected: 'failed',
  },
  { given: 'a failed turn, and work', has: { items: [item('a')] }, more: { lastEnd: failed }, expected: 'failed' },
  {
    given: 'a turn that timed out',
    has: {},
    more: { lastEnd: { ...failed, status: 'timeout' } },
    expected: 'failed',
  },
  {
    given: 'a stopped turn',
    has: {},
    more: { lastEnd: { ...failed, status: 'canceled' } },
    expected: 'failed',
  },
  {
    given: 'a partial result, and work',
    has: { items: [item('a')] },
    more: { lastEnd: { ...failed, status: 'partial' } },
    expected: 'continuable a',
  },
  {
    given: 'work that can be gone on with, and all waits',
    has: { ...all, items: [...(all.items ?? []), item('runnable')] },
    expected: 'continuable runnable',
  },
  { given: 'all waits', has: all, expected: 'waiting awaiting_operator_input operator' },
  {
    given: 'all waits, and a current item that waits for a task',
    has: { ...all, currentId: 'task' },
    expected: 'waiting awaiting_operator_input operator',
  },
  {
    given: 'the current item waits for a timer, another for a task',
    has: { items: [item('a'), item('b')], waits: [wait('task', 'a'), wait('timer', 'b')], currentId: 'b' },
    expected: 'waiting awaiting_timer b',
  },
  {
    given: 'another item than the current one waits',
    has: { items: [item('a'), item('b', { state: 'completed' })], waits: [wait('external', 'a')], currentId: 'b' },
    expected: 'waiting awaiting_external_change a',
  },
  { given: 'a plan that needs input', has: { items: [needsInput] }, expected: 'waiting awaiting_operator_input asked' },
  {
    given: 'an item waits for a timer, the agent for something outside',
    has: { items: [item('a')], waits: [wait('timer', 'a'), wait('external')] },
    expected: 'waiting awaiting_timer a',
  },
  {
    given: 'an item that waits for the system',
    has: { items: [item('a')], waits: [wait('system', 'a')] },
    expected: 'waiting awaiting_external_change a',
  },
  { given: 'the agent waits for a task', has: { waits: [wait('task')] }, expected: 'waiting awaiting_task_result' },
  { given: 'the agent waits for a timer', has: { waits: [wait('timer')] }, expected: 'waiting awaiting_timer' },
  { given: 'delegated turns, and no wait', has: {}, more: { openTasks: 2 }, expected: 'completed' },
  {
    given: 'work that is blocked by nothing that is left',
    has: { items: [item('a', { blockedBy: ['gone'] })] },
    expected: 'continuable a',
  },
];

describe('the closure of a turn', () => {
  test.each(ROWS)('with $given: $expected (A3)', ({ has, more, expected }) => {
    const { outcome, waitingReason, workItemId } = closureOf(closureFacts(has, more));
    expect([outcome, waitingReason, workItemId].filter((part) => part !== undefined).join(' ')).toBe(expected);
  });

  test('says by which facts it was decided, open delegated turns among them (A3)', () => {
    const waits = [wait('task', 'a')];
    expect(closureOf(closureFacts({ items: [item('a')], waits }, { openTasks: 2 })).evidence).toEqual([
      'work item a waits by wait-task-a',
      '2 delegated turns are open',
    ]);
  });

  test('keeps whether the agent sleeps (A3)', () => {
    const asleep = closureOf(closureFacts({}, { status: 'asleep', runtimeError: 'lost' }));
    expect(asleep).toMatchObject({ outcome: 'failed', runtimePosture: 'sleeping' });
    expect(closureOf(closureFacts({})).runtimePosture).toBe('awake');
  });

  test('has a reason to wait exactly where it waits, whatever the facts (A3)', () => {
    const kinds = fc.subarray([...WAIT_KINDS]);
    fc.assert(
      fc.property(kinds, kinds, fc.boolean(), fc.boolean(), (ofItems, ofAgent, runnable, fails) => {
        const items = [...ofItems.map((kind) => item(kind)), ...(runnable ? [item('runnable')] : [])];
        const waits = [...ofItems.map((kind) => wait(kind, kind)), ...ofAgent.map((kind) => wait(kind))];
        const closure = closureOf(closureFacts({ items, waits }, fails ? { lastEnd: failed } : {}));
        expect(closure.waitingReason !== undefined).toBe(closure.outcome === 'waiting');
        const waiting = waits.length > 0 ? 'waiting' : 'completed';
        expect(closure.outcome).toBe(fails ? 'failed' : runnable ? 'continuable' : waiting);
      }),
      { numRuns: 1_000 },
    );
  });
});
