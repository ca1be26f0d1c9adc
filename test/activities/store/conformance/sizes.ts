/** Lists of any length, as every store must take them: none, one, two and more than a statement has values. */
import { describe, expect, test } from '@jest/globals';
import { v7 } from 'uuid';
import { callId } from '../../../../activities/ids.ts';
import type { ChunkBody } from '../../../../workflows/contract/chunks.ts';
import { Session } from '../chat/session.ts';
import { fenceOf, newAgent, type StoreBench, SUCCESS } from '../store-bench.ts';

const SIZES = [0, 1, 2, 40_000];

export function describeSizes(bench: StoreBench): void {
  describe('a list of any length', () => {
    test.each(SIZES)('of %i ids finds what is there', async (count) => {
      const lease = await bench.started(newAgent());
      const ids = Array.from({ length: count }, () => v7());
      expect(await bench.store.makeDue(ids)).toBe(0);
      expect(await bench.store.makeDue([...ids, lease.agentTurnId])).toBe(1);
      expect(await bench.store.readCards(ids)).toEqual([]);
      const statuses = await Promise.all([...ids, lease.agentTurnId].map((id) => bench.store.getTurnStatus(id)));
      expect([statuses.length, statuses.at(-1)]).toEqual([count + 1, 'dispatched']);
      const hide = ids.map((_, at) => 1_000 + at);
      await bench.store.openStep(fenceOf(lease), { stepIndex: 1, profileHash: lease.profileHash, hide });
      await bench.store.commitTurn(fenceOf(lease), { ...SUCCESS, hide });
    });

    test.each(SIZES)('of %i chunks is written', async (count) => {
      const lease = await bench.started(newAgent());
      const chunks = Array.from({ length: count }, (_, at): ChunkBody => ({ type: 'content', at, text: 'x' }));
      const fence = fenceOf(lease);
      expect(await bench.store.appendChunks([{ fence, stepIndex: 1, attempt: 1, chunks }])).toEqual([true]);
      expect(await bench.other.readChunks(fence.agentTurnId, 0, count + 1)).toHaveLength(count);
      await bench.store.commitTurn(fence, SUCCESS);
    });

    test('of calls with large arguments has a view of a bounded size (W11)', async () => {
      const lease = await bench.started(newAgent());
      const callOf = (index: number) => callId(lease.agentTurnId, 1, index);
      const calls = Array.from({ length: 5 }, (_, index) => ({
        ...{ index, digest: `${index}` },
        content: { callId: callOf(index), tool: 'put', arguments: { text: 'x'.repeat(400_000) } },
      }));
      await bench.store.openStep(fenceOf(lease), { stepIndex: 1, profileHash: lease.profileHash });
      await bench.committed(lease, 1, { calls });
      const view = await bench.other.getTurn(lease.agentTurnId);
      const shown = view?.steps.flatMap((step) => step.calls.map((call) => call.arguments !== null)) ?? [];
      expect([shown.length, shown.filter(Boolean).length]).toEqual([5, 2]);
      const entries = (await bench.other.readTranscript(lease.agentTurnId)) ?? [];
      expect(JSON.stringify(entries).length).toBeGreaterThan(2_000_000);
    });

    test('of no turns is what a journal reads of a session whose turns are of no chat (C9)', async () => {
      const session = new Session(bench);
      const { agentId } = session;
      await bench.store.commitTurn(fenceOf(await session.started()), SUCCESS);
      const [last] = (await bench.eventsOf(agentId)).slice(-1);
      for (const _ of [1, 2]) await bench.store.commitTurn(fenceOf(await bench.started(agentId)), SUCCESS);
      expect((await bench.store.readJournal(agentId, last?.seq ?? 0)).lines).toEqual([]);
    });
  });
}
