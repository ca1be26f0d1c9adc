/** Results reported by a card (T18), on every store. */
import { describe, expect, test } from '@jest/globals';
import { v7 } from 'uuid';
import { z } from 'zod';
import { defineTool } from '../../../../activities/app/app.ts';
import { outputCardId } from '../../../../activities/ids.ts';
import { testApp } from '../../../support/app.ts';
import { fenceOf, newAgent, STORES, StoreBench } from '../store-bench.ts';

describe.each(STORES)('results by card on %s', (_, fresh) => {
  const bench = new StoreBench(fresh);

  const suspended = async (windowMs = 600_000) => {
    const lease = await bench.started(newAgent());
    const callId = await bench.suspended(lease, 1, windowMs);
    return { lease, callId, look: () => bench.store.resolveWaiting(fenceOf(lease), [callId]) };
  };
  const resultOf = async (boxId: string) =>
    (await bench.store.readBox(boxId)).flatMap(({ card }) => (card.type === 'tool.result' ? [card.content] : []));

  test('one that is there is applied at once (T14, T18)', async () => {
    const { lease, callId } = await suspended();
    const cardId = await bench.store.writeOutputCard({ rows: 3 });
    const report = { callId, status: 'success', toolResultCardId: cardId } as const;
    expect(await bench.other.reportResult(lease.agentTurnId, report)).toMatchObject({ ack: 'applied' });
    expect(await resultOf(lease.outputBoxId)).toMatchObject([{ status: 'success', result: { rows: 3 } }]);
  });

  test('one that comes later is deferred, seen with reason, count and next try, and applied when it is there (T18)', async () => {
    const { lease, callId, look } = await suspended();
    const value = `written late ${v7()}`;
    const report = { callId, status: 'success', toolResultCardId: outputCardId(JSON.stringify(value)) } as const;
    expect(await bench.store.reportResult(lease.agentTurnId, report)).toMatchObject({ ack: 'deferred', wake: true });
    expect(await bench.other.reportResult(lease.agentTurnId, report)).toMatchObject({ ack: 'deferred', wake: false });
    const [waiting] = (await bench.store.getTurn(lease.agentTurnId))?.waiting ?? [];
    const deferral = { reason: 'card_not_found', retryCount: 0, nextRetryAt: bench.now + 1_000 };
    expect(waiting).toMatchObject({ callId, deferred: deferral });
    expect(await look()).toMatchObject({ settled: [], waiting: [{ callId, wakeInMs: 1_000 }] });
    bench.now += 1_000;
    expect(await look()).toMatchObject({ settled: [], waiting: [{ callId, wakeInMs: 2_000 }] });
    await bench.other.writeOutputCard(value);
    bench.now += 2_000;
    expect(await look()).toMatchObject({ settled: [{ callId, status: 'success' }], waiting: [] });
    expect(await resultOf(lease.outputBoxId)).toMatchObject([{ status: 'success', result: value }]);
    const events = await bench.store.readEvents({ agentId: lease.agentId });
    const told = events.flatMap((event) => (event.type === 'call' ? [event.payload.phase] : []));
    expect(told).toEqual(['suspended', 'deferred', 'settled']);
  });

  test('one that never comes is a failed result after six tries; a real one then is a duplicate (T18)', async () => {
    const { lease, callId, look } = await suspended();
    const report = { callId, status: 'success', toolResultCardId: v7() } as const;
    await bench.store.reportResult(lease.agentTurnId, report);
    const waits: number[] = [];
    for (let state = await look(); state.settled.length === 0; state = await look()) {
      const { wakeInMs = Number.NaN } = state.waiting[0] ?? {};
      waits.push(wakeInMs);
      bench.now += wakeInMs;
    }
    expect(waits).toEqual([1_000, 2_000, 4_000, 8_000, 16_000, 32_000]);
    expect(await resultOf(lease.outputBoxId)).toMatchObject([{ status: 'failed', error: { code: 'card_not_found' } }]);
    const late = { callId, status: 'success', result: 1 } as const;
    expect(await bench.store.reportResult(lease.agentTurnId, late)).toMatchObject({ ack: 'duplicate' });
  });

  test('a report with a body wins over one that waits for its card (T14, T18)', async () => {
    const { lease, callId, look } = await suspended();
    await bench.store.reportResult(lease.agentTurnId, { callId, status: 'success', toolResultCardId: v7() });
    const full = { callId, status: 'success', result: 'here' } as const;
    expect(await bench.store.reportResult(lease.agentTurnId, full)).toMatchObject({ ack: 'applied' });
    bench.now += 60_000;
    expect(await look()).toMatchObject({ settled: [{ status: 'success' }], waiting: [] });
  });

  test('the deadline of its call ends the wait for a card (T17, T18)', async () => {
    const { lease, callId, look } = await suspended(2_500);
    await bench.store.reportResult(lease.agentTurnId, { callId, status: 'success', toolResultCardId: v7() });
    bench.now += 1_000;
    expect(await look()).toMatchObject({ waiting: [{ deadline: bench.now + 1_500 }] });
    bench.now += 1_500;
    expect(await look()).toMatchObject({ settled: [{ status: 'failed', errorCode: 'card_not_found' }] });
  });

  test('a card of another kind is an invalid result, named (T20)', async () => {
    const { lease, callId } = await suspended();
    const cardId = await bench.store.writeInstructionCard(`not an output ${v7()}`);
    await bench.store.reportResult(lease.agentTurnId, { callId, status: 'success', toolResultCardId: cardId });
    const [result] = await resultOf(lease.outputBoxId);
    expect(result).toMatchObject({ status: 'failed', error: { code: 'invalid_result' } });
    expect(result?.error?.message).toContain(cardId);
  });

  test('whose wake-up was lost is unread for the supervisor once a try is overdue (T3, T18)', async () => {
    const { lease, callId, look } = await suspended();
    await bench.store.reportResult(lease.agentTurnId, { callId, status: 'success', toolResultCardId: v7() });
    const unreadAfter = async (ms: number) => (await bench.dueAt(bench.now + ms, lease.agentTurnId))?.unread;
    // The first try is after a second; the turn itself has some time for it.
    expect(await bench.dueIn(lease.agentTurnId)).toBe(11_000);
    expect([await unreadAfter(10_999), await unreadAfter(11_000)]).toEqual([undefined, true]);
    bench.now += 11_000;
    await look();
    expect([await unreadAfter(0), await unreadAfter(2_000 + 5_000)]).toEqual([false, true]);
  });

  test('nothing deferred is left when the turn ends (T21)', async () => {
    const { lease, callId } = await suspended();
    await bench.store.reportResult(lease.agentTurnId, { callId, status: 'success', toolResultCardId: v7() });
    await bench.store.stopTurn(lease.agentTurnId, 'test');
    expect(await bench.store.violations()).toEqual([]);
    const again = { callId, status: 'success', toolResultCardId: v7() } as const;
    expect(await bench.store.reportResult(lease.agentTurnId, again)).toMatchObject({ ack: 'stale' });
  });
});

