/** What tests of agents between their turns have in common: turns with effects, triggers, and what they lead to. */
import { expect } from '@jest/globals';
import { callId as callIdOf } from '../../../activities/ids.ts';
import type { WorkEffect } from '../../../workflows/agent-state/effects.ts';
import type { DueWake } from '../../../workflows/contract/agent-work.ts';
import type { Lease } from '../../../workflows/contract/lease.ts';
import { fenceOf, newAgent, result, type StoreBench, SUCCESS } from './store-bench.ts';

/** A new work item. */
export const create = (workItemId: string, more: object = {}): WorkEffect => ({
  type: 'create',
  workItemId,
  change: { objective: `the work of ${workItemId}`, ...more },
});

/** A wait for something outside, unless it says otherwise. */
export const waitFor = (waitId: string, more: Partial<Extract<WorkEffect, { type: 'wait' }>> = {}): WorkEffect => ({
  type: 'wait',
  waitId,
  kind: 'external',
  workItemId: null,
  resource: null,
  reason: 'the order is to come',
  recheckAfterMs: null,
  deadlineMs: null,
  ...more,
});

/** The moves of such tests on one store. */
export function workBench(bench: StoreBench) {
  /** One step with a call for each effect. */
  const effects = async (lease: Lease, stepIndex: number, ...all: readonly WorkEffect[]): Promise<void> => {
    await bench.store.openStep(fenceOf(lease), { stepIndex, profileHash: lease.profileHash });
    await bench.committed(lease, stepIndex, {
      calls: all.map((effect, index) => {
        const id = callIdOf(lease.agentTurnId, stepIndex, index);
        return {
          index,
          digest: `${stepIndex}-${index}`,
          content: { callId: id, tool: 'work', arguments: {} },
          result: result(id, { tool: 'work' }),
          effect,
        };
      }),
    });
  };
  const end = async (lease: Lease): Promise<Lease | null> =>
    (await bench.store.commitTurn(fenceOf(lease), SUCCESS)).handover.next;
  /** An agent whose one turn had these effects and is over. */
  const rested = async (...all: readonly WorkEffect[]): Promise<string> => {
    const agentId = newAgent();
    const lease = await bench.started(agentId);
    await effects(lease, 1, ...all);
    expect(await end(lease)).toBeNull();
    return agentId;
  };
  const id = (name: string): string => `${name}-${newAgent()}`;
  const postureOf = async (agentId: string) => (await bench.other.getAgent(agentId))?.posture.posture;
  const eventsOf = async (agentId: string, type: string) =>
    (await bench.eventsOf(agentId)).filter((event) => event.type === type).map(({ payload }) => payload);
  const dueOf = async (agentId: string): Promise<DueWake[]> =>
    (await bench.store.dueWakes(1_000)).filter((due) => due.agentId === agentId);
  const fired = async (agentId: string) => {
    const [due] = await dueOf(agentId);
    return due ? bench.store.fireWake(due) : undefined;
  };
  const hash = () => id('hash').padEnd(64, '0');
  const trigger = async (agentId: string, tokenHash = hash()) => {
    const triggerId = id('trigger');
    await bench.store.createTrigger(agentId, { triggerId, name: 'the order', tokenHash });
    return { triggerId, tokenHash };
  };
  const instructionOf = async (lease: Lease | null | undefined): Promise<string> =>
    (await bench.store.getTurn(lease?.agentTurnId ?? ''))?.instruction ?? '';
  const clean = async () => expect(await bench.store.violations()).toEqual([]);
  return { effects, end, rested, id, postureOf, eventsOf, dueOf, fired, hash, trigger, instructionOf, clean };
}
