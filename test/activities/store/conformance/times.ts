/** That time never runs backwards along what an agent has done, as every store must see to it. */
import { describe, expect, test } from '@jest/globals';
import { v7 } from 'uuid';
import { enqueueRequestSchema } from '../../../../workflows/protocol/enqueue.ts';
import { newAgent, type OpenStore, StoreBench } from '../store-bench.ts';

const HOUR = 3_600_000;

/** What `violations()` says of times. */
const TIMES = /before_its_time|overlapping_turns/;

export function describeTimes(makeOpener: () => OpenStore): void {
  describe('the times of an agent', () => {
    const bench = new StoreBench(makeOpener);

    const wrongTimes = async () => (await bench.store.violations()).filter(({ check }) => TIMES.test(check));

    test('never fall, whoever wrote with a clock that was ahead; what is due is counted from the clock (T12, T29)', async () => {
      const agentId = newAgent();
      bench.now += HOUR;
      const lease = await bench.started(agentId);
      await bench.think(lease, 1, ['look']);
      const written = bench.now;
      bench.now -= HOUR;
      const next = await bench.accepted(agentId);
      await bench.ended(lease);
      expect(await bench.dueIn(next)).toBeLessThan(HOUR / 2);
      const second = await bench.leased(agentId);
      await bench.think(second, 1);
      await bench.ended(second);
      const turns = await Promise.all([lease.agentTurnId, next].map((id) => bench.store.getTurn(id)));
      for (const turn of turns) expect(turn?.endedAt).toBeGreaterThanOrEqual(written);
      const events = await bench.store.readEvents({ agentId });
      const times = events.map(({ createdAt }) => createdAt);
      expect(times).toEqual([...times].sort((a, b) => a - b));
      expect(await wrongTimes()).toEqual([]);
      // As soon as the clock is there again, all goes on as usual.
      bench.now += 2 * HOUR;
      const third = await bench.started(agentId);
      expect((await bench.store.getTurn(third.agentTurnId))?.leasedAt).toBe(bench.now);
    });

    test('of what waits are those of the clock: a heartbeat moves a deadline by its whole time (T16)', async () => {
      const agentId = newAgent();
      bench.now += HOUR;
      const lease = await bench.started(agentId);
      bench.now -= HOUR;
      const callId = await bench.suspended(lease, 1, 60_000);
      bench.now += 30_000;
      await bench.store.reportResult(lease.agentTurnId, { callId, status: 'running' });
      expect((await bench.store.getAgent(agentId))?.resumeDeadline).toBe(bench.now + 60_000);
    });

    test('are taken once its head is held: whoever waited for it is not earlier than those before (T29)', async () => {
      const agentId = newAgent();
      const request = enqueueRequestSchema.parse({ instruction: 'go', profile: 'tester' });
      await bench.accept(agentId);
      const [begun, held] = [bench.now + 1, bench.now + 20_000];
      let asked = 0;
      const waiter = await bench.another(() => {
        asked += 1;
        return asked === 1 ? begun : held;
      });
      asked = 0;
      const outcome = await waiter.accept({ agentId, request: { ...request, idempotencyKey: v7() } });
      await waiter.close();
      if (outcome.kind !== 'accepted') throw new Error(outcome.message);
      expect((await bench.store.getTurn(outcome.agentTurnId))?.acceptedAt).toBe(held);
    });
  });
}