describe.each(STORES)('a tool that ends its turn, on %s', (_, fresh) => {
  const finish = defineTool({
    name: 'ask',
    description: 'ends the turn, once a person said how',
    parameters: z.object({}),
    afterExecution: 'terminate',
    execute: () => ({ __cg_control: { after_execution: 'suspend' } }),
  });
  const bench = new StoreBench(fresh, testApp([finish]));
  const suspended = async () => {
    const lease = await bench.started(newAgent());
    return { lease, callId: await bench.suspended(lease) };
  };

  test('ends it when nobody answered in time (T17, T19)', async () => {
    const { lease, callId } = await suspended();
    bench.now += 1_000;
    const { settled } = await bench.store.resolveWaiting(fenceOf(lease), [callId]);
    expect(settled).toMatchObject([{ status: 'timeout', afterExecution: 'terminate' }]);
  });

  test.each([
    ['that says nothing of it', {}, 'terminate'],
    ['that says otherwise', { afterExecution: 'continue' }, 'continue'],
    ['whose result says otherwise', { result: { __cg_control: { after_execution: 'continue' } } }, 'continue'],
  ] as const)('and a report %s: the turn goes the way that was said last (T19)', async (__, more, afterExecution) => {
    const { lease, callId } = await suspended();
    await bench.store.reportResult(lease.agentTurnId, { callId, status: 'success', result: 1, ...more });
    const { settled } = await bench.store.resolveWaiting(fenceOf(lease), [callId]);
    expect(settled).toMatchObject([{ status: 'success', afterExecution }]);
  });
});
