/** What was written while a clock was ahead is counted from now once it is set back, as every store must see to it. */
import { beforeEach, describe, expect, test } from '@jest/globals';
import { v7 } from 'uuid';
import type { Lease } from '../../../../workflows/contract/lease.ts';
import type { DueTurn } from '../../../../workflows/contract/supervision.ts';
import type { ProfileInput } from '../../../../workflows/protocol/profile.ts';
import { testApp } from '../../../support/app.ts';
import { profileNamed } from '../chat/session.ts';
import { fenceOf, newAgent, nth, type OpenStore, StoreBench } from '../store-bench.ts';
import { create, waitFor, workBench } from '../work-bench.ts';

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

export function describeClockAhead(makeOpener: () => OpenStore): void {
  describe('what was written while a clock was a day ahead', () => {
    const bench = new StoreBench(makeOpener, testApp([], { delegationPolicy: { profiles: ['tester'] } }));
    const { effects, end, rested, id, eventsOf, dueOf, fired, instructionOf } = workBench(bench);

    beforeEach(() => {
      bench.now += 10 * DAY;
    });
    const ahead = async <T>(body: () => Promise<T>): Promise<T> => {
      bench.now += DAY;
      const value = await body();
      bench.now -= DAY;
      return value;
    };
    const sound = async () => expect(await bench.store.violations()).toEqual([]);
    const due = async (agentTurnId: string): Promise<DueTurn> => {
      const found = await bench.due(agentTurnId);
      if (!found) throw new Error('it is not due');
      return found;
    };
    const leftOf = async (lease: Lease, callId: string) => {
      const { waiting } = await bench.store.resolveWaiting(fenceOf(lease), [callId]);
      return waiting.map(({ leftMs, wakeInMs = leftMs }) => [leftMs, wakeInMs]);
    };

    describe('of a call that waits', () => {
      const suspended = (windowMs = MINUTE) =>
        ahead(async () => {
          const lease = await bench.started(newAgent());
          return { lease, callId: await bench.suspended(lease, 1, windowMs) };
        });

      test('counts from when the supervisor sees it, or its workflow asks, whichever is first (T13, T17)', async () => {
        const { lease, callId } = await suspended();
        expect(await due(lease.agentTurnId)).toMatchObject({ waitsAhead: true });
        await bench.store.recountWaits(lease.agentTurnId);
        const deadline = bench.now + MINUTE;
        expect(await bench.store.getAgent(lease.agentId)).toMatchObject({ resumeDeadline: deadline });
        // The check that follows plans the next one.
        expect(await due(lease.agentTurnId)).toMatchObject({ waitsAhead: false, resumeDeadline: deadline });
        await sound();
        bench.now += MINUTE - 1;
        await bench.store.recountWaits(lease.agentTurnId);
        expect(await leftOf(lease, callId)).toEqual([[1, 1]]);
        bench.now += 1;
        const { settled } = await bench.store.resolveWaiting(fenceOf(lease), [callId]);
        expect(settled).toMatchObject([{ callId, status: 'timeout' }]);
        await sound();
      });

      test('is told to whoever asks how long it waits, and written down then (T13, T17)', async () => {
        const { lease, callId } = await suspended();
        expect(await leftOf(lease, callId)).toEqual([[MINUTE, MINUTE]]);
        bench.now += 20_000;
        expect(await leftOf(lease, callId)).toEqual([[MINUTE - 20_000, MINUTE - 20_000]]);
        expect(await due(lease.agentTurnId).catch(() => null)).toBeNull();
        const again = await suspended();
        const left = { kind: 'suspended', leftMs: MINUTE };
        expect(await bench.store.suspendCall(fenceOf(again.lease), again.callId, MINUTE)).toMatchObject(left);
        const third = await suspended();
        const claim = { callId: third.callId, first: false, by: nth(2), repeatable: true };
        expect(await bench.store.claimCall(fenceOf(third.lease), claim)).toMatchObject(left);
        await sound();
      });

      test('is the time of every call of the turn, and none that waits by a clock that was right is moved (T13)', async () => {
        const lease = await bench.started(newAgent());
        const right = await bench.suspended(lease, 1, 3 * DAY);
        const wrong = await ahead(() => bench.suspended(lease, 2, MINUTE));
        await bench.store.recountWaits(lease.agentTurnId);
        expect(await leftOf(lease, right)).toEqual([[3 * DAY, 3 * DAY]]);
        expect(await leftOf(lease, wrong)).toEqual([[MINUTE, MINUTE]]);
        await sound();
      });

      test('waits for a delegated turn no longer than it may (T13, T30)', async () => {
        const { lease, delegation } = await ahead(async () => {
          const caller = await bench.started(newAgent());
          const made = await bench.delegated(caller, { strategy: 'new', profile: 'tester' }, { waitMs: MINUTE });
          return { lease: caller, delegation: made.delegation };
        });
        const { call } = await bench.store.delegate(fenceOf(lease), delegation);
        expect(call).toMatchObject({ kind: 'suspended', leftMs: MINUTE });
        await sound();
      });

      test('is heard of in time: a report whose card was missing is tried again at once (T18)', async () => {
        const lease = await bench.started(newAgent());
        const callId = await bench.suspended(lease, 1, 3 * DAY);
        const report = { callId, status: 'success', toolResultCardId: v7() } as const;
        await ahead(async () => {
          expect((await bench.store.reportResult(lease.agentTurnId, report)).ack).toBe('deferred');
        });
        expect(await due(lease.agentTurnId)).toMatchObject({ unread: true });
        expect(await leftOf(lease, callId)).toEqual([[3 * DAY, 2_000]]);
        bench.now += 2_000;
        expect(await leftOf(lease, callId)).toEqual([[3 * DAY - 2_000, 4_000]]);
      });
    });

    describe('of a question', () => {
      const profile = (onUnanswered: 'deny' | 'escalate') =>
        profileNamed(bench, {
          governance: { approvals: { deadlineMs: MINUTE, approvers: ['ann'], onUnanswered, escalateTo: ['boss'] } },
        });
      const open = async (onUnanswered: 'deny' | 'escalate') => {
        const lease = await bench.started(newAgent(), { profile: await profile(onUnanswered) });
        const [call] = (await bench.think(lease, 1, ['pay'])).calls;
        const callId = call?.callId ?? '';
        const ask = () =>
          bench.store.askApprovals(fenceOf(lease), [{ callId, kind: 'call', tool: 'pay', reason: 'r' }]);
        return { lease, callId, ask };
      };

      test('counts from now, for whoever asks again too, and goes to others for the same time once (T17, K7)', async () => {
        const { lease, callId, ask } = await ahead(() => open('escalate'));
        await ahead(ask);
        expect(await ask()).toMatchObject([{ callId, leftMs: MINUTE, approvers: ['ann'] }]);
        await sound();
        bench.now += MINUTE;
        await ahead(async () => expect(await leftOf(lease, callId)).toEqual([[MINUTE, MINUTE]]));
        expect(await leftOf(lease, callId)).toEqual([[MINUTE, MINUTE]]);
        const [shown] = await bench.store.listApprovals({ agentId: lease.agentId });
        expect(shown).toMatchObject({ deadline: bench.now + MINUTE, approvers: ['boss'] });
        bench.now += MINUTE;
        const { items } = await bench.store.resolveWaiting(fenceOf(lease), [callId]);
        expect(items).toMatchObject([{ answer: { callId, decision: 'unanswered' } }]);
        await sound();
      });

      test('that is seen by the supervisor first is unanswered in time (T17, K7)', async () => {
        const { lease, callId, ask } = await ahead(() => open('deny'));
        await ahead(ask);
        expect(await due(lease.agentTurnId)).toMatchObject({ waitsAhead: true });
        await bench.store.recountWaits(lease.agentTurnId);
        bench.now += MINUTE;
        const { items } = await bench.store.resolveWaiting(fenceOf(lease), [callId]);
        expect(items).toMatchObject([{ answer: { callId, decision: 'unanswered' } }]);
      });
    });

    describe('of a turn', () => {
      const started = async (timeouts: ProfileInput['timeouts']) =>
        bench.started(newAgent(), { profile: await profileNamed(bench, { timeouts }) });

      test('is when its time is up: it has its whole time from when it is seen, and no more (T12, T23)', async () => {
        const { agentTurnId } = await ahead(() => started({ turnMs: 5 * MINUTE }));
        const endsBy = bench.now + 5 * MINUTE;
        expect(await due(agentTurnId)).toMatchObject({ endsBy });
        bench.now += MINUTE;
        expect(await due(agentTurnId)).toMatchObject({ endsBy });
        const right = await started({ turnMs: 3 * DAY });
        expect(await bench.dueAt(bench.now + 10_000, right.agentTurnId)).toMatchObject({ endsBy: bench.now + 3 * DAY });
      });

      test('is since when it has workers, and since when a supervisor is active: nothing is overdue by it later (T12)', async () => {
        const { agentTurnId } = await started({});
        const missing = { checkAt: bench.now, everyMs: 10_000, noWorkersSince: null, wokenAt: null };
        const workersSince = bench.now + DAY;
        await bench.store.scheduleCheck((await bench.dueAt(bench.now + HOUR, agentTurnId)) as DueTurn, {
          ...missing,
          workersSince,
        });
        expect(await due(agentTurnId)).toMatchObject({ workersSince: bench.now });

        await ahead(() => bench.store.holdSupervisorLease('a', 10_000));
        expect(await bench.other.holdSupervisorLease('b', 10_000)).toMatchObject({ since: bench.now });
        const since = bench.now;
        bench.now += 1_000;
        expect(await bench.other.holdSupervisorLease('b', 10_000)).toMatchObject({ since });
      });

      test('is since when its provider fails: the patience with it ends no later (W14)', async () => {
        const lease = await started({});
        const begin = { stepIndex: 1, profileHash: lease.profileHash };
        const failed = (attempt: number) =>
          ({ stepIndex: 1, attempt, code: 'provider_error', message: '503', retryInMs: 1_000 }) as const;
        const forMs = async () => (await bench.store.openStep(fenceOf(lease), begin)).outage?.forMs;
        await bench.store.openStep(fenceOf(lease), begin);
        await ahead(() => bench.store.noteOutage(fenceOf(lease), failed(1)));
        expect(await forMs()).toBe(0);
        await bench.store.noteOutage(fenceOf(lease), failed(2));
        bench.now += 5_000;
        expect(await forMs()).toBe(5_000);
      });
    });

    describe('of an agent between its turns', () => {
      /** Fires what is due of the agent; returns what its turn is told, and null where none is made. */
      const told = async (agentId: string) => {
        const handover = await fired(agentId);
        return handover?.next ? instructionOf(handover.next) : null;
      };

      test('is a timer that fires so long after now as it was to, and then on its grid (A9)', async () => {
        const timerId = id('timer');
        const set = { type: 'set_timer', timerId, reason: 'mail', afterMs: HOUR, everyMs: HOUR } as const;
        const agentId = await ahead(() => rested(set));
        const first = bench.now + HOUR;
        expect(await told(agentId)).toBeNull();
        expect(await bench.store.listTimers(agentId)).toMatchObject([{ timerId, nextAt: first }]);
        expect(await dueOf(agentId)).toEqual([]);
        bench.now = first;
        // Fires early by a clock that is ahead: no later than at the next place of its grid it fires again.
        await ahead(async () => expect(await told(agentId)).toContain(`timer ${timerId} has fired`));
        bench.now += 1;
        expect(await told(agentId)).toBeNull();
        expect(await bench.store.listTimers(agentId)).toMatchObject([{ timerId, nextAt: first + HOUR }]);
        expect(await dueOf(agentId)).toEqual([]);
      });

      test('is a timer of an agent that was stopped meanwhile (A6, A9)', async () => {
        const timerId = id('timer');
        const set = { type: 'set_timer', timerId, reason: 'mail', afterMs: HOUR, everyMs: null } as const;
        const agentId = await ahead(() => rested(set));
        await bench.store.setLifecycle(agentId, 'stopped', 'enough');
        expect(await dueOf(agentId)).toEqual([]);
        await bench.store.setLifecycle(agentId, 'started', '');
        expect(await told(agentId)).toBeNull();
        expect(await bench.store.listTimers(agentId)).toMatchObject([{ nextAt: bench.now + HOUR }]);
      });

      test('is not what a clock that was right has set: a timer for the day after tomorrow stays where it is (A9)', async () => {
        const set = {
          type: 'set_timer',
          timerId: id('timer'),
          reason: 'mail',
          afterMs: 2 * DAY,
          everyMs: null,
        } as const;
        const agentId = await rested(set);
        const at = bench.now + 2 * DAY;
        expect(await dueOf(agentId)).toEqual([]);
        expect(await bench.store.listTimers(agentId)).toMatchObject([{ nextAt: at }]);
      });

      test('is a wait: its recheck and its deadline are counted from now (A8)', async () => {
        const wait = waitFor(id('wait'), { recheckAfterMs: HOUR, deadlineMs: 2 * HOUR });
        const agentId = await ahead(() => rested(wait));
        expect(await told(agentId)).toBeNull();
        const [waits] = await bench.store.listWaits(agentId);
        expect(waits).toMatchObject({ recheckAt: bench.now + HOUR, deadline: bench.now + 2 * HOUR });
        expect(await dueOf(agentId)).toEqual([]);
        bench.now += HOUR;
        expect(await told(agentId)).toContain('it is time to check what you wait for');
        bench.now += HOUR;
        await fired(agentId);
        expect(await eventsOf(agentId, 'wait')).toMatchObject([{ phase: 'expired' }]);
      });

      test('is the end of a turn that it waits for: it is woken all the same (A8, A11)', async () => {
        const caller = await bench.started(newAgent());
        const { handover } = await bench.delegated(caller, { strategy: 'new', profile: 'tester' });
        const child = handover?.next as Lease;
        await effects(caller, 50, waitFor(id('wait'), { kind: 'task', resource: child.agentTurnId }));
        expect(await end(caller)).toBeNull();
        await ahead(() => end(child));
        expect(await told(caller.agentId)).toContain(child.agentTurnId);
      });

      test('is a work item that it comes back to, and a time that could not be acted on (A7)', async () => {
        const [item, needy] = [id('item'), id('needy')];
        const agentId = await ahead(() =>
          rested(
            create(item, { planStatus: 'needs_input', recheckAfterMs: HOUR }),
            create(needy, { planStatus: 'needs_input' }),
          ),
        );
        while ((await dueOf(agentId)).length > 0) expect(await told(agentId)).toBeNull();
        expect(await bench.store.listWorkItems(agentId)).toMatchObject([
          { workItemId: item, recheckAt: bench.now + HOUR },
          { workItemId: needy, recheckAt: bench.now + DAY },
        ]);
        bench.now += HOUR;
        await ahead(async () => {
          const [first] = await dueOf(agentId);
          if (first) await bench.store.putOffWake(first, bench.now + 10_000);
        });
        expect(await told(agentId)).toContain(`it is time to check work item ${item}`);
      });
    });

    test('does not keep the chunks of turns that have ended, be it then or later, and keeps those of an open one', async () => {
      const chunks = [{ type: 'content', at: 0, text: 'a' }] as const;
      const streamed = async (agentId = newAgent()) => {
        const lease = await bench.started(agentId);
        const batch = { fence: fenceOf(lease), stepIndex: 1, attempt: 1, chunks };
        expect(await bench.store.appendChunks([batch])).toEqual([true]);
        return lease;
      };
      const [open, before] = await ahead(async () => [await streamed(), await streamed()] as const);
      await bench.ended(before);
      const later = await streamed(before.agentId);
      await bench.ended(later);
      bench.now += 10 * MINUTE;
      while ((await bench.store.dropChunks(10 * MINUTE, 1)) > 0) {}
      const left = [open, before, later].map(({ agentTurnId }) => bench.store.readChunks(agentTurnId, 0, 10));
      expect(await Promise.all(left)).toMatchObject([[{ seq: 1 }], [], []]);
    });

    test('of what webhooks are to be told keeps nothing from them, and a pause after a failure is kept', async () => {
      const webhookId = v7();
      const from = await bench.store.openWebhook(webhookId);
      const agentId = newAgent();
      await ahead(async () => {
        await bench.ended(await bench.started(agentId));
        await bench.store.noteFound(webhookId, await bench.store.findEvents(from, 1_000));
      });
      const [found] = await bench.store.dueAgents(webhookId, 10);
      expect(found).toMatchObject({ agentId, failures: 0 });
      const delayMs = 5 * MINUTE;
      await bench.store.noteFailed({ webhookId, agentId, from: found?.seq ?? 0, error: '503', delayMs });
      expect(await bench.store.dueAgents(webhookId, 10)).toEqual([]);
      bench.now += delayMs;
      expect(await bench.store.dueAgents(webhookId, 10)).toMatchObject([{ agentId, failures: 1 }]);
    });
  });
}
