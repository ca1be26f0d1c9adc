/** The lease that keeps one supervisor active, as every store must do it. */
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import type { Store } from '../../../../workflows/contract/store.ts';
import type { OpenStore } from '../store-bench.ts';

const TTL = 10_000;
const START = 1_000_000;

export function describeSupervisorLease(makeOpener: () => OpenStore): void {
  describe('the lease of the supervisor', () => {
    let now = START;
    let store: Store;
    let other: Store;
    beforeEach(async () => {
      now = START;
      const open = makeOpener();
      store = await open(() => now);
      other = await open(() => now);
    });
    afterEach(async () => {
      await store?.close();
      await other?.close();
    });

    const hold = (holder: string, on = store) => on.holdSupervisorLease(holder, TTL);
    const held = (since: number, listedUntil: number | null = null) => ({ since, listedUntil });

    test('is held by one at a time, also when many ask at once (T29)', async () => {
      const holders = Array.from({ length: 8 }, (_, index) => `holder-${index}`);
      const leases = await Promise.all(holders.map((holder, index) => hold(holder, index % 2 ? store : other)));
      expect(leases.filter((lease) => lease !== null)).toEqual([held(START)]);
      const winner = holders[leases.findIndex((lease) => lease !== null)] ?? '';
      for (const holder of holders) expect(await hold(holder)).toEqual(holder === winner ? held(START) : null);
    });

    test('lasts until it expires, unless it is renewed (T29)', async () => {
      await hold('a');
      now += TTL - 1;
      expect(await hold('b', other)).toBeNull();
      expect(await hold('a')).toEqual(held(START));
      now += TTL - 1;
      expect(await hold('b', other)).toBeNull();
      now += 1;
      expect(await hold('b', other)).toEqual(held(START));
      expect(await hold('a')).toBeNull();
    });

    test('is free at once when it is released, by its holder only (T29)', async () => {
      await hold('a');
      await other.releaseSupervisorLease('b');
      expect(await hold('b', other)).toBeNull();
      await store.releaseSupervisorLease('a');
      expect(await hold('b', other)).toEqual(held(START));
      await store.releaseSupervisorLease('a');
      expect(await hold('a')).toBeNull();
    });

    test('tells until when somebody is, or was, active (T29)', async () => {
      expect(await other.supervisedUntil()).toBeNull();
      await hold('a');
      expect(await other.supervisedUntil()).toBe(START + TTL);
      now += TTL / 2;
      await store.releaseSupervisorLease('a');
      expect(await other.supervisedUntil()).toBe(now);
    });

    test('tells since when there was no longer break: a hand-over is none, half a minute without a holder is one (T12)', async () => {
      await hold('a');
      now += TTL + 30_000;
      expect(await hold('b')).toEqual(held(START));
      now += TTL + 30_001;
      expect(await hold('c')).toEqual(held(now));
      const since = now;
      now += TTL / 2;
      await store.releaseSupervisorLease('c');
      now += 20_000;
      expect(await hold('a')).toEqual(held(since));
    });

    test('tells of a break to the same holder too: its process was frozen (T12)', async () => {
      await hold('a');
      now += TTL + 30_001;
      expect(await hold('a')).toEqual(held(now));
    });

    test('that is released long after it expired does not hide the break (T12)', async () => {
      await hold('a');
      now += 600_000;
      await store.releaseSupervisorLease('a');
      expect(await hold('b', other)).toEqual(held(now));
    });

    test('of a holder whose clock is far ahead is free all the same, and one whose clock is a little ahead is not (T29)', async () => {
      const ahead = async (ms: number) => {
        now += ms;
        expect(await hold('a')).not.toBeNull();
        now -= ms;
        return hold('b', other);
      };
      expect(await ahead(60_000)).toBeNull();
      now += TTL + 60_001;
      expect(await ahead(60_001)).not.toBeNull();
    });

    test('keeps how far closed workflows were listed, from holder to holder (T7)', async () => {
      await hold('a');
      await store.noteListed('a', START - 5);
      expect(await hold('a')).toEqual(held(START, START - 5));
      await other.noteListed('b', START + 7);
      expect(await hold('a')).toEqual(held(START, START - 5));
      await store.releaseSupervisorLease('a');
      expect(await hold('b', other)).toEqual(held(START, START - 5));
      await store.noteListed('a', START + 9);
      expect(await hold('b', other)).toEqual(held(START, START - 5));
    });
  });
}
