/** Boxes between agents, and boxes replaced (T25), on every store. */
import { describe, expect, test } from '@jest/globals';
import { v7 } from 'uuid';
import { newAgent, STORES, StoreBench } from '../store-bench.ts';

describe.each(STORES)('boxes on %s', (_, fresh) => {
  const bench = new StoreBench(fresh);

  /** An agent that remembers one turn. */
  const remembering = async () => {
    const agentId = newAgent();
    const lease = await bench.started(agentId, { instruction: `remember ${agentId}` });
    await bench.think(lease, 1);
    await bench.ended(lease);
    return { agentId, boxId: lease.outputBoxId, cards: await bench.cardsOf(lease.outputBoxId) };
  };

  describe('a box handed to another agent', () => {
    test('is forked: both go on by themselves, with the same cards before (T25)', async () => {
      const { agentId, boxId, cards } = await remembering();
      const leases = await Promise.all([1, 2].map(() => bench.started(newAgent(), { outputBoxId: boxId })));
      const boxes = leases.map((lease) => lease.outputBoxId);
      expect(new Set([boxId, ...boxes]).size).toBe(3);
      for (const lease of leases) {
        await bench.think(lease, 1);
        await bench.ended(lease);
        const copy = await bench.cardsOf(lease.outputBoxId);
        expect(copy.slice(0, cards.length)).toEqual(cards);
        expect(copy.length).toBeGreaterThan(cards.length);
      }
      expect(await bench.cardsOf(boxId)).toEqual(cards);
      const own = await bench.started(agentId);
      expect(own.outputBoxId).toBe(boxId);
      await bench.ended(own);
      expect(await bench.store.violations()).toEqual([]);
    });

    test('becomes what the agent remembers from then on; its own box stays its own (T25)', async () => {
      const { boxId, agentId } = await remembering();
      const other = newAgent();
      const first = await bench.started(other, { outputBoxId: boxId });
      await bench.ended(first);
      const second = await bench.started(other);
      expect(second.outputBoxId).toBe(first.outputBoxId);
      await bench.ended(second);
      expect((await bench.started(agentId, { outputBoxId: boxId })).outputBoxId).toBe(boxId);
    });

    test('that does not exist ends the turn box_unavailable, and the next one runs (T8, T25)', async () => {
      const agentId = newAgent();
      const lost = await bench.accepted(agentId, { outputBoxId: v7() });
      const next = await bench.accepted(agentId);
      expect((await bench.leased(agentId)).agentTurnId).toBe(next);
      expect(await bench.store.getTurn(lost)).toMatchObject({ status: 'failed', errorCode: 'box_unavailable' });
      expect(await bench.store.violations()).toEqual([]);
    });
  });

  describe('replacing what an agent remembers', () => {
    test('makes a new box and moves the pointer; the old one stays as it was (T25)', async () => {
      const { agentId, boxId, cards } = await remembering();
      const kept = [await bench.store.writeInstructionCard(`a summary ${v7()}`), cards.at(-1) ?? ''];
      const replaced = await bench.store.replaceOutputBox(agentId, boxId, kept);
      expect(await bench.cardsOf(replaced)).toEqual(kept);
      expect(await bench.cardsOf(boxId)).toEqual(cards);
      expect(await bench.store.getAgent(agentId)).toMatchObject({ outputBoxId: replaced });
      const lease = await bench.started(agentId);
      expect(lease).toMatchObject({
        outputBoxId: replaced,
        earlier: [
          { boxId: replaced, fromSeq: 1, toSeq: 1 },
          { boxId: replaced, fromSeq: 2, toSeq: 2 },
        ],
      });
      await bench.ended(lease);
      expect((await bench.cardsOf(replaced)).slice(0, 2)).toEqual(kept);
    });

    test('is a CAS: of two at once one wins, the other is told to look again (T25)', async () => {
      const { agentId, boxId, cards } = await remembering();
      const tries = await Promise.allSettled([
        bench.store.replaceOutputBox(agentId, boxId, cards.slice(0, 1)),
        bench.other.replaceOutputBox(agentId, boxId, cards.slice(1, 2)),
      ]);
      const lost = tries.filter((one) => one.status === 'rejected');
      expect(lost).toMatchObject([{ reason: { code: 'box_unavailable' } }]);
      const won = tries.find((one) => one.status === 'fulfilled');
      expect((await bench.store.getAgent(agentId))?.outputBoxId).toBe(won?.value);
    });

    test('is refused while a turn is open, which would write to the old box (T25)', async () => {
      const { agentId, boxId, cards } = await remembering();
      const lease = await bench.started(agentId);
      await expect(bench.store.replaceOutputBox(agentId, boxId, cards)).rejects.toMatchObject({ code: 'agent_busy' });
      await bench.ended(lease);
      await expect(bench.store.replaceOutputBox(agentId, boxId, cards)).resolves.toBeDefined();
    });

    test('by a card that does not exist is refused by name, and changes nothing (T25)', async () => {
      const { agentId, boxId, cards } = await remembering();
      const unknown = v7();
      await expect(bench.store.replaceOutputBox(agentId, boxId, [...cards, unknown])).rejects.toMatchObject({
        code: 'box_unavailable',
        message: expect.stringContaining(unknown),
      });
      expect(await bench.store.getAgent(agentId)).toMatchObject({ outputBoxId: boxId });
    });

    test('with nothing makes the agent forget (T25)', async () => {
      const { agentId, boxId } = await remembering();
      const empty = await bench.store.replaceOutputBox(agentId, boxId, []);
      expect((await bench.started(agentId)).earlier).toEqual([]);
      expect(await bench.store.violations()).toEqual([]);
      expect(empty).not.toBe(boxId);
    });
  });
});
