/** Fences, steps, calls and the waiting set, as every store must do it. */
import { describe, expect, test } from '@jest/globals';
import { v7 } from 'uuid';
import { SIZES } from '../../../../workflows/protocol/sizes.ts';
import type { Fence } from '../../../../workflows/protocol/turn.ts';
import { fenceOf, newAgent, nth, result, type StoreBench, SUCCESS } from '../store-bench.ts';

type CallAttempt = { readonly callId: string; readonly attempt: number };

export function describeCalls(bench: StoreBench): void {
  describe('fencing', () => {
    test('every write of a turn that lost its lease is stale_epoch and writes nothing (T5)', async () => {
      const agentId = newAgent();
      const lease = await bench.started(agentId);
      const { calls } = await bench.think(lease, 1, ['t']);
      const callId = calls[0]?.callId ?? '';
      const fence = fenceOf(lease);
      await bench.reaped(lease);
      const before = { events: await bench.eventsOf(agentId), box: await bench.store.readBox(lease.outputBoxId) };
      const stale = { code: 'stale_epoch' };
      await expect(bench.store.openStep(fence, { stepIndex: 2, profileHash: lease.profileHash })).rejects.toMatchObject(
        stale,
      );
      await expect(bench.think(lease, 2)).rejects.toMatchObject(stale);
      await expect(
        bench.store.claimCall(fence, { callId, first: true, by: nth(1), repeatable: true }),
      ).rejects.toMatchObject(stale);
      await expect(
        bench.store.settleCall(fence, { callId, attempt: 1, content: result(callId), durationMs: 1 }),
      ).rejects.toMatchObject(stale);
      await expect(bench.store.suspendCall(fence, callId, 1)).rejects.toMatchObject(stale);
      await expect(bench.store.resolveWaiting(fence, [callId])).rejects.toMatchObject(stale);
      expect({ events: await bench.eventsOf(agentId), box: await bench.store.readBox(lease.outputBoxId) }).toEqual(
        before,
      );
    });

    test('an attempt writes nothing, and starts nothing, once a later one of its turn has written (T5, W10)', async () => {
      const lease = await bench.started(newAgent());
      const { agentId } = lease;
      const { calls } = await bench.think(lease, 1, ['t']);
      const callId = calls[0]?.callId ?? '';
      const early = { ...fenceOf(lease), acting: nth(1) };
      const late = { ...fenceOf(lease), acting: nth(2) };
      const begin = { stepIndex: 2, profileHash: lease.profileHash };
      await bench.store.claimCall(early, { callId, first: true, by: nth(1), repeatable: true });
      await bench.store.checkLease(early);
      await bench.store.openStep(late, begin);
      const before = await bench.eventsOf(agentId);
      const overtaken = { code: 'call_overtaken' };
      const settled = { callId, attempt: 1, content: result(callId), durationMs: 1 };
      for (const store of [bench.store, bench.other]) {
        await expect(store.checkLease(early)).rejects.toMatchObject(overtaken);
        await expect(store.openStep(early, begin)).rejects.toMatchObject(overtaken);
        await expect(
          store.claimCall(early, { callId, first: false, by: nth(1), repeatable: true }),
        ).rejects.toMatchObject(overtaken);
        await expect(store.settleCall(early, settled)).rejects.toMatchObject(overtaken);
        await expect(store.commitTurn(early, SUCCESS)).rejects.toMatchObject(overtaken);
        await store.checkLease(late);
        await store.checkLease(fenceOf(lease));
      }
      expect(await bench.eventsOf(agentId)).toEqual(before);
      await bench.store.settleCall(late, settled);
      await bench.reaped(lease);
      await expect(bench.store.openStep(early, begin)).rejects.toMatchObject({ code: 'stale_epoch' });
    });

    test('the attempts of a turn are counted from its lease, whatever the clock of those before it said (T5, W10)', async () => {
      const agentId = newAgent();
      const first = await bench.started(agentId);
      await bench.store.openStep(
        { ...fenceOf(first), acting: nth(9) },
        { stepIndex: 1, profileHash: first.profileHash },
      );
      await bench.store.commitTurn(fenceOf(first), SUCCESS);
      const second = await bench.started(agentId);
      const begin = { stepIndex: 1, profileHash: second.profileHash };
      await bench.store.openStep({ ...fenceOf(second), acting: nth(1) }, begin);
      const early = bench.store.openStep({ ...fenceOf(first), acting: nth(10) }, begin);
      await expect(early).rejects.toMatchObject({ code: 'stale_epoch' });
    });

    test('numbers tell which attempt comes later, and no clock; who was replaced never acts again (T5, W10)', async () => {
      const lease = await bench.started(newAgent());
      const { calls } = await bench.think(lease, 1, ['t']);
      const callId = calls[0]?.callId ?? '';
      const begin = { stepIndex: 2, profileHash: lease.profileHash };
      const base = { run: 'run', activity: 1, attempt: 5, scheduledAt: 5_000 };
      const inOrder = [
        base,
        // The server's clock was set back.
        { ...base, attempt: 6, scheduledAt: 1_000 },
        { ...base, attempt: 1, afterReset: true, scheduledAt: 900 },
        { ...base, attempt: 2, scheduledAt: 800 },
        { ...base, activity: 2, attempt: 1, scheduledAt: 700 },
        // The workflow was reset, or has continued as new.
        { ...base, run: 'next', attempt: 1, scheduledAt: 600 },
      ];
      const before: Fence[] = [];
      for (const acting of inOrder) {
        const fence = { ...fenceOf(lease), acting };
        await bench.store.openStep(fence, begin);
        await bench.other.claimCall(fence, { callId, first: false, by: acting, repeatable: true });
        await bench.other.openStep(fence, begin);
        for (const early of before) {
          await expect(bench.other.openStep(early, begin)).rejects.toMatchObject({ code: 'call_overtaken' });
          await expect(bench.other.checkLease(early)).rejects.toMatchObject({ code: 'call_overtaken' });
        }
        before.push(fence);
      }
      const unseen = { ...fenceOf(lease), acting: { ...base, run: 'next', activity: 0, scheduledAt: 9_000 } };
      await expect(bench.other.openStep(unseen, begin)).rejects.toMatchObject({ code: 'call_overtaken' });
    });

    test('what led to a step is kept with its first opening, and who reads it shuts out those before (T5, W10)', async () => {
      const lease = await bench.started(newAgent());
      await bench.think(lease, 1);
      const results = { type: 'tool_results', nowMs: 7, settled: [], suspended: [] } as const;
      const led = (nowMs: number) => [{ kind: 'event', event: { ...results, nowMs } }] as const;
      const early = { ...fenceOf(lease), acting: nth(1) };
      const begin = { stepIndex: 2, profileHash: lease.profileHash };
      await bench.store.openStep(early, { ...begin, ledBy: led(1) });
      await bench.other.openStep(early, { ...begin, ledBy: led(2) });
      const late = { ...early, acting: nth(2) };
      expect(await bench.other.readLedSteps(late, 1)).toEqual([{ stepIndex: 2, ledBy: led(1) }]);
      expect(await bench.store.readLedSteps(late, 3)).toEqual([]);
      await expect(bench.store.openStep(early, begin)).rejects.toMatchObject({ code: 'call_overtaken' });
      await bench.reaped(lease);
      await expect(bench.store.readLedSteps(late, 1)).rejects.toMatchObject({ code: 'stale_epoch' });
    });

    test('a step of a burst brings what the inbox delivered with its commit, and another one what is there now (T5, K9)', async () => {
      const lease = await bench.started(newAgent());
      await bench.think(lease, 1, [], {}, { answeredAt: 7 });
      await bench.think(lease, 2);
      await bench.store.setBudgets(lease.agentTurnId, { maxSteps: 9 });
      const opened = async (stepIndex: number) =>
        (await bench.other.openStep(fenceOf(lease), { stepIndex, profileHash: lease.profileHash })).recorded?.items;
      expect(await opened(1)).toBeUndefined();
      expect(await opened(2)).toMatchObject([{ kind: 'budgets', budgets: { maxSteps: 9 } }]);
    });

    test('a look at the lease writes nothing, and says when others have taken over (T5, W10)', async () => {
      const overtaken = { code: 'call_overtaken' };
      const lease = await bench.started(newAgent());
      const { calls } = await bench.think(lease, 1, ['t', 't']);
      const fence = fenceOf(lease);
      const [first, second] = calls.map(({ callId }) => ({ callId, attempt: 1 })) as [CallAttempt, CallAttempt];
      for (const { callId } of [first, second])
        await bench.store.claimCall(fence, { callId, first: true, by: nth(1), repeatable: true });
      const before = await bench.eventsOf(lease.agentId);
      const stale = { code: 'stale_epoch' };
      for (const store of [bench.store, bench.other]) {
        await store.checkLease(fence);
        await store.checkLease(fence, first);
      }
      await bench.other.claimCall(fence, { callId: first.callId, first: false, by: nth(1), repeatable: true });
      await expect(bench.store.checkLease(fence, first)).rejects.toMatchObject(overtaken);
      await bench.store.checkLease(fence, { ...first, attempt: 2 });
      await bench.store.checkLease(fence, second);
      expect(await bench.eventsOf(lease.agentId)).toEqual(before);
      const { callId } = second;
      await bench.store.settleCall(fence, { ...second, content: result(callId), durationMs: 1 });
      await expect(bench.store.checkLease(fence, second)).rejects.toMatchObject(overtaken);
      await bench.store.checkLease(fence);
      await bench.reaped(lease);
      await expect(bench.store.checkLease(fence)).rejects.toMatchObject(stale);
    });

    test('progress is what the last attempt said last, as an event each, until the call has its result (T5, W10)', async () => {
      const overtaken = { code: 'call_overtaken' };
      const lease = await bench.started(newAgent());
      const fence = fenceOf(lease);
      const { calls } = await bench.think(lease, 1, ['t', 't']);
      const [one, other] = calls.map(({ callId }) => ({ callId, attempt: 1 })) as [CallAttempt, CallAttempt];
      const progressOf = async () =>
        (await bench.store.getTurn(fence.agentTurnId))?.steps[0]?.calls.map(({ progress }) => progress);
      await expect(bench.store.noteProgress(fence, one, 'too early')).rejects.toMatchObject(overtaken);
      await bench.store.claimCall(fence, { callId: one.callId, first: true, by: nth(1), repeatable: true });
      await bench.store.noteProgress(fence, one, 'half \u0000 done');
      await bench.store.noteProgress(fence, one, { done: 7, of: [10] });
      expect(await progressOf()).toEqual([{ done: 7, of: [10] }, null]);
      const again = { ...one, attempt: 2 };
      await bench.other.claimCall(fence, { callId: one.callId, first: false, by: nth(1), repeatable: true });
      expect(await progressOf()).toEqual([null, null]);
      await expect(bench.store.noteProgress(fence, one, 8)).rejects.toMatchObject(overtaken);
      await bench.other.noteProgress(fence, again, 1);
      expect(await progressOf()).toEqual([1, null]);
      const content = result(one.callId);
      await bench.store.settleCall(fence, { ...again, content, durationMs: 1 });
      await expect(bench.store.noteProgress(fence, again, 2)).rejects.toMatchObject(overtaken);
      expect(await progressOf()).toEqual([null, null]);
      const large = bench.store.noteProgress(fence, other, 'x'.repeat(SIZES.progressBytes));
      await expect(large).rejects.toMatchObject({ code: 'payload_too_large' });
      const said = (await bench.eventsOf(lease.agentId)).flatMap(({ type, payload }) =>
        type === 'call' && payload.phase === 'progress' ? [payload] : [],
      );
      const event = { callId: one.callId, tool: 't', phase: 'progress' };
      expect(said).toEqual([
        { ...event, progress: 'half \u0000 done' },
        { ...event, progress: { done: 7, of: [10] } },
        { ...event, progress: 1 },
      ]);
      await bench.reaped(lease);
      await expect(bench.store.noteProgress(fence, other, 1)).rejects.toMatchObject({ code: 'stale_epoch' });
    });

    test('a turn cannot write under another epoch or another turn of its agent (T5)', async () => {
      const agentId = newAgent();
      const lease = await bench.started(agentId);
      const fence = fenceOf(lease);
      for (const wrong of [
        { ...fence, turnEpoch: 2 },
        { ...fence, agentTurnId: v7() },
        { ...fence, agentId: newAgent() },
      ]) {
        await expect(
          bench.store.openStep(wrong, { stepIndex: 1, profileHash: lease.profileHash }),
        ).rejects.toMatchObject({ code: 'stale_epoch' });
      }
    });
  });

  describe('steps and calls', () => {
    async function claimedWithStep() {
      const lease = await bench.started(newAgent());
      const { calls } = await bench.think(lease, 1, ['t'], { claimed: true });
      return { lease, callId: calls[0]?.callId ?? '' };
    }

    test('a step that is stored is returned, not written again (T29)', async () => {
      const agentId = newAgent();
      const lease = await bench.started(agentId);
      const first = await bench.think(lease, 1, ['t']);
      const boxed = await bench.store.readBox(lease.outputBoxId);
      expect(await bench.think(lease, 1, ['t'])).toEqual(first);
      expect(
        (await bench.store.openStep(fenceOf(lease), { stepIndex: 1, profileHash: lease.profileHash })).recorded,
      ).toEqual(first);
      expect(await bench.store.readBox(lease.outputBoxId)).toEqual(boxed);
      expect(await bench.store.getTurn(lease.agentTurnId)).toMatchObject({
        usage: { input: 10, output: 2, cached: 0 },
        cost: 0.5,
      });
    });

    test('the first result of a call wins, the second attempt adopts it (T5, T14)', async () => {
      const lease = await bench.started(newAgent());
      const { calls } = await bench.think(lease, 1, ['t']);
      const callId = calls[0]?.callId ?? '';
      const fence = fenceOf(lease);
      for (const attempt of [1, 2]) {
        const claim = { callId, first: attempt === 1, by: nth(1), repeatable: true };
        expect(await bench.store.claimCall(fence, claim)).toMatchObject({ kind: 'go', attempt });
      }
      const won = await bench.store.settleCall(fence, {
        callId,
        attempt: 2,
        content: result(callId, { result: 'second' }),
        durationMs: 1,
      });
      const late = await bench.store.settleCall(fence, {
        callId,
        attempt: 1,
        content: result(callId, { result: 'first' }),
        durationMs: 1,
      });
      expect(late).toEqual(won);
      const settled = (await bench.eventsOf(lease.agentId)).filter(({ type }) => type === 'call');
      expect(settled).toHaveLength(1);
      const box = await bench.store.readBox(lease.outputBoxId);
      const results = box.flatMap(({ card }) => (card.type === 'tool.result' ? [card.content.result] : []));
      expect(results).toEqual(['second']);
      expect(await bench.store.claimCall(fence, { callId, first: false, by: nth(1), repeatable: true })).toMatchObject({
        kind: 'settled',
      });
    });

    test('a call claimed with its step starts without a write, under its lease only, and adopts a result (T5, W10)', async () => {
      const { lease, callId } = await claimedWithStep();
      const fence = fenceOf(lease);
      const first = { callId, first: true, by: nth(1), repeatable: true };
      const before = await bench.eventsOf(lease.agentId);
      bench.now += 1_000;
      const progressAt = async () => (await bench.store.getAgent(lease.agentId))?.updatedAt;
      const seen = await progressAt();
      expect(await bench.other.claimCall(fence, first)).toMatchObject({ kind: 'go', edited: false, call: { callId } });
      expect(await progressAt()).toBe(seen);
      expect(await bench.eventsOf(lease.agentId)).toEqual(before);
      const stale = { code: 'stale_epoch' };
      await expect(bench.store.claimCall({ ...fence, turnEpoch: fence.turnEpoch + 1 }, first)).rejects.toMatchObject(
        stale,
      );
      const settled = await bench.store.settleCall(fence, {
        callId,
        attempt: 1,
        content: result(callId),
        durationMs: 7,
      });
      expect(await bench.store.claimCall(fence, first)).toEqual({ kind: 'settled', settled });
      const [call] = (await bench.store.getTurn(lease.agentTurnId))?.steps[0]?.calls ?? [];
      expect(call).toMatchObject({ durationMs: 7 });
      await bench.reaped(lease);
      await expect(bench.store.claimCall(fence, first)).rejects.toMatchObject(stale);
      expect(await bench.store.violations()).toEqual([]);
    });

    test('a call claimed with its step that is unsafe where it runs is outcome_unknown (W10)', async () => {
      const { lease, callId } = await claimedWithStep();
      expect(
        await bench.store.claimCall(fenceOf(lease), { callId, first: true, by: nth(1), repeatable: false }),
      ).toMatchObject({
        kind: 'settled',
        settled: { errorCode: 'outcome_unknown' },
      });
    });

    test('an attempt that claims after one that was scheduled later starts nothing, and says nothing of the outcome (W10)', async () => {
      const plain = async () => {
        const lease = await bench.started(newAgent());
        const { calls } = await bench.think(lease, 1, ['t']);
        return { lease, callId: calls[0]?.callId ?? '' };
      };
      for (const made of [plain, claimedWithStep]) {
        for (const repeatable of [true, false]) {
          if (made === claimedWithStep && !repeatable) continue;
          const { lease, callId } = await made();
          const late = { callId, first: false, by: nth(2), repeatable };
          expect(await bench.store.claimCall(fenceOf(lease), late)).toMatchObject({ kind: 'go' });
          const early = bench.other.claimCall(fenceOf(lease), { ...late, first: true, by: nth(1) });
          await expect(early).rejects.toMatchObject({ code: 'call_overtaken' });
        }
      }
    });

    test('an unsafe call with a claim and no result is outcome_unknown, never run again (W10)', async () => {
      const lease = await bench.started(newAgent());
      const { calls } = await bench.think(lease, 1, ['t']);
      const callId = calls[0]?.callId ?? '';
      const claim = { callId, first: true, by: nth(1), repeatable: false };
      expect(await bench.store.claimCall(fenceOf(lease), claim)).toMatchObject({ kind: 'go', attempt: 1 });
      const second = await bench.store.claimCall(fenceOf(lease), {
        callId,
        first: false,
        by: nth(1),
        repeatable: false,
      });
      expect(second).toMatchObject({ kind: 'settled', settled: { status: 'failed', errorCode: 'outcome_unknown' } });
    });

    test('an oversized result becomes a failed one that says so (T4)', async () => {
      const lease = await bench.started(newAgent());
      const { calls } = await bench.think(lease, 1, ['t']);
      const callId = calls[0]?.callId ?? '';
      const content = result(callId, { result: 'x'.repeat(2 * 1024 * 1024) });
      const settled = await bench.store.settleCall(fenceOf(lease), { callId, attempt: 1, content, durationMs: 1 });
      expect(settled).toMatchObject({ status: 'failed', errorCode: 'result_too_large' });
    });
  });

  describe('waiting', () => {
    const suspended = async (tools: readonly string[], timeoutMs = 1_000) => {
      const agentId = newAgent();
      const lease = await bench.started(agentId);
      const { calls } = await bench.think(lease, 1, tools);
      const ids = calls.map((call) => call.callId);
      for (const callId of ids) await bench.store.suspendCall(fenceOf(lease), callId, timeoutMs);
      return { agentId, lease, ids, fence: fenceOf(lease), turn: lease.agentTurnId };
    };
    const head = (agentId: string) => bench.store.getAgent(agentId);

    test('the head tells count and nearest deadline while calls wait, and runs again after the last result (T13)', async () => {
      const { agentId, ids, turn } = await suspended(['a', 'b']);
      expect(await head(agentId)).toMatchObject({
        status: 'suspended',
        waitingToolCount: 2,
        resumeDeadline: bench.now + 1_000,
      });
      expect(
        await bench.store.reportResult(turn, { callId: ids[0] ?? '', status: 'success', result: 1 }),
      ).toMatchObject({
        ack: 'applied',
      });
      expect(await head(agentId)).toMatchObject({ status: 'suspended', waitingToolCount: 1 });
      await bench.other.reportResult(turn, { callId: ids[1] ?? '', status: 'failed' });
      expect(await head(agentId)).toMatchObject({ status: 'running', waitingToolCount: 0, resumeDeadline: null });
    });

    test('answers duplicate, stale and unknown, each with one event and no second card (T14)', async () => {
      const { agentId, ids, turn, lease, fence } = await suspended(['a']);
      const callId = ids[0] ?? '';
      const ack = async (id: string, call: string, turnEpoch?: number) =>
        (
          await bench.store.reportResult(id, {
            callId: call,
            status: 'success',
            result: 1,
            ...(turnEpoch ? { turnEpoch } : {}),
          })
        ).ack;
      expect(await ack(turn, callId, lease.turnEpoch + 1)).toBe('stale');
      expect(await ack(turn, v7())).toBe('unknown');
      expect(await ack(v7(), callId)).toBe('unknown');
      expect(await ack(turn, callId)).toBe('applied');
      expect(await ack(turn, callId)).toBe('duplicate');
      await bench.store.commitTurn(fence, SUCCESS);
      expect(await ack(turn, v7())).toBe('stale');
      const box = await bench.store.readBox(lease.outputBoxId);
      expect(box.filter(({ card }) => card.type === 'tool.result')).toHaveLength(1);
      const drops = (await bench.eventsOf(agentId)).flatMap((event) =>
        event.type === 'call' && event.payload.phase === 'dropped' ? [event.payload.reason] : [],
      );
      expect(drops).toEqual(['stale', 'unknown', 'duplicate', 'stale']);
    });

    test('a result that comes before its call suspended is buffered and found by it (T14)', async () => {
      const lease = await bench.started(newAgent());
      const { calls } = await bench.think(lease, 1, ['a']);
      const callId = calls[0]?.callId ?? '';
      const report = await bench.store.reportResult(lease.agentTurnId, { callId, status: 'success', result: 'early' });
      expect(report.ack).toBe('buffered');
      const outcome = await bench.store.suspendCall(fenceOf(lease), callId, 1_000);
      expect(outcome).toMatchObject({ kind: 'settled', settled: { status: 'success' } });
    });

    test('a heartbeat moves the deadline of its own call by its whole time, and nothing else (T16)', async () => {
      const { agentId, ids, turn, lease } = await suspended(['a', 'b']);
      const [beating = '', silent = ''] = ids;
      const started_ = bench.now;
      const box = await bench.store.readBox(lease.outputBoxId);
      bench.now += 400;
      for (let beat = 0; beat < 2; beat += 1) {
        expect((await bench.store.reportResult(turn, { callId: beating, status: 'running' })).ack).toBe('applied');
      }
      const deadlines = (await bench.store.getTurn(turn))?.waiting.map(({ callId, deadline }) => [callId, deadline]);
      expect(new Map(deadlines as [string, number][])).toEqual(
        new Map([
          [beating, started_ + 1_400],
          [silent, started_ + 1_000],
        ]),
      );
      expect(await head(agentId)).toMatchObject({ waitingToolCount: 2, resumeDeadline: started_ + 1_000 });
      expect(await bench.store.readBox(lease.outputBoxId)).toEqual(box);
      expect((await bench.eventsOf(agentId)).filter(({ type }) => type === 'call')).toHaveLength(2);
    });

    test('only overdue calls get a timeout result; a late answer is a duplicate (T17)', async () => {
      const { ids, fence, turn } = await suspended(['a', 'b']);
      const [first = '', second = ''] = ids;
      await bench.store.reportResult(turn, { callId: second, status: 'running' });
      bench.now += 500;
      await bench.store.reportResult(turn, { callId: second, status: 'running' });
      bench.now += 600;
      const state = await bench.store.resolveWaiting(fence, ids);
      expect(state.settled).toMatchObject([{ callId: first, status: 'timeout', errorCode: 'tool_timeout' }]);
      expect(state.waiting.map((call) => call.callId)).toEqual([second]);
      expect(await bench.store.resolveWaiting(fence, ids)).toEqual(state);
      expect((await bench.store.reportResult(turn, { callId: first, status: 'success', result: 1 })).ack).toBe(
        'duplicate',
      );
    });

    test('an answer whose signal was lost is found at the deadline instead of a timeout (T17)', async () => {
      const { ids, fence, turn } = await suspended(['a']);
      await bench.store.reportResult(turn, { callId: ids[0] ?? '', status: 'success', result: 1 });
      bench.now += 5_000;
      expect((await bench.store.resolveWaiting(fence, ids)).settled).toMatchObject([{ status: 'success' }]);
    });
  });

  describe('a step that is given up', () => {
    const closing = async () => {
      const lease = await bench.started(newAgent());
      const [fence, box] = [fenceOf(lease), () => bench.store.readBox(lease.outputBoxId, true)];
      const open = (stepIndex: number) => bench.store.openStep(fence, { stepIndex, profileHash: lease.profileHash });
      return { lease, fence, box, open, close: () => bench.store.closeStep(fence, { stepIndex: 1 }) };
    };
    const closed = { code: 'step_closed' };

    test('cannot be committed any more by an attempt that comes late, and the next one is as if it had never been (K13)', async () => {
      const { lease, box, open, close } = await closing();
      await open(1);
      await bench.store.steerTurn(lease.agentTurnId, 'hear me');
      expect(await close()).toBeNull();
      expect(await close()).toBeNull();
      const before = await box();
      await expect(bench.committed(lease, 1)).rejects.toMatchObject(closed);
      expect((await open(2)).steers).toHaveLength(1);
      await expect(bench.committed(lease, 1)).rejects.toMatchObject(closed);
      expect(await box()).toEqual(before);
      await bench.think(lease, 2);
      const view = await bench.store.getTurn(lease.agentTurnId);
      expect(view?.usage).toEqual({ input: 10, output: 2, cached: 0 });
      const phases = (await bench.eventsOf(lease.agentId)).flatMap((event) =>
        event.type === 'step' && event.payload.stepIndex === 1 ? [event.payload.phase] : [],
      );
      expect(phases).toEqual(['started', 'failed']);
      await bench.ended(lease);
      expect(await bench.store.violations()).toEqual([]);
    });

    test('tells what was noticed before it, once, whether or not an attempt has opened it (K13)', async () => {
      const noticed = [{ type: 'overflow', time: 1 }] as const;
      for (const begins of [false, true]) {
        const { lease, fence } = await closing();
        if (begins) await bench.store.openStep(fence, { stepIndex: 1, profileHash: lease.profileHash, noticed });
        await bench.store.closeStep(fence, { stepIndex: 1, noticed });
        await bench.store.closeStep(fence, { stepIndex: 1, noticed });
        const told = (await bench.eventsOf(lease.agentId)).filter(({ type }) => type === 'notice');
        expect(told).toHaveLength(1);
      }
    });

    test('cannot be opened any more by an attempt that had not begun yet (K13)', async () => {
      const { open, close } = await closing();
      expect(await close()).toBeNull();
      await expect(open(1)).rejects.toMatchObject(closed);
    });

    test('counts all the same when an attempt has committed it by then (K13)', async () => {
      const { lease, close, box } = await closing();
      const recorded = await bench.think(lease, 1, ['t']);
      const before = await box();
      expect(await close()).toEqual(recorded);
      expect(await box()).toEqual(before);
    });
  });
}
