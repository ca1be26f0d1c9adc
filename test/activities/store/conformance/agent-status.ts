/** What an agent does, in one word, as every store must write it (A1). */
import { describe, expect, test } from '@jest/globals';
import { v7 } from 'uuid';
import { fenceOf, newAgent, type StoreBench, SUCCESS } from '../store-bench.ts';

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
  });
}
