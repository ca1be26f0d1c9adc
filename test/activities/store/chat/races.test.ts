/** A message that comes in the same instant as the end of the turn: it is in one turn, once, whichever came first (C8). */
import { describe, expect, test } from '@jest/globals';
import type { QueuePolicy } from '../../../../workflows/protocol/chat.ts';
import { fenceOf, STORES, StoreBench, SUCCESS } from '../store-bench.ts';
import { Session } from './session.ts';

/** Two hundred times what is never to be lost, and a part of that for the others. */
const TIMES = { steer: 200, collect: 40, interrupt: 40, rollback: 40, reject: 40 } as const;
const SIDE_BY_SIDE = 10;

/** Runs a turn to its end while a message comes from another process; returns what the turns that follow were asked. */
async function race(bench: StoreBench, policy: QueuePolicy, lead: number) {
  const session = new Session(bench);
  const lease = await session.started('first');
  const fence = fenceOf(lease);
  await bench.store.openStep(fence, { stepIndex: 1, profileHash: lease.profileHash });
  const end = async () => {
    for (let n = 0; n < lead; n += 1) await Promise.resolve();
    try {
      await bench.committed(lease, 1);
      await bench.store.commitTurn(fence, SUCCESS);
    } catch (error) {
      // The message has ended the turn first.
      expect(error).toMatchObject({ code: 'stale_epoch' });
    }
  };
  const [, sent] = await Promise.all([end(), session.send('second', { policy }, bench.other)]);
  for (let next = (await bench.store.leaseNext(session.agentId)).next; next; )
    next = (await bench.store.commitTurn(fenceOf(next), SUCCESS)).handover.next;
  const [, second] = await bench.store.listMessages(session.agentId);
  const turns = await bench.store.listTurns(session.agentId);
  return { sent, second, turns };
}

describe.each(STORES)('on %s', (_, open) => {
  const bench = new StoreBench(open);

  test.each(['steer', 'collect', 'interrupt', 'rollback', 'reject'] as const)(
    'a message to %s that comes as the turn ends is in one turn, or rejected by itself, many times (C8)',
    async (policy) => {
      const found = new Map<string, number>();
      for (let from = 0; from < TIMES[policy]; from += SIDE_BY_SIDE)
        await Promise.all(
          Array.from({ length: SIDE_BY_SIDE }, async (__, at) => {
            const { second, turns } = await race(bench, policy, (from + at) % 40);
            const asking = turns.filter(({ instruction }) => instruction.includes('second'));
            const [first] = turns;
            expect(first?.instruction).toBe('first');
            if (second?.status === 'rejected') expect([policy, asking]).toEqual(['reject', []]);
            else expect(asking.map(({ agentTurnId }) => agentTurnId)).toEqual([second?.agentTurnId]);
            for (const { status } of turns) expect(['success', 'failed']).toContain(status);
            const how = `${first?.status} ${second?.status}`;
            found.set(how, (found.get(how) ?? 0) + 1);
          }),
        );
      expect([...found.values()].reduce((sum, count) => sum + count, 0)).toBe(TIMES[policy]);
      expect(await bench.store.violations()).toEqual([]);
    },
  );
});
