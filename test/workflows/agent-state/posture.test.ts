import { describe, expect, test } from '@jest/globals';
import fc from 'fast-check';
import { type AgentSchedulingPosture, derivePosture, POSTURES } from '../../../workflows/agent-state/posture.ts';
import { AGENT_STATUSES } from '../../../workflows/agent-state/status.ts';
import { WAIT_KINDS, type WaitKind } from '../../../workflows/agent-state/waits.ts';
import { item, postureFacts, wait } from './facts.ts';

const everything = {
  items: [
    item('runnable'),
    ...WAIT_KINDS.map((kind) => item(kind)),
    item('asked', { planStatus: 'needs_input' }),
    item('blocked', { blockedBy: ['timer'] }),
  ],
  waits: WAIT_KINDS.map((kind) => wait(kind, kind)),
};

describe('the posture of an agent', () => {
  test('is the first that fits, in the order of the table (A2)', () => {
    const without = (...ids: readonly string[]) => ({
      items: everything.items.filter(({ workItemId }) => !ids.includes(workItemId)),
      waits: everything.waits.filter(({ workItemId }) => !ids.includes(workItemId ?? '')),
    });
    const busy = { activeAgentTurnId: 'turn-1', queuedInput: 2 };
    const found = [
      derivePosture(postureFacts(everything, { ...busy, status: 'stopped' })),
      derivePosture(postureFacts(everything, { ...busy, status: 'awake_running' })),
      derivePosture(postureFacts(everything, { queuedInput: 2 })),
      derivePosture(postureFacts(everything)),
      derivePosture(postureFacts(without('runnable'))),
      derivePosture(postureFacts(without('runnable', 'task'))),
      derivePosture(postureFacts(without('runnable', 'task', 'external'))),
      derivePosture(postureFacts(without('runnable', 'task', 'external', 'operator', 'asked'))),
      derivePosture(postureFacts({})),
    ];
    expect(found.map(({ posture }) => posture)).toEqual([
      'archived',
      'active_turn',
      'has_queued_input',
      'has_runnable_work',
      'waiting_for_task',
      'waiting_for_external',
      'waiting_for_operator',
      'blocked',
      'idle',
    ]);
  });

  test.each([
    ['an agent that sleeps and has work that can be gone on with', { items: [item('a')] }, 'has_runnable_work'],
    ['work whose plan needs input', { items: [item('a', { planStatus: 'needs_input' })] }, 'waiting_for_operator'],
    ['work that waits for a timer', { items: [item('a')], waits: [wait('timer', 'a')] }, 'blocked'],
    ['work that waits for the system', { items: [item('a')], waits: [wait('system', 'a')] }, 'blocked'],
    ['completed work', { items: [item('a', { state: 'completed' })] }, 'idle'],
    ['an agent that waits itself', { waits: [wait('external')] }, 'waiting_for_external'],
    ['an agent that waits for a time', { waits: [wait('timer')] }, 'blocked'],
  ] as const)('of %s (A2)', (_, has, posture) => {
    expect(derivePosture(postureFacts(has)).posture).toBe(posture);
  });

  test('names what it is about, and why (A2)', () => {
    const waits = [wait('task', 'a', { resource: 'turn-9', reason: 'until the survey is there' })];
    expect(derivePosture(postureFacts({ items: [item('a')], waits }))).toEqual({
      posture: 'waiting_for_task',
      reason: 'until the survey is there',
      workItemId: 'a',
      waitId: 'wait-task-a',
      taskId: 'turn-9',
    });
  });

  const kinds = fc.subarray([...WAIT_KINDS]);
  const facts = fc
    .record({
      status: fc.constantFrom(...AGENT_STATUSES),
      activeAgentTurnId: fc.constantFrom(null, 'turn-1'),
      queuedInput: fc.nat(2),
      runnable: fc.boolean(),
      needsInput: fc.boolean(),
      ofItems: kinds,
      ofAgent: kinds,
    })
    .map(({ runnable, needsInput, ofItems, ofAgent, ...more }) => {
      const waits = [...ofItems.map((kind) => wait(kind, kind)), ...ofAgent.map((kind) => wait(kind))];
      const items = [
        ...(runnable ? [item('runnable')] : []),
        ...(needsInput ? [item('asked', { planStatus: 'needs_input' })] : []),
        ...ofItems.map((kind) => item(kind)),
      ];
      return { facts: postureFacts({ items, waits }, more), has: { runnable, needsInput, ofItems, ofAgent } };
    });

  test('follows from the facts alone, whatever they are together (A2)', () => {
    fc.assert(
      fc.property(facts, ({ facts: given, has }) => {
        const waitsFor = (kind: WaitKind) => has.ofItems.includes(kind) || has.ofAgent.includes(kind);
        const fits: Readonly<Record<AgentSchedulingPosture, boolean>> = {
          archived: given.status === 'stopped',
          active_turn: given.activeAgentTurnId !== null,
          has_queued_input: given.queuedInput > 0,
          has_runnable_work: has.runnable,
          waiting_for_task: waitsFor('task'),
          waiting_for_external: waitsFor('external'),
          waiting_for_operator: waitsFor('operator') || has.needsInput,
          blocked: waitsFor('timer') || waitsFor('system'),
          idle: true,
          unknown: true,
        };
        const { posture, reason } = derivePosture(given);
        expect(posture).toBe(POSTURES.find((each) => fits[each]));
        expect(reason).not.toBe('');
      }),
      { numRuns: 2_000 },
    );
  });
});
