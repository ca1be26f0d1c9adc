/** What the supervisor reads and writes, as every store must do it. */
import { describe, expect, test } from '@jest/globals';
import { v7 } from 'uuid';
import type { Lease } from '../../../../workflows/contract/lease.ts';
import type { DueTurn, NextCheck, SeenTurn } from '../../../../workflows/contract/supervision.ts';
import type { Timeouts } from '../../../../workflows/protocol/profile.ts';
import { testApp } from '../../../support/app.ts';
import { profileNamed, Session } from '../chat/session.ts';
import { ENGINE, fenceOf, LOST, newAgent, type StoreBench, SUCCESS } from '../store-bench.ts';

const HOUR = 3_600_000;

export function describeSupervision(bench: StoreBench): void {
  /** Leased, and with a step under way. */
  const running = async (agentId = newAgent()): Promise<Lease> => {
    const lease = await bench.started(agentId);
    await bench.store.openStep(fenceOf(lease), { stepIndex: 1, profileHash: lease.profileHash });
    return lease;
  };
  const waiting = async (windowMs: number, agentId = newAgent()) => {
    const lease = await bench.started(agentId);
    return { lease, callId: await bench.suspended(lease, 1, windowMs), turn: lease.agentTurnId };
  };
  const due = async (agentTurnId: string, at = bench.now + HOUR): Promise<DueTurn> => {
    const found = await bench.dueAt(at, agentTurnId);
    if (!found) throw new Error('it is not due');
    return found;
  };
  const answered = (turn: string, callId: string) =>
    bench.other.reportResult(turn, { callId, status: 'success', result: 1 });

  describe('ending a turn over its head', () => {
    const seen = async (lease: Lease): Promise<SeenTurn> => {
      const { status, progressAt } = await due(lease.agentTurnId);
      return { ...fenceOf(lease), status, progressAt };
    };

    test('is done as the turn was seen, once, and leases the next one (T7, T12, T29)', async () => {
      const lease = await running();
      const next = await bench.accepted(lease.agentId);
      const now = await seen(lease);
      const timeout = { status: 'timeout', errorCode: 'turn_timeout', reason: 'no progress' } as const;
      const handover = await bench.other.reapTurn(now, timeout);
      expect(handover).toMatchObject({ next: { agentTurnId: next, turnEpoch: lease.turnEpoch + 2 }, more: false });
      expect(await bench.store.reapTurn(now, timeout)).toBeNull();
      expect(await bench.store.getTurn(lease.agentTurnId)).toMatchObject({ status: 'timeout', reason: 'no progress' });
      expect(await bench.tasksOf(lease.agentId)).toHaveLength(1);
      expect(await bench.store.violations()).toEqual([]);
    });

    test('is refused when a dispatched turn has started meanwhile, and done once while it has not (T12)', async () => {
      const timeout = { status: 'timeout', errorCode: 'dispatch_timeout' } as const;
      const [late, started] = [await bench.started(newAgent()), await bench.started(newAgent())];
      const [lateSeen, startedSeen] = [await seen(late), await seen(started)];
      await bench.store.openStep(fenceOf(started), { stepIndex: 1, profileHash: started.profileHash });
      expect(await bench.store.reapTurn(startedSeen, timeout)).toBeNull();
      expect(await bench.store.getTurn(started.agentTurnId)).toMatchObject({ status: 'running' });
      expect(await bench.store.reapTurn(lateSeen, timeout)).not.toBeNull();
      expect(await bench.store.reapTurn(lateSeen, timeout)).toBeNull();
      expect(await bench.store.getTurn(late.agentTurnId)).toMatchObject(timeout);
      expect(await bench.tasksOf(late.agentId)).toHaveLength(1);
    });

    test.each<[what: string, move: (lease: Lease, callId: string) => Promise<unknown>]>([
      ['got a result', (lease, callId) => answered(lease.agentTurnId, callId)],
      [
        'got a heartbeat',
        (lease, callId) => bench.store.reportResult(lease.agentTurnId, { callId, status: 'running' }),
      ],
      ['looked at its calls', (lease, callId) => bench.store.resolveWaiting(fenceOf(lease), [callId])],
      ['went on', (lease) => bench.think(lease, 2)],
    ])('is refused when a suspended turn %s meanwhile (T12, T29)', async (_what, move) => {
      const { lease, callId, turn } = await waiting(1_000);
      const before = await seen(lease);
      bench.now += 1;
      await move(lease, callId);
      expect(await bench.store.reapTurn(before, LOST)).toBeNull();
      expect(['suspended', 'running']).toContain(await bench.store.getTurnStatus(turn));
      expect(await bench.store.reapTurn(await seen(lease), LOST)).not.toBeNull();
    });

    test('is refused under another epoch, status or progress, and for a turn that is not the open one (T5, T12)', async () => {
      const lease = await running();
      const queued = await bench.accepted(lease.agentId);
      const now = await seen(lease);
      const wrong: readonly Partial<SeenTurn>[] = [
        { turnEpoch: now.turnEpoch + 1 },
        { turnEpoch: now.turnEpoch - 1 },
        { agentTurnId: queued },
        { agentTurnId: v7() },
        { agentId: newAgent() },
        { status: 'dispatched' },
        { status: 'suspended' },
        { status: 'queued' },
        { progressAt: now.progressAt - 1 },
        { progressAt: now.progressAt + 1 },
      ];
      const events = await bench.eventsOf(lease.agentId);
      for (const other of wrong) expect(await bench.store.reapTurn({ ...now, ...other }, LOST)).toBeNull();
      expect(await bench.eventsOf(lease.agentId)).toEqual(events);
      expect(await bench.store.getTurnStatus(lease.agentTurnId)).toBe('running');
      await bench.store.stopTurn(lease.agentTurnId, 'test');
      expect(await bench.store.reapTurn(now, LOST)).toBeNull();
    });
  });

  describe('a check is due', () => {
    test('ten seconds after a lease, and again after the start, with all that the check needs to know (T12, T23)', async () => {
      const lease = await bench.started(newAgent());
      const { agentId, agentTurnId, turnEpoch, workerTarget, timeouts } = lease;
      expect(await bench.dueAt(bench.now + 9_999, agentTurnId)).toBeUndefined();
      const leasedAt = bench.now;
      const first: DueTurn = {
        agentId,
        agentTurnId,
        turnEpoch,
        status: 'dispatched',
        workerTarget,
        checkAt: leasedAt + 10_000,
        everyMs: 10_000,
        leasedAt,
        progressAt: leasedAt,
        resumeDeadline: null,
        endsBy: null,
        noWorkersSince: null,
        workersSince: null,
        unread: false,
        wokenAt: null,
        retryAt: null,
        agentIsFree: false,
        settlementDue: false,
        parentGone: false,
        waitsAhead: false,
        timeouts,
      };
      expect(await due(agentTurnId, bench.now + 10_000)).toEqual(first);
      bench.now += 4_000;
      await bench.store.openStep(fenceOf(lease), { stepIndex: 1, profileHash: lease.profileHash });
      const started = { status: 'running', checkAt: bench.now + 10_000, progressAt: bench.now } as const;
      expect(await due(agentTurnId)).toEqual({ ...first, ...started });
      bench.now += 3_000;
      await bench.think(lease, 1);
      // A step is progress; it moves no check.
      expect(await due(agentTurnId)).toEqual({ ...first, ...started, progressAt: bench.now });
    });

    test.each<[name: string, timeouts: Partial<Timeouts>, lease: number, start: number]>([
      ['dispatchMs', { dispatchMs: 3_000 }, 3_000, 3_000],
      ['noProgressMs', { noProgressMs: 4_000 }, 4_000, 4_000],
      ['turnMs', { turnMs: 5_000 }, 5_000, 5_000],
      ['no dispatchMs', { dispatchMs: 0 }, 10_000, 10_000],
    ])('earlier where the profile sets a shorter time: %s (T12)', async (name, timeouts, lease, start) => {
      const profile = `hasty-${name.replace(' ', '-')}`;
      const app = testApp([], { name: profile, timeouts: timeouts as Timeouts });
      await bench.store.registerProfiles([...app.agents.values()]);
      const leased = await bench.started(newAgent(), { profile });
      expect(await bench.dueIn(leased.agentTurnId)).toBe(lease);
      const { endsBy } = await due(leased.agentTurnId);
      expect(endsBy).toBe(timeouts.turnMs === undefined ? null : bench.now + timeouts.turnMs);
      await bench.store.openStep(fenceOf(leased), { stepIndex: 1, profileHash: leased.profileHash });
      expect(await bench.dueIn(leased.agentTurnId)).toBe(start);
      await bench.suspended(leased, 1, 60_000);
      expect(await bench.dueIn(leased.agentTurnId)).toBe(timeouts.turnMs ?? 70_000);
    });

    test('ten seconds after the nearest deadline of a turn that waits, and after an hour at most (T12, T17)', async () => {
      const { lease, turn } = await waiting(30_000);
      expect(await bench.dueIn(turn)).toBe(40_000);
      expect(await due(turn)).toMatchObject({ status: 'suspended', resumeDeadline: bench.now + 30_000, unread: false });
      bench.now += 20_000;
      await bench.suspended(lease, 2, 5_000);
      expect(await bench.dueIn(turn)).toBe(15_000);
      const patient = await waiting(24 * HOUR);
      expect(await bench.dueIn(patient.turn)).toBe(HOUR);
      await bench.store.reportResult(patient.turn, { callId: patient.callId, status: 'running' });
      expect(await bench.dueIn(patient.turn)).toBe(HOUR);
    });

    test('ten seconds after a result has come, as unread until the turn has read it (T12, T14)', async () => {
      const { lease, callId, turn } = await waiting(HOUR);
      bench.now += 5_000;
      await answered(turn, callId);
      expect(await bench.dueIn(turn)).toBe(10_000);
      expect(await due(turn)).toMatchObject({ status: 'running', unread: true, resumeDeadline: null, wokenAt: null });
      bench.now += 2_000;
      await bench.store.resolveWaiting(fenceOf(lease), [callId]);
      expect(await bench.dueIn(turn)).toBe(10_000);
      expect(await due(turn)).toMatchObject({ status: 'running', unread: false, progressAt: bench.now });
    });

    test.each<[what: string, come: (lease: Lease, answeredCall: string) => Promise<unknown>]>([
      ['a result', (lease, callId) => answered(lease.agentTurnId, callId)],
      ['an answer', (lease, callId) => bench.other.answerApproval(lease.agentTurnId, { callId, decision: 'approved' })],
    ])('ten seconds after %s has come, however long another call still waits (T12, T14)', async (what, come) => {
      const lease = await bench.started(newAgent());
      const [first = '', second = ''] = (await bench.think(lease, 1, ['pay', 'ask'])).calls.map((call) => call.callId);
      const fence = fenceOf(lease);
      if (what === 'a result') await bench.store.suspendCall(fence, first, HOUR);
      else await bench.store.askApprovals(fence, [{ callId: first, kind: 'call', tool: 'pay', reason: 'r' }]);
      await bench.store.suspendCall(fence, second, HOUR);
      await come(lease, first);
      expect(await due(lease.agentTurnId)).toMatchObject({ status: 'suspended', unread: true });
      expect(await bench.dueIn(lease.agentTurnId)).toBe(10_000);
    });

    test('not for what runs itself: idle agents, turns in a queue, turns that committed their own end (T29)', async () => {
      const lease = await running();
      const [queued, later] = [await bench.accepted(lease.agentId), await bench.accepted(lease.agentId)];
      expect(await Promise.all([queued, later].map((turn) => bench.dueIn(turn)))).toEqual([null, null]);
      await bench.ended(lease, { ...SUCCESS, engine: ENGINE });
      const next = await bench.leased(lease.agentId);
      const dueIn = async () => Promise.all([lease.agentTurnId, queued, later].map((turn) => bench.dueIn(turn)));
      expect(await dueIn()).toEqual([null, 10_000, null]);
      await bench.store.stopTurn(later, 'test');
      await bench.ended(next, { ...SUCCESS, engine: ENGINE });
      expect(await dueIn()).toEqual([null, null, null]);
    });

    test.each<[how: string, end: (lease: Lease) => Promise<unknown>]>([
      ['stopped', (lease) => bench.store.stopTurn(lease.agentTurnId, 'test')],
      ['stopped with its agent', (lease) => bench.store.setLifecycle(lease.agentId, 'stopped', 'test')],
      ['reaped', (lease) => bench.reaped(lease)],
    ])('ten seconds after a turn was %s: its workflow may not have let go (T21, T29)', async (_how, end) => {
      const { lease, turn } = await waiting(HOUR);
      await end(lease);
      expect(await bench.dueIn(turn)).toBe(10_000);
      const ended = { status: 'failed', unread: false, resumeDeadline: null, settlementDue: false, parentGone: false };
      expect(await due(turn)).toMatchObject(ended);
    });

    test('at once where the clock was ahead when it was planned, and what is overdue counts from then (T12)', async () => {
      const day = 24 * HOUR;
      bench.now += day;
      const [dispatched, run] = [await bench.started(newAgent()), await running()];
      bench.now -= day;
      for (const { agentTurnId } of [dispatched, run]) {
        const turn = await due(agentTurnId, bench.now);
        expect(turn.checkAt).toBeGreaterThan(bench.now + day);
        expect([turn.leasedAt, turn.progressAt]).toEqual([bench.now, bench.now]);
        await bench.store.scheduleCheck(turn, {
          checkAt: bench.now + 20_000,
          everyMs: 20_000,
          noWorkersSince: null,
          workersSince: null,
          wokenAt: null,
        });
        expect(await bench.due(agentTurnId)).toBeUndefined();
        const later = await due(agentTurnId, bench.now + HOUR);
        expect([later.leasedAt, later.progressAt]).toEqual([bench.now, bench.now]);
      }
    });

    test('of a message that was to wait for others until a time which the clock has never had (C8, T12)', async () => {
      const session = new Session(bench, await profileNamed(bench, { chat: { debounceMs: 500 } }));
      bench.now += 2 * HOUR;
      const { message } = await session.sent('hello');
      const { agentTurnId } = message;
      bench.now -= 2 * HOUR;
      expect(await bench.due(agentTurnId ?? '')).toMatchObject({ status: 'queued', agentIsFree: true });
      expect(await bench.leased(session.agentId)).toMatchObject({ agentTurnId });
    });

    test('in the order in which the turns became due, up to a limit (T12)', async () => {
      const turns: string[] = [];
      for (let i = 0; i < 5; i += 1) {
        turns.push((await bench.started(newAgent())).agentTurnId);
        bench.now += 100;
      }
      const [first = '', second = '', third = '', ...last] = turns;
      expect(await bench.store.makeDue(last)).toBe(2);
      bench.now += 9_700;
      const all = await bench.store.dueTurns(1_000_000);
      const order = all.map(({ agentTurnId }) => agentTurnId).filter((id) => turns.includes(id));
      expect(order.slice(0, 2).sort()).toEqual([...last].sort());
      expect(order.slice(2)).toEqual([first, second, third]);
      const checks = all.map(({ checkAt }) => checkAt);
      expect(checks).toEqual([...checks].sort((a, b) => a - b));
      expect((await bench.store.dueTurns(3)).map(({ checkAt }) => checkAt)).toEqual(checks.slice(0, 3));
      expect(await bench.store.dueTurns(0)).toEqual([]);
    });
  });

  describe('scheduling the next check', () => {
    const NEXT: NextCheck = { checkAt: 0, everyMs: 20_000, noWorkersSince: null, workersSince: null, wokenAt: null };
    const schedule = async (turn: DueTurn, next: Partial<NextCheck>) =>
      bench.store.scheduleCheck(turn, { ...NEXT, checkAt: bench.now + 20_000, ...next });

    test('moves it, with what was found out, until the turn itself moves it (T12)', async () => {
      const { lease, callId, turn } = await waiting(HOUR);
      const [wokenAt, workersSince] = [bench.now - 1, bench.now - 2];
      await schedule(await due(turn), { wokenAt, workersSince });
      expect(await bench.dueIn(turn)).toBe(20_000);
      expect(await due(turn)).toMatchObject({ everyMs: 20_000, wokenAt, workersSince, noWorkersSince: null });
      await answered(turn, callId);
      expect(await due(turn)).toMatchObject({ checkAt: bench.now + 10_000, everyMs: 10_000, unread: true });
      await bench.ended(lease, { ...SUCCESS, engine: ENGINE });
      expect(await bench.dueIn(turn)).toBeNull();
    });

    test('keeps that the turn was woken until it has read what is there (T10, T12)', async () => {
      const { lease, callId, turn } = await waiting(HOUR);
      const other = await bench.suspended(lease, 2, HOUR);
      await answered(turn, callId);
      await schedule(await due(turn), { wokenAt: bench.now });
      await bench.store.reportResult(turn, { callId: other, status: 'running' });
      expect(await due(turn)).toMatchObject({ unread: true, wokenAt: bench.now });
      await bench.store.resolveWaiting(fenceOf(lease), [callId, other]);
      expect(await due(turn)).toMatchObject({ status: 'suspended', unread: false, wokenAt: null });
    });

    test('lets a result that comes after a wake-up be woken for, though nothing else was read since (T12, T18)', async () => {
      const { lease, callId, turn } = await waiting(HOUR);
      const other = await bench.suspended(lease, 2, HOUR);
      await bench.store.reportResult(turn, { callId: other, status: 'success', toolResultCardId: v7() });
      bench.now += 11_000;
      expect(await due(turn, bench.now)).toMatchObject({ unread: true, wokenAt: null });
      await schedule(await due(turn), { wokenAt: bench.now });
      // The card is still not there: the turn has looked, and waits for both.
      await bench.store.resolveWaiting(fenceOf(lease), [callId, other]);
      await answered(turn, callId);
      expect(await due(turn)).toMatchObject({ unread: true, wokenAt: null });
      expect(await bench.dueIn(turn)).toBeLessThanOrEqual(10_000);
    });

    test('takes the turn off when nothing is left to be checked (T29)', async () => {
      const lease = await running();
      await bench.store.stopTurn(lease.agentTurnId, 'test');
      await schedule(await due(lease.agentTurnId), { checkAt: null });
      expect(await bench.dueIn(lease.agentTurnId)).toBeNull();
    });

    test.each<[what: string, move: (lease: Lease, callId: string) => Promise<unknown>, dueIn: number | null]>([
      ['got a result', (lease, callId) => answered(lease.agentTurnId, callId), 10_000],
      ['was stopped', (lease) => bench.store.stopTurn(lease.agentTurnId, 'test'), 10_000],
      ['has ended', (lease) => bench.ended(lease, { ...SUCCESS, engine: ENGINE }), null],
      ['was made due', (lease) => bench.store.makeDue([lease.agentTurnId]), 0],
    ])('leaves the schedule of a turn that %s meanwhile as it is (T12, T29)', async (_what, move, dueIn) => {
      const { lease, callId, turn } = await waiting(HOUR);
      const found = await due(turn);
      bench.now += 1;
      await move(lease, callId);
      await schedule(found, { noWorkersSince: bench.now });
      expect(await bench.dueIn(turn)).toBe(dueIn);
      expect((await bench.store.getTurn(turn))?.waitingForWorkers).toBeNull();
    });

    test('says that a turn waits for workers: on the turn, on its agent, and in one event (T12)', async () => {
      const lease = await bench.started(newAgent());
      const { agentId, agentTurnId: turn, workerTarget } = lease;
      const looks = async () => ({
        turn: (await bench.store.getTurn(turn))?.waitingForWorkers,
        agent: (await bench.store.getAgent(agentId))?.waitingForWorkers,
        listed: (await bench.store.getAgent(agentId))?.waitingForWorkers,
      });
      const told = async () =>
        (await bench.eventsOf(agentId)).filter(
          ({ type, payload }) =>
            type === 'state' && 'activity' in payload && payload.activity === 'waiting_for_workers',
        );
      expect([await looks(), await told()]).toEqual([{ turn: null, agent: null, listed: null }, []]);
      const since = bench.now + 10_000;
      const missing = { workerTarget, since };
      for (let check = 0; check < 3; check += 1) {
        await schedule(await due(turn), { noWorkersSince: since, checkAt: since + check });
        expect(await looks()).toEqual({ turn: missing, agent: missing, listed: missing });
        expect(await told()).toMatchObject([{ agentTurnId: turn, payload: { status: 'dispatched' } }]);
      }
      expect((await due(turn)).noWorkersSince).toBe(since);
      await schedule(await due(turn), { workersSince: since + 3 });
      expect(await looks()).toEqual({ turn: null, agent: null, listed: null });
      await schedule(await due(turn), { noWorkersSince: since + 4 });
      expect(await told()).toHaveLength(2);
      await bench.store.openStep(fenceOf(lease), { stepIndex: 1, profileHash: lease.profileHash });
      expect([await looks(), (await due(turn)).noWorkersSince]).toEqual([
        { turn: null, agent: null, listed: null },
        null,
      ]);
      await schedule(await due(turn), { noWorkersSince: since + 5 });
      await bench.store.stopTurn(turn, 'test');
      expect(await looks()).toEqual({ turn: null, agent: null, listed: null });
      expect(await bench.store.violations()).toEqual([]);
    });
  });

  describe('open turns', () => {
    test('are made due at once; those that are due already, queued, ended or unknown are left alone (T7, T29)', async () => {
      const { turn: early } = await waiting(1_000);
      bench.now += 12_000;
      const [dispatched, open] = [await bench.started(newAgent()), await running()];
      const { turn: suspended } = await waiting(HOUR);
      const queued = await bench.accepted(open.agentId);
      const [ended, stopped] = [await running(), await running()];
      await bench.ended(ended, { ...SUCCESS, engine: ENGINE });
      await bench.store.stopTurn(stopped.agentTurnId, 'test');
      const waitingTurns = [dispatched.agentTurnId, open.agentTurnId, suspended];
      const others = [early, queued, ended.agentTurnId, stopped.agentTurnId];
      const all = [...others, ...waitingTurns, v7()];
      expect(await bench.store.makeDue(all)).toBe(3);
      const dueIn = () => Promise.all(waitingTurns.map((turn) => bench.dueIn(turn)));
      expect(await dueIn()).toEqual([0, 0, 0]);
      expect(await Promise.all(others.map((turn) => bench.dueIn(turn)))).toEqual([-1_000, null, null, 10_000]);
      bench.now += 1;
      expect(await bench.store.makeDue(all)).toBe(0);
      expect(await dueIn()).toEqual([-1, -1, -1]);
      expect(await bench.store.makeDue([])).toBe(0);
    });

    test('are counted and listed while they run or wait, page by page (T29)', async () => {
      const before = await bench.store.countOpenTurns();
      const leases = [await running(), await running(), (await waiting(HOUR)).lease];
      const others = [await bench.started(newAgent()), await running()];
      await bench.accepted(leases[0]?.agentId ?? '');
      await bench.ended(others[1] as Lease);
      expect(await bench.other.countOpenTurns()).toBe(before + leases.length);
      const ids: string[] = [];
      for (;;) {
        const page = await bench.store.listOpenTurns(ids.at(-1) ?? '', 2);
        ids.push(...page);
        if (page.length < 2) break;
      }
      expect(ids).toHaveLength(before + leases.length);
      expect(ids).toEqual([...new Set(ids)].sort());
      expect(ids).toEqual(expect.arrayContaining(leases.map(({ agentTurnId }) => agentTurnId)));
      for (const { agentTurnId } of others) expect(ids).not.toContain(agentTurnId);
    });
  });
}
