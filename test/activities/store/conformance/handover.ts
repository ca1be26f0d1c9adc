/** Leasing an idle agent, and handing over from turn to turn, as every store must do it. */
import { describe, expect, test } from '@jest/globals';
import { v7 } from 'uuid';
import type { Accepted, Handover } from '../../../../workflows/contract/lease.ts';
import type { Store } from '../../../../workflows/contract/store.ts';
import type { EnqueueInput } from '../../../../workflows/protocol/enqueue.ts';
import { SIZES } from '../../../../workflows/protocol/sizes.ts';
import type { Priority } from '../../../../workflows/protocol/turn.ts';
import { testApp } from '../../../support/app.ts';
import { fenceOf, newAgent, nothing, type OpenStore, StoreBench, SUCCESS } from '../store-bench.ts';

/** A request that cannot start: no box has this id. */
const UNFIT = { contextBoxId: v7() };
/** As many of them as one transaction ends. */
const BATCH = 50;

export function describeHandover(bench: StoreBench, makeOpener: () => OpenStore): void {
  const accepted = async (agentId: string, input: Partial<EnqueueInput> = {}, on = bench.store): Promise<Accepted> => {
    const outcome = await bench.accept(agentId, input, on);
    if (outcome.kind === 'refused') throw new Error(outcome.message);
    return outcome;
  };
  const statusesOf = async (ids: readonly string[]) =>
    Promise.all(ids.map((agentTurnId) => bench.other.getTurnStatus(agentTurnId)));

  describe('a request to an idle agent', () => {
    test('is leased when it is accepted; the next one waits behind it (T1, T3)', async () => {
      const agentId = newAgent();
      const first = await accepted(agentId);
      expect(first).toMatchObject({ status: 'dispatched', position: 0, duplicate: false });
      expect(first.lease).toMatchObject({ agentId, agentTurnId: first.agentTurnId, turnEpoch: 1 });
      expect(await bench.other.getAgent(agentId)).toMatchObject({
        status: 'dispatched',
        activeAgentTurnId: first.agentTurnId,
        turnEpoch: 1,
      });
      const second = await accepted(agentId, {}, bench.other);
      expect(second).toMatchObject({ status: 'queued', position: 1, lease: null });
      expect(await accepted(agentId)).toMatchObject({ status: 'queued', position: 2, lease: null });
      expect(await accepted(agentId, { priority: 'now' })).toMatchObject({ status: 'queued', position: 1 });
      expect(await bench.store.violations()).toEqual([]);
    });

    test('with a key gives the same lease again until its turn has started, then none (T2, T29)', async () => {
      const agentId = newAgent();
      const first = await accepted(agentId, { idempotencyKey: 'k' });
      const queued = await accepted(agentId, { idempotencyKey: 'later' });
      for (const store of [bench.store, bench.other]) {
        const again = await accepted(agentId, { idempotencyKey: 'k' }, store);
        expect(again).toEqual({ ...first, duplicate: true });
        expect(await accepted(agentId, { idempotencyKey: 'later' }, store)).toEqual({ ...queued, duplicate: true });
      }
      const { lease } = first;
      if (!lease) throw new Error('no lease');
      await bench.store.openStep(fenceOf(lease), { stepIndex: 1, profileHash: lease.profileHash });
      const started = await accepted(agentId, { idempotencyKey: 'k' });
      expect(started).toMatchObject({ status: 'running', duplicate: true, lease: null });
      expect(await bench.store.listTurns(agentId)).toHaveLength(2);
    });

    test('made by two processes at once is leased once; each has its own place in the queue (T1)', async () => {
      const agentId = newAgent();
      const outcomes = await Promise.all([bench.store, bench.other].map((store) => accepted(agentId, {}, store)));
      expect(outcomes.filter(({ lease }) => lease !== null)).toHaveLength(1);
      expect(outcomes.map(({ position }) => position).sort()).toEqual([0, 1]);
    });
  });

  describe('leasing', () => {
    test('leases in lane order, then in accept order, with a rising epoch (T2, T9)', async () => {
      const agentId = newAgent();
      const open = await bench.started(agentId);
      const background = await bench.accepted(agentId, { priority: 'background' });
      const normal = await bench.accepted(agentId);
      const later = await bench.accepted(agentId);
      const now = await bench.accepted(agentId, { priority: 'now' });
      const order: string[] = [];
      let lease = open;
      for (let epoch = 2; epoch <= 5; epoch += 1) {
        const { handover } = await bench.store.commitTurn(fenceOf(lease), SUCCESS);
        lease = await bench.leased(agentId);
        expect(lease.turnEpoch).toBe(epoch);
        expect(handover).toEqual({ ...nothing(agentId), next: lease });
        order.push(lease.agentTurnId);
      }
      expect(order).toEqual([now, normal, later, background]);
    });

    test('a second run gets the same lease; a turn that has started, or waits, gives none (T1, T29)', async () => {
      const agentId = newAgent();
      const lease = await bench.started(agentId);
      await bench.accepted(agentId);
      const leased = { ...nothing(agentId), next: lease };
      expect(await bench.store.leaseNext(agentId)).toEqual(leased);
      expect(await bench.other.leaseNext(agentId)).toEqual(leased);
      await bench.store.openStep(fenceOf(lease), { stepIndex: 1, profileHash: lease.profileHash });
      expect(await bench.store.leaseNext(agentId)).toEqual(nothing(agentId));
      await bench.suspended(lease);
      expect(await bench.other.leaseNext(agentId)).toEqual(nothing(agentId));
      expect(await bench.store.leaseNext(newAgent())).toMatchObject({ next: null, more: false, settlements: [] });
    });

    test.each<[how: string, end: (store: Store, first: Parameters<typeof fenceOf>[0]) => Promise<Handover | null>]>([
      ['committed', async (store, first) => (await store.commitTurn(fenceOf(first), SUCCESS)).handover],
      ['stopped', async (store, first) => (await store.stopTurn(first.agentTurnId, 'test')).handover],
      ['reaped', (_store, first) => bench.reaped(first)],
    ])(
      'a turn that is %s leases the next one in the same transaction, for a started turn too (T9, T29)',
      async (how, end) => {
        for (const startsFirst of [false, true]) {
          const agentId = newAgent();
          const first = await bench.started(agentId);
          const background = await bench.accepted(agentId, { priority: 'background' });
          const queued = await bench.accepted(agentId);
          if (startsFirst) await bench.suspended(first);
          const handover = await end(bench.other, first);
          const turnEpoch = first.turnEpoch + (how === 'committed' ? 1 : 2);
          expect(handover).toMatchObject({ next: { agentTurnId: queued, turnEpoch }, more: false, settlements: [] });
          expect(await bench.store.getAgent(agentId)).toMatchObject({
            status: 'dispatched',
            activeAgentTurnId: queued,
            turnEpoch,
            waitingToolCount: 0,
            resumeDeadline: null,
          });
          expect(await bench.leased(agentId)).toEqual(handover?.next);
          const { handover: last } = await bench.store.stopTurn(queued, 'test');
          expect(last?.next).toMatchObject({ agentTurnId: background });
        }
        expect(await bench.store.violations()).toEqual([]);
      },
    );

    test('a second run of a commit gives the lease that the first one gave, until its turn has started (T29)', async () => {
      const agentId = newAgent();
      const first = await bench.started(agentId);
      await bench.accepted(agentId);
      const ending = await bench.store.commitTurn(fenceOf(first), SUCCESS);
      expect(ending.handover.next).not.toBeNull();
      for (const store of [bench.other, bench.store]) {
        expect(await store.commitTurn(fenceOf(first), SUCCESS)).toEqual(ending);
        expect(await store.leaseNext(agentId)).toEqual(ending.handover);
      }
      const { next } = ending.handover;
      if (!next) throw new Error('no lease');
      await bench.store.openStep(fenceOf(next), { stepIndex: 1, profileHash: next.profileHash });
      const { ended, handover } = await bench.store.commitTurn(fenceOf(first), SUCCESS);
      expect({ ended, handover }).toEqual({ ended: ending.ended, handover: nothing(agentId) });
      expect(await bench.tasksOf(agentId)).toHaveLength(1);
    });

    test('a queued turn that is canceled lets the next one through, and leases nothing beside an open turn (T1, T8)', async () => {
      const agentId = newAgent();
      const open = await bench.started(agentId);
      await bench.store.openStep(fenceOf(open), { stepIndex: 1, profileHash: open.profileHash });
      const [canceled, next] = [await bench.accepted(agentId), await bench.accepted(agentId)];
      const { ack, handover } = await bench.store.stopTurn(canceled, 'test');
      expect({ ack, handover }).toEqual({ ack: 'canceled', handover: nothing(agentId) });
      const ending = await bench.store.commitTurn(fenceOf(open), SUCCESS);
      expect(ending.handover.next).toMatchObject({ agentTurnId: next });
      // The canceled turn was never leased: it took no epoch.
      expect(ending.handover.next?.turnEpoch).toBe(open.turnEpoch + 1);
    });
  });

  describe('turns that cannot start', () => {
    test('end in batches, each with one task event and never undone, and the next one is leased (T8)', async () => {
      const agentId = newAgent();
      const open = await bench.started(agentId);
      const poisoned: string[] = [];
      for (let i = 0; i < BATCH + 10; i += 1) poisoned.push(await bench.accepted(agentId, UNFIT));
      const good = await bench.accepted(agentId);
      const left = poisoned[BATCH] ?? '';

      const { handover } = await bench.store.commitTurn(fenceOf(open), SUCCESS);
      expect(handover).toEqual({ ...nothing(agentId), more: true });
      const [failed, queued] = [Array(BATCH).fill('failed'), Array(10).fill('queued')];
      expect(await statusesOf(poisoned)).toEqual([...failed, ...queued]);
      // Whoever goes on may be gone: the first that is left is due.
      expect(await bench.due(left)).toMatchObject({ status: 'queued', agentIsFree: true, checkAt: bench.now });
      const ends = await bench.tasksOf(agentId);
      expect(ends).toHaveLength(1 + BATCH);

      expect(await bench.other.leaseNext(agentId)).toMatchObject({ next: { agentTurnId: good }, more: false });
      expect(await statusesOf(poisoned)).toEqual(Array(BATCH + 10).fill('failed'));
      expect(await bench.due(left)).toBeUndefined();
      const tasks = await bench.tasksOf(agentId);
      expect(tasks.slice(0, ends.length)).toEqual(ends);
      expect(tasks.map(({ agentTurnId }) => agentTurnId)).toEqual([open.agentTurnId, ...poisoned]);
      expect((await bench.store.getTurn(good))?.turnEpoch).toBe(2 + poisoned.length);
      expect(await bench.store.violations()).toEqual([]);
    });

    test('and are left after a batch make the idle agent refuse a UI action (T11)', async () => {
      const agentId = newAgent();
      const open = await bench.started(agentId);
      for (let i = 0; i < BATCH + 1; i += 1) await bench.accepted(agentId, UNFIT);
      expect((await bench.store.commitTurn(fenceOf(open), SUCCESS)).handover.more).toBe(true);
      expect(await bench.accept(agentId, { uiAction: true })).toMatchObject({ kind: 'refused', code: 'agent_busy' });
    });

    test('and fill a batch exactly leave nothing to be done (T8)', async () => {
      const agentId = newAgent();
      const open = await bench.started(agentId);
      for (let i = 0; i < BATCH; i += 1) await bench.accepted(agentId, UNFIT);
      expect((await bench.store.commitTurn(fenceOf(open), SUCCESS)).handover).toEqual(nothing(agentId));
      expect((await bench.started(agentId)).turnEpoch).toBe(open.turnEpoch + BATCH + 1);
    });

    test('a thousand of them drain by leasing again and again; a request meanwhile is leased after them (T8, T10)', async () => {
      const agentId = newAgent();
      const open = await bench.started(agentId);
      for (let i = 0; i < SIZES.maxQueuedTurns; i += 1) await bench.accepted(agentId, UNFIT);
      const stop = await bench.store.stopTurn(open.agentTurnId, 'test');
      let batches = 1;
      let late: Accepted | null = null;
      for (let last = stop.handover; last?.more; last = await bench.store.leaseNext(agentId)) {
        batches += 1;
        if (batches === 3) late = await accepted(agentId);
      }
      expect(await bench.leased(agentId)).toMatchObject({ agentTurnId: late?.agentTurnId });
      // The request itself ended one batch: its agent was free.
      expect(batches).toBe(SIZES.maxQueuedTurns / BATCH);
      const tasks = await bench.store.readEvents({ agentId, limit: 10_000 });
      expect(tasks.filter(({ type }) => type === 'task')).toHaveLength(1 + SIZES.maxQueuedTurns);
      expect(await bench.store.violations()).toEqual([]);
    });
  });

  describe('a store in which no profile is registered yet', () => {
    const open = async () => {
      let now = 1_000_000;
      const store = await makeOpener()(() => now);
      const request = { instruction: 'do it', profile: 'tester', priority: 'normal' } as const;
      const take = async (agentId: string, more: { uiAction?: boolean } = {}) =>
        store.accept({ agentId, request: { ...request, ...more } });
      const pass = (ms: number) => {
        now += ms;
      };
      return { store, take, pass, profiles: [...testApp([]).agents.values()] };
    };

    test('keeps what it accepts, due for a check every two seconds, and leases it when a worker has come (T3, T8)', async () => {
      const { store, take, pass, profiles } = await open();
      const [first, second] = [await take('a'), await take('a')];
      expect([first, second]).toMatchObject([
        { kind: 'accepted', status: 'queued', position: 0, lease: null },
        { kind: 'accepted', status: 'queued', position: 1, lease: null },
      ]);
      expect(await take('a', { uiAction: true })).toMatchObject({ kind: 'refused', code: 'agent_busy' });
      expect(await store.dueTurns(10)).toEqual([]);
      pass(2_000);
      const due = await store.dueTurns(10);
      expect(due).toMatchObject([{ status: 'queued', agentIsFree: true, checkAt: 1_002_000, timeouts: null }]);
      pass(60_000);
      expect(await store.leaseNext('a')).toEqual(nothing('a'));
      pass(2_000);
      expect(await store.dueTurns(10)).toMatchObject([{ checkAt: 1_064_000 }]);
      expect((await store.readEvents({ agentId: 'a' })).filter(({ type }) => type === 'task')).toEqual([]);

      await store.registerProfiles(profiles);
      const id = 'agentTurnId' in first ? first.agentTurnId : '';
      expect(await store.leaseNext('a')).toMatchObject({ next: { agentTurnId: id, turnEpoch: 1 }, more: false });
      expect(await store.dueTurns(10)).toEqual([]);
      expect(await store.violations()).toEqual([]);
      await store.close();
    });

    test('ends what it has accepted for a profile that no worker brings, and leases the next one (T8)', async () => {
      const { store, take, profiles } = await open();
      const request = { instruction: 'do it', profile: 'nobody', priority: 'normal' } as const;
      await store.accept({ agentId: 'a', agentTurnId: 'bad', request });
      await store.registerProfiles(profiles);
      // The request that comes next finds its agent idle, and what is queued is leased first.
      const good = await take('a');
      expect(good).toMatchObject({ kind: 'accepted', status: 'dispatched', position: 0 });
      expect(await store.getTurn('bad')).toMatchObject({ status: 'failed', errorCode: 'profile_not_found' });
      await store.close();
    });
  });

  describe('a queue of thousands', () => {
    const QUEUED = Number(process.env.AGENTTURN_TEST_QUEUED ?? 2_000);
    const long = new StoreBench(() => {
      const open = makeOpener();
      return (now) => open(now, { maxQueuedTurns: QUEUED });
    });

    const timeoutMs = 30_000 + QUEUED * 40;
    test(
      'is leased by lane and by order, and takes no more than it may (T9, T10)',
      async () => {
        const agentId = newAgent();
        let lease = await long.started(agentId);
        const lanes: Record<Priority, string[]> = { background: [], normal: [], now: [] };
        for (let i = 0; i < QUEUED; i += 1) {
          const priority = i % 50 === 0 ? 'now' : i % 50 === 1 ? 'normal' : 'background';
          lanes[priority].push(await long.accepted(agentId, { priority }));
        }
        expect(await long.accept(agentId)).toMatchObject({ kind: 'refused', code: 'inbox_full' });
        const expected = [...lanes.now, ...lanes.normal, ...lanes.background.slice(0, 70)];
        const order: string[] = [];
        const leaseNext = async () => {
          const { handover } = await long.store.commitTurn(fenceOf(lease), SUCCESS);
          if (!handover.next) throw new Error('nothing was leased');
          lease = handover.next;
          return lease.agentTurnId;
        };
        while (order.length < expected.length) order.push(await leaseNext());
        expect(order).toEqual(expected);
        expect(lanes.background).toContain(order.at(-1));
        const urgent = await long.accepted(agentId, { priority: 'now' });
        expect(await leaseNext()).toBe(urgent);
        expect(lease.turnEpoch).toBe(1 + expected.length + 1);
        expect(await long.store.getAgent(agentId)).toMatchObject({ queuedTurns: QUEUED - expected.length });
        expect(await long.store.violations()).toEqual([]);
      },
      timeoutMs,
    );
  });

  describe('what is repeated', () => {
    const REPEATS = Number(process.env.AGENTTURN_TEST_REPEATS ?? 200);
    const repeat = <T>(again: () => Promise<T>): Promise<T[]> =>
      Array.from({ length: REPEATS }).reduce<Promise<T[]>>(
        async (before) => [...(await before), await again()],
        Promise.resolve([]),
      );

    test('a request with the same key is leased no further, and writes nothing (T2, T10)', async () => {
      const agentId = newAgent();
      const lease = await bench.started(agentId, { idempotencyKey: 'k' });
      await bench.store.openStep(fenceOf(lease), { stepIndex: 1, profileHash: lease.profileHash });
      const events = await bench.eventsOf(agentId);
      const again = await repeat(() => accepted(agentId, { idempotencyKey: 'k' }));
      expect(again.filter((one) => one.lease !== null || !one.duplicate)).toEqual([]);
      await bench.ended(lease);
      const later = await repeat(() => accepted(agentId, { idempotencyKey: 'k' }));
      expect(later.filter((one) => one.lease !== null || one.status !== 'success')).toEqual([]);
      expect((await bench.eventsOf(agentId)).slice(0, events.length)).toEqual(events);
      expect(await bench.store.getAgent(agentId)).toMatchObject({ acceptedTurns: 1, queuedTurns: 0 });
    });

    test('a report wakes its turn once, a heartbeat never, and one that answers nothing never (T10, T14)', async () => {
      const lease = await bench.started(newAgent());
      const callId = await bench.suspended(lease, 1, 600_000);
      const report = (status: 'running' | 'success', id = callId) =>
        bench.store.reportResult(lease.agentTurnId, {
          callId: id,
          status,
          ...(status === 'success' ? { result: 1 } : {}),
        });
      const wakes = (acks: readonly { readonly wake: boolean }[]) => acks.filter(({ wake }) => wake).length;
      expect(wakes(await repeat(() => report('running')))).toBe(0);
      expect(wakes(await repeat(() => report('success', 'no-such-call')))).toBe(0);
      expect(await report('success')).toMatchObject({ ack: 'applied', wake: true });
      const again = await repeat(() => report('success'));
      expect(new Set(again.map(({ ack }) => ack))).toEqual(new Set(['duplicate']));
      expect(wakes(again)).toBe(0);
      await bench.ended(lease);
      expect(wakes(await repeat(() => report('success')))).toBe(0);
    });

    test('a report whose card is not there wakes its turn once (T10, T18)', async () => {
      const lease = await bench.started(newAgent());
      const callId = await bench.suspended(lease, 1, 600_000);
      const report = { callId, status: 'success', toolResultCardId: crypto.randomUUID() } as const;
      const acks = await repeat(() => bench.store.reportResult(lease.agentTurnId, report));
      expect(new Set(acks.map(({ ack }) => ack))).toEqual(new Set(['deferred']));
      expect(acks.map(({ wake }) => wake)).toEqual([true, ...Array(REPEATS - 1).fill(false)]);
    });

    test('a stop ends its turn once, and hands over once (T10, T21)', async () => {
      const agentId = newAgent();
      const lease = await bench.started(agentId);
      const queued = await bench.accepted(agentId);
      const { ack, handover } = await bench.store.stopTurn(lease.agentTurnId, 'test');
      expect({ ack, next: handover?.next?.agentTurnId }).toEqual({ ack: 'stopped', next: queued });
      const again = await repeat(() => bench.other.stopTurn(lease.agentTurnId, 'test'));
      expect(again).toEqual(Array(REPEATS).fill({ ack: 'already_ended', agentId, handover: null }));
      expect(await bench.tasksOf(agentId)).toHaveLength(1);
      const agent = () => bench.store.setLifecycle(agentId, 'stopped', 'test');
      expect((await agent()).stoppedTurnId).toBe(queued);
      expect(await repeat(agent)).toEqual(Array(REPEATS).fill({ stoppedTurnId: null, handover: nothing(agentId) }));
    });

    test('budgets that are set as they are change nothing (T10, K9)', async () => {
      const lease = await bench.started(newAgent());
      const set = () => bench.store.setBudgets(lease.agentTurnId, { maxSteps: 9, maxCost: 2 });
      expect(await set()).toMatchObject({ changed: true });
      const same = { agentId: lease.agentId, changed: false };
      expect(await repeat(set)).toEqual(Array(REPEATS).fill(same));
      expect(await bench.store.setBudgets(lease.agentTurnId, { maxCost: 2, maxSteps: 9 })).toEqual(same);
      expect(await bench.store.setBudgets(lease.agentTurnId, { maxSteps: 10 })).toMatchObject({ changed: true });
    });
  });
}
