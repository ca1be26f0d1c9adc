/** Turns that were handed out by a turn that has ended: whether they go on, on every store (T21, T30). */
import { describe, expect, test } from '@jest/globals';
import { defineAgent, defineApp } from '../../../../activities/app/app.ts';
import { delegatedTurnId } from '../../../../activities/ids.ts';
import type { Delegation, DelegationTarget } from '../../../../workflows/contract/delegation.ts';
import type { Lease } from '../../../../workflows/contract/lease.ts';
import type { TurnStatus } from '../../../../workflows/protocol/turn.ts';
import { ENGINE, fenceOf, newAgent, STORES, StoreBench, SUCCESS } from '../store-bench.ts';

const HOUR = 3_600_000;
const NEW_DOCTOR = { strategy: 'new', profile: 'doctor' } as const;
const app = defineApp({
  agents: [
    defineAgent({ name: 'tester', delegationPolicy: { profiles: ['doctor'], tags: [] } }),
    defineAgent({ name: 'doctor' }),
  ],
});

describe.each(STORES)('a turn whose parent has ended, on %s', (_, fresh) => {
  const bench = new StoreBench(fresh, app);

  /** Turns of the parent that it left to others, one in each status. */
  const familyOf = async (parent: Lease, onParentEnd: Delegation['onParentEnd'], waits = true) => {
    const busy = await bench.started(newAgent(), { profile: 'doctor' });
    const make = async (target: DelegationTarget = NEW_DOCTOR) => {
      const { delegation } = await bench.delegated(parent, target, { onParentEnd, ...(waits ? { waitMs: HOUR } : {}) });
      return delegatedTurnId(delegation.callId);
    };
    const leaseOf = async (agentTurnId: string) =>
      bench.leased((await bench.store.getTurn(agentTurnId))?.agentId ?? '');
    const family: Partial<Record<TurnStatus, string>> = {
      queued: await make({ strategy: 'reuse', agentId: busy.agentId }),
      dispatched: await make(),
      running: await make(),
      suspended: await make(),
      success: await make(),
    };
    const { running = '', suspended = '', success = '' } = family;
    await bench.think(await leaseOf(running), 1);
    await bench.suspended(await leaseOf(suspended));
    await bench.ended(await leaseOf(success), { ...SUCCESS, engine: ENGINE });
    await bench.store.settleDelegation(success);
    return family;
  };
  const OPEN = ['queued', 'dispatched', 'running', 'suspended'];
  /** In which statuses its turns are due at once because of it. */
  const abandonedIn = async (family: Partial<Record<TurnStatus, string>>) => {
    const due = await Promise.all(Object.values(family).map((agentTurnId) => bench.due(agentTurnId)));
    for (const turn of due.filter((one) => one !== undefined))
      expect(turn).toMatchObject({ parentGone: true, checkAt: bench.now });
    return due.flatMap((turn) => (turn ? [turn.status] : []));
  };

  test.each<[how: string, end: (parent: Lease) => Promise<unknown>]>([
    ['stopped', (parent) => bench.store.stopTurn(parent.agentTurnId, 'test')],
    ['stopped with its agent', (parent) => bench.store.setLifecycle(parent.agentId, 'stopped', 'test')],
    ['lost', (parent) => bench.reaped(parent)],
    ['timed out', (parent) => bench.reaped(parent, { status: 'timeout', errorCode: 'turn_timeout' })],
    [
      'failed',
      (parent) => bench.ended(parent, { ...SUCCESS, termination: { status: 'failed', errorCode: 'llm_failed' } }),
    ],
  ])('is due at once when the parent was %s and its call says stop (T21, T30)', async (_how, end) => {
    const parent = await bench.started(newAgent());
    const family = await familyOf(parent, 'stop');
    const others = await familyOf(parent, 'continue');
    expect(await abandonedIn(family)).toEqual([]);
    await end(parent);
    expect(await abandonedIn(family)).toEqual(OPEN);
    expect(await abandonedIn(others)).toEqual([]);
    for (const agentTurnId of Object.values(others))
      expect((await bench.dueAt(bench.now + HOUR, agentTurnId))?.parentGone ?? false).toBe(false);
    for (const agentTurnId of Object.values(family)) await bench.store.stopTurn(agentTurnId, 'its parent is gone');
    const stopped = await Promise.all(Object.values(family).map((agentTurnId) => bench.store.getTurn(agentTurnId)));
    expect(stopped.map((turn) => turn?.status)).toEqual(['canceled', 'failed', 'failed', 'failed', 'success']);
    expect(await bench.store.violations()).toEqual([]);
  });

  test.each(['success', 'partial'] as const)('is left alone when the parent ended %s (T30)', async (status) => {
    const parent = await bench.started(newAgent());
    const family = await familyOf(parent, 'stop', false);
    await bench.ended(parent, { ...SUCCESS, termination: { status } });
    expect(await abandonedIn(family)).toEqual([]);
    for (const agentTurnId of Object.values(family))
      expect((await bench.dueAt(bench.now + HOUR, agentTurnId))?.parentGone ?? false).toBe(false);
  });

  test('is stopped as well when it begins to wait, or gets a result, before it is checked (T30)', async () => {
    for (const move of ['waits', 'goes on'] as const) {
      const parent = await bench.started(newAgent());
      const { delegation } = await bench.delegated(parent, NEW_DOCTOR, { waitMs: HOUR, onParentEnd: 'stop' });
      const agentTurnId = delegatedTurnId(delegation.callId);
      const child = await bench.leased((await bench.store.getTurn(agentTurnId))?.agentId ?? '');
      const callId = await bench.suspended(child, 1, HOUR);
      await bench.store.stopTurn(parent.agentTurnId, 'test');
      if (move === 'waits') await bench.suspended(child, 2, HOUR);
      else await bench.store.reportResult(agentTurnId, { callId, status: 'running' });
      expect(await bench.dueAt(bench.now + 10_000, agentTurnId)).toMatchObject({ parentGone: true });
    }
  });

  test('is canceled instead of leased when it is still queued and its call says stop, and the next one is leased (T8, T30)', async () => {
    const parent = await bench.started(newAgent());
    const busy = await bench.started(newAgent(), { profile: 'doctor' });
    const reuse = { strategy: 'reuse', agentId: busy.agentId } as const;
    const made = async (onParentEnd: Delegation['onParentEnd']) =>
      delegatedTurnId((await bench.delegated(parent, reuse, { waitMs: HOUR, onParentEnd })).delegation.callId);
    const [stops, goesOn] = [await made('stop'), await made('continue')];
    await bench.store.stopTurn(parent.agentTurnId, 'test');
    const { handover } = await bench.store.commitTurn(fenceOf(busy), SUCCESS);
    expect(handover).toMatchObject({ next: { agentTurnId: goesOn }, settlements: [stops] });
    expect(await bench.store.getTurn(stops)).toMatchObject({ status: 'canceled', errorCode: 'canceled' });
    expect(await bench.store.settleDelegation(stops)).toMatchObject({ ack: 'stale', wake: false });
    expect(await bench.store.violations()).toEqual([]);
  });
});
