/** When a turn's check is due after other things happened to the turn: never later than it must be, on every store. */
import { describe, expect, test } from '@jest/globals';
import { defineAgent, defineApp } from '../../../../activities/app/app.ts';
import { fenceOf, newAgent, STORES, StoreBench } from '../store-bench.ts';

const HOUR = 3_600_000;
const SOON = 10_000;

const app = defineApp({
  agents: [
    defineAgent({ name: 'tester' }),
    defineAgent({
      name: 'escalating',
      governance: { approvals: { approvers: ['ann'], onUnanswered: 'escalate', escalateTo: ['boss'] } },
    }),
  ],
});

describe.each(STORES)('the schedule of checks on %s', (_, fresh) => {
  const bench = new StoreBench(fresh, app);
  const reported = (turn: string, callId: string) =>
    bench.other.reportResult(turn, { callId, status: 'success', result: 1 });

  describe('a check', () => {
    test('that is due stays due when its turn comes to wait, and is not set by a check that saw it before (T12)', async () => {
      const lease = await bench.started(newAgent());
      const turn = lease.agentTurnId;
      const { calls } = await bench.think(lease, 1, ['ask']);
      bench.now += HOUR;
      const seen = await bench.due(turn);
      if (!seen) throw new Error('it is not due');
      await bench.store.suspendCall(fenceOf(lease), calls[0]?.callId ?? '', 24 * HOUR);
      expect(await bench.dueIn(turn)).toBe(0);
      const later = {
        checkAt: bench.now + HOUR,
        everyMs: SOON,
        noWorkersSince: null,
        workersSince: null,
        wokenAt: null,
      };
      await bench.store.scheduleCheck(seen, later);
      expect(await bench.dueIn(turn)).toBe(0);
    });

    test('for a result that is not read is not put off by heartbeats and other answers (T12, T14)', async () => {
      const lease = await bench.started(newAgent());
      const turn = lease.agentTurnId;
      const fence = fenceOf(lease);
      const { calls } = await bench.think(lease, 1, ['ask', 'ask']);
      const [first = '', second = ''] = calls.map((call) => call.callId);
      for (const callId of [first, second]) await bench.store.suspendCall(fence, callId, 24 * HOUR);
      await reported(turn, first);
      expect(await bench.dueIn(turn)).toBe(SOON);
      bench.now += 6_000;
      await bench.other.reportResult(turn, { callId: second, status: 'running' });
      expect(await bench.dueIn(turn)).toBe(SOON - 6_000);
    });

    test('of a turn that has ended does not count what it was woken for before (T10)', async () => {
      const lease = await bench.started(newAgent());
      const callId = await bench.suspended(lease, 1, HOUR);
      await reported(lease.agentTurnId, callId);
      bench.now += SOON;
      const seen = await bench.due(lease.agentTurnId);
      if (!seen) throw new Error('it is not due');
      const woken = { checkAt: bench.now + SOON, everyMs: SOON, noWorkersSince: null, workersSince: null };
      await bench.store.scheduleCheck(seen, { ...woken, wokenAt: bench.now });
      await bench.store.stopTurn(lease.agentTurnId, 'test');
      expect(await bench.dueAt(bench.now + SOON, lease.agentTurnId)).toMatchObject({ status: 'failed', wokenAt: null });
    });

    test('is made due behind what is due already, once (T12)', async () => {
      const [first, second] = [await bench.started(newAgent()), await bench.started(newAgent())];
      bench.now += 1_000;
      expect(await bench.store.makeDue([second.agentTurnId])).toBe(1);
      bench.now += 1_000;
      expect(await bench.store.makeDue([first.agentTurnId, second.agentTurnId])).toBe(1);
      const ids = [first.agentTurnId, second.agentTurnId];
      const due = (await bench.store.dueTurns(1_000_000)).filter((turn) => ids.includes(turn.agentTurnId));
      expect(due.map((turn) => turn.agentTurnId)).toEqual([second.agentTurnId, first.agentTurnId]);
    });
  });

  test('the head knows the later deadline of a question that was escalated (K7)', async () => {
    const lease = await bench.started(newAgent(), { profile: 'escalating' });
    const { calls } = await bench.think(lease, 1, ['pay']);
    const callId = calls[0]?.callId ?? '';
    const request = { callId, kind: 'call', tool: 'pay', reason: 'r' } as const;
    const [asked] = await bench.store.askApprovals(fenceOf(lease), [request]);
    bench.now = asked?.deadline ?? 0;
    const look = await bench.store.resolveWaiting(fenceOf(lease), [callId]);
    const deadline = look.waiting[0]?.deadline ?? 0;
    expect(deadline).toBeGreaterThan(bench.now);
    expect(await bench.store.getAgent(lease.agentId)).toMatchObject({ status: 'suspended', resumeDeadline: deadline });
    expect(await bench.store.violations()).toEqual([]);
  });
});
