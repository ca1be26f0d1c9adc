/** What comes for an agent from outside, as every store must keep it (A4, A9). */
import { describe, expect, test } from '@jest/globals';
import type { Lease } from '../../../../workflows/contract/lease.ts';
import { fenceOf, newAgent, type StoreBench, SUCCESS } from '../store-bench.ts';

export function describeDeliveries(bench: StoreBench): void {
  /** Ends the turn, and those that the agent then makes by itself; what each of these is told. */
  async function toldAfter(lease: Lease): Promise<string[]> {
    const told: string[] = [];
    for (let next: Lease | null = lease; next; ) {
      next = (await bench.store.commitTurn(fenceOf(next), SUCCESS)).handover.next;
      if (next) told.push((await bench.other.getTurn(next.agentTurnId))?.instruction ?? '');
    }
    return told;
  }
  const numbersIn = (told: readonly string[]) =>
    told.map((text) => [...text.matchAll(/number (\d+)/g)].map(([, number]) => Number(number)));
  const upTo = (last: number) => Array.from({ length: last }, (_, at) => at + 1);

  describe('what comes for a busy agent', () => {
    test('is told whole and in order, by as many turns as it takes (A4, A9)', async () => {
      const agentId = newAgent();
      const lease = await bench.started(agentId);
      for (const number of upTo(250))
        expect(await bench.store.wakeAgent(agentId, { text: `number ${number}` })).toMatchObject({
          disposition: 'kept',
        });
      expect(await bench.store.violations()).toEqual([]);
      const numbers = numbersIn(await toldAfter(lease));
      expect(numbers.map(({ length }) => length)).toEqual([100, 100, 50]);
      expect(numbers.flat()).toEqual(upTo(250));
      expect(await bench.store.violations()).toEqual([]);
    });

    test('is told in one turn as far as its bytes go, and read on where one is longer (A9, W11)', async () => {
      const agentId = newAgent();
      const lease = await bench.started(agentId);
      const long = `${'x'.repeat(49_999)}!`;
      for (const text of ['number 1', long, 'number 2', long, 'number 3'])
        await bench.store.wakeAgent(agentId, { text });
      const told = await toldAfter(lease);
      expect(numbersIn(told).flat()).toEqual([1, 2, 3]);
      for (const text of told) expect(Buffer.byteLength(text)).toBeLessThan(66_000);
      const [, card = '', offset = ''] = /of 50000 bytes.*"call_id":"([^"]+)","offset":(\d+)/.exec(told.join()) ?? [];
      const whole = await bench.other.readWake({ agentId }, card);
      expect(whole).toBe(long);
      expect(told.join()).toContain(`${long.slice(0, Number(offset))}…`);
      // It is nobody else's.
      expect(await bench.other.readWake({ agentId: newAgent() }, card)).toBeNull();
    });

    test('is refused, and not taken, beyond what is kept (A9)', async () => {
      const agentId = newAgent();
      const lease = await bench.started(agentId);
      const text = 'y'.repeat(500_000);
      for (const _ of upTo(4)) await bench.store.wakeAgent(agentId, { text });
      const refused = bench.store.wakeAgent(agentId, { text, key: 'once' });
      await expect(refused).rejects.toMatchObject({ code: 'inbox_full', message: expect.stringContaining(agentId) });
      expect(await toldAfter(lease)).toHaveLength(1);
      // Its key counts for what is taken.
      expect((await bench.store.wakeAgent(agentId, { text, key: 'once' })).disposition).toBe('woken');
      expect(await bench.store.violations()).toEqual([]);
    });
  });
}
