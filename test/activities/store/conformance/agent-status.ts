/** What an agent does, in one word, as every store must write it (A1). */
import { describe, expect, test } from '@jest/globals';
import { v7 } from 'uuid';
import { fenceOf, newAgent, type StoreBench, SUCCESS } from '../store-bench.ts';
import { waitFor, workBench } from '../work-bench.ts';

export function describeAgentStatus(bench: StoreBench): void {
  describe('the status of an agent', () => {
    const statusOf = async (agentId: string) => (await bench.other.getAgent(agentId))?.agentStatus;

    test('follows its turns from the first request to its rest, and an operator who stops and starts it (A1, A6)', async () => {
      const agentId = newAgent();
      const lease = await bench.started(agentId);
      expect(await statusOf(agentId)).toBe('awake_running');
      await bench.accepted(agentId);
      await bench.store.commitTurn(fenceOf(lease), SUCCESS);
      expect(await statusOf(agentId)).toBe('awake_running');
      await bench.store.commitTurn(fenceOf(await bench.leased(agentId)), SUCCESS);
      expect(await statusOf(agentId)).toBe('asleep');
      for (const _ of ['once', 'again']) {
        await bench.store.setLifecycle(agentId, 'stopped', 'test');
        expect(await statusOf(agentId)).toBe('stopped');
      }
      for (const _ of ['once', 'again']) {
        await bench.store.setLifecycle(agentId, 'started', '');
        expect(await statusOf(agentId)).toBe('awake_idle');
      }
      await bench.started(agentId);
      expect(await statusOf(agentId)).toBe('awake_running');
      expect(await bench.store.violations()).toEqual([]);
    });

    test('is stopped when the agent is stopped in a turn, with its queue kept, and running when it is started (A1, A6)', async () => {
      const agentId = newAgent();
      await bench.started(agentId);
      const queued = await bench.accepted(agentId);
      await bench.store.setLifecycle(agentId, 'stopped', 'test');
      expect(await statusOf(agentId)).toBe('stopped');
      expect(await bench.other.getTurnStatus(queued)).toBe('queued');
      await bench.store.setLifecycle(agentId, 'started', '');
      expect(await statusOf(agentId)).toBe('awake_running');
      await bench.store.setLifecycle(agentId, 'started', '');
      expect(await statusOf(agentId)).toBe('awake_running');
      expect(await bench.store.violations()).toEqual([]);
    });

    test('rests after turns that cannot start, and after one that is ended over its head (A1)', async () => {
      const agentId = newAgent();
      await bench.accept(agentId, { contextBoxId: v7() });
      expect(await statusOf(agentId)).toBe('asleep');
      const lease = await bench.started(agentId);
      await bench.store.stopTurn(lease.agentTurnId, 'enough');
      expect(await statusOf(agentId)).toBe('asleep');
      const open = await bench.started(agentId);
      const queued = await bench.accepted(agentId);
      await bench.store.stopTurn(queued, 'enough');
      expect(await statusOf(agentId)).toBe('awake_running');
      await bench.store.commitTurn(fenceOf(open), SUCCESS);
      expect(await bench.store.violations()).toEqual([]);
    });

    test.each(['idle', 'queued', 'running', 'suspended', 'waiting'] as const)(
      'is stopped and started in whatever state it is, %s, however often, with its queue and its waits intact (A6)',
      async (state) => {
        const { effects, end, id, dueOf } = workBench(bench);
        const agentId = newAgent();
        const lease = await bench.started(agentId);
        const queued = state === 'queued' ? await bench.accepted(agentId) : null;
        if (state === 'suspended') await bench.suspended(lease);
        if (state === 'waiting') await effects(lease, 1, waitFor(id('wait'), { deadlineMs: 1_000 }));
        if (state === 'idle' || state === 'waiting') await end(lease);
        const isOpen = state !== 'idle' && state !== 'waiting';
        for (const round of [1, 2]) {
          const { stoppedTurnId } = await bench.store.setLifecycle(agentId, 'stopped', 'test');
          expect(stoppedTurnId).toBe(isOpen && round === 1 ? lease.agentTurnId : null);
          expect(await bench.other.getAgent(agentId)).toMatchObject({
            posture: { posture: 'archived' },
            status: 'idle',
          });
        }
        expect(await bench.accept(agentId)).toMatchObject({ kind: 'refused', code: 'agent_stopped' });
        if (queued) expect(await bench.other.getTurnStatus(queued)).toBe('queued');
        bench.now += 2_000;
        expect(await dueOf(agentId)).toEqual([]);
        for (const _ of ['once', 'again']) {
          const { handover } = await bench.other.setLifecycle(agentId, 'started', '');
          expect(handover.next?.agentTurnId ?? null).toBe(queued);
        }
        expect(await dueOf(agentId)).toHaveLength(state === 'waiting' ? 1 : 0);
        expect(await bench.store.violations()).toEqual([]);
      },
    );
  });
}
