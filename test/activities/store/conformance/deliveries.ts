/** What comes for an agent from outside, as every store must keep it (A4, A9). */
import { describe, expect, test } from '@jest/globals';
import { fenceOf, newAgent, type StoreBench, SUCCESS } from '../store-bench.ts';

export function describeDeliveries(bench: StoreBench): void {
  describe('what comes for a busy agent', () => {
    test('is told with its next own turn as it came last, however often it came (A4, A9)', async () => {
      const agentId = newAgent();
      const lease = await bench.started(agentId);
      for (const text of ['first', 'second', 'third', 'fourth'])
        expect(await bench.store.wakeAgent(agentId, { text })).toMatchObject({ disposition: 'kept' });
      await bench.store.commitTurn(fenceOf(lease), SUCCESS);
      const { activeAgentTurnId } = (await bench.other.getAgent(agentId)) ?? {};
      const own = await bench.other.getTurn(activeAgentTurnId ?? '');
      expect(own?.instruction).toContain('(4 times, the last is shown)');
      expect(own?.instruction).toMatch(/fourth$/);
      expect(await bench.store.violations()).toEqual([]);
    });
  });
}
