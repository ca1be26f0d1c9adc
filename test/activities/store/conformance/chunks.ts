/** Chunks of answers that are being written, as every store must keep them (W16). */
import { describe, expect, test } from '@jest/globals';
import type { ChunkBatch, ChunkBody } from '../../../../workflows/contract/chunks.ts';
import type { Fence } from '../../../../workflows/protocol/turn.ts';
import { fenceOf, newAgent, type StoreBench, SUCCESS } from '../store-bench.ts';

const text = (at: number, content: string): ChunkBody => ({ type: 'content', at, text: content });
const batch = (fence: Fence, ...chunks: ChunkBody[]): ChunkBatch => ({ fence, stepIndex: 1, attempt: 7, chunks });

export function describeChunks(bench: StoreBench): void {
  describe('chunks', () => {
    const leased = async () => fenceOf(await bench.started(newAgent()));

    test('come back in their order, from any place on, with what they are of', async () => {
      const fence = await leased();
      const chunks: ChunkBody[] = [
        { type: 'start' },
        text(0, 'Hel'),
        { type: 'tool_call', index: 0, tool: 'look', text: '{"a' },
        { type: 'end', usage: { input: 1, output: 2, cached: 0 } },
      ];
      expect(await bench.store.appendChunks([batch(fence, ...chunks.slice(0, 2))])).toEqual([true]);
      expect(await bench.other.appendChunks([batch(fence, ...chunks.slice(2))])).toEqual([true]);
      const read = await bench.other.readChunks(fence.agentTurnId, 0, 10);
      expect(read).toEqual(chunks.map((body, index) => ({ ...body, seq: index + 1, stepIndex: 1, attempt: 7 })));
      expect(await bench.store.readChunks(fence.agentTurnId, 1, 2)).toEqual(read.slice(1, 3));
    });

    test('are written for each turn that still has its lease, and for no other (T5, W16)', async () => {
      const [over, held] = [await leased(), await leased()];
      await bench.store.commitTurn(over, SUCCESS);
      const batches = [over, held, { ...held, turnEpoch: held.turnEpoch + 1 }].map((fence) =>
        batch(fence, text(0, 'a')),
      );
      expect(await bench.store.appendChunks(batches)).toEqual([false, true, false]);
      expect(await bench.store.readChunks(over.agentTurnId, 0, 10)).toEqual([]);
      expect(await bench.store.readChunks(held.agentTurnId, 0, 10)).toHaveLength(1);
    });

    test('of one turn by two processes at once have places without gaps or ties, and those of each in its order', async () => {
      const fence = await leased();
      const write = async (attempt: number, on = bench.store) => {
        for (let at = 0; at < 20; at += 1)
          await on.appendChunks([{ fence, stepIndex: 1, attempt, chunks: [text(2 * at, 'x'), text(2 * at + 1, 'y')] }]);
      };
      await Promise.all([write(1), write(2, bench.other)]);
      const read = await bench.store.readChunks(fence.agentTurnId, 0, 1_000);
      expect(read.map((chunk) => chunk.seq)).toEqual(Array.from({ length: 80 }, (_, index) => index + 1));
      for (const attempt of [1, 2]) {
        const own = read.flatMap((chunk) => (chunk.attempt === attempt && chunk.type === 'content' ? chunk.at : []));
        expect(own).toEqual(Array.from({ length: 40 }, (_, index) => index));
      }
    });

    test('are dropped some time after the end of their turn, however old, of so many turns at once', async () => {
      const [open, early, late] = [await leased(), await leased(), await leased()];
      for (const fence of [open, early, late])
        await bench.store.appendChunks([batch(fence, text(0, 'a'), text(1, 'b'))]);
      await bench.store.commitTurn(early, SUCCESS);
      bench.now += 600_000;
      await bench.store.commitTurn(late, SUCCESS);
      const left = async () => {
        const counts: number[] = [];
        for (const { agentTurnId } of [open, early, late])
          counts.push((await bench.store.readChunks(agentTurnId, 0, 10)).length);
        return counts;
      };
      expect(await bench.store.dropChunks(600_001, 10)).toBe(0);
      expect(await left()).toEqual([2, 2, 2]);
      while ((await bench.store.dropChunks(600_000, 1)) > 0) {}
      expect(await left()).toEqual([2, 0, 2]);
      bench.now += 600_000;
      while ((await bench.other.dropChunks(600_000, 1)) > 0) {}
      expect(await left()).toEqual([2, 0, 0]);
    });
  });
}
