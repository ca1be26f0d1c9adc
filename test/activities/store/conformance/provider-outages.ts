/** What a store keeps of a provider that fails, as every store must do it. */
import { describe, expect, test } from '@jest/globals';
import { fenceOf, newAgent, type StoreBench, SUCCESS } from '../store-bench.ts';

export function describeProviderOutages(bench: StoreBench): void {
  describe('an outage of the provider', () => {
    const failed = (attempt: number, message = '503') =>
      ({ stepIndex: 1, attempt, code: 'provider_error', message, retryInMs: 1_000 }) as const;

    test('is counted once for each attempt, and told again when its reason changes (W14, T29)', async () => {
      const lease = await bench.started(newAgent());
      const fence = fenceOf(lease);
      const begin = { stepIndex: 1, profileHash: lease.profileHash };
      expect((await bench.store.openStep(fence, begin)).outage).toBeNull();
      const since = bench.now;
      for (const attempt of [1, 1, 2]) await bench.store.noteOutage(fence, failed(attempt));
      bench.now += 5_000;
      expect((await bench.other.openStep(fence, begin)).outage).toEqual({ failures: 2, forMs: 5_000 });
      await bench.other.noteOutage(fence, failed(3, '429'));
      const outage = { code: 'provider_error', message: '429', failures: 3, since, nextTryAt: bench.now + 1_000 };
      expect(await bench.store.getTurn(lease.agentTurnId)).toMatchObject({ waitingForProvider: outage });
      const told = (await bench.eventsOf(lease.agentId)).filter(({ type }) => type === 'provider');
      expect(told.map(({ payload }) => payload)).toMatchObject([{ message: '503' }, { message: '429' }]);
    });

    test('is over with the step, and with the turn, and a late attempt brings it not back (W14, T5)', async () => {
      const lease = await bench.started(newAgent());
      await bench.store.openStep(fenceOf(lease), { stepIndex: 1, profileHash: lease.profileHash });
      await bench.store.noteOutage(fenceOf(lease), failed(1));
      await bench.committed(lease, 1);
      await bench.store.noteOutage(fenceOf(lease), failed(2));
      const shown = async () => (await bench.store.getTurn(lease.agentTurnId))?.waitingForProvider;
      expect(await shown()).toBeNull();
      await bench.store.openStep(fenceOf(lease), { stepIndex: 2, profileHash: lease.profileHash });
      await bench.store.noteOutage(fenceOf(lease), { ...failed(1), stepIndex: 2 });
      expect(await shown()).toMatchObject({ failures: 1 });
      await bench.store.commitTurn(fenceOf(lease), SUCCESS);
      expect(await shown()).toBeNull();
      await expect(bench.store.noteOutage(fenceOf(lease), failed(3))).rejects.toMatchObject({ code: 'stale_epoch' });
      expect(await bench.store.violations()).toEqual([]);
    });
  });
}
