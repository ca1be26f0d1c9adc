/** Accepting requests, and what a lease holds, as every store must do it. */
import { describe, expect, test } from '@jest/globals';
import { v7 } from 'uuid';
import type { EnqueueInput } from '../../../../workflows/protocol/enqueue.ts';
import { fenceOf, newAgent, nothing, type StoreBench, SUCCESS } from '../store-bench.ts';

export function describeAdmission(bench: StoreBench): void {
  describe('accepting', () => {
    test('the same idempotency key gives the same turn, also from another process and after the turn ended (T2)', async () => {
      const agentId = newAgent();
      const first = await bench.accept(agentId, { idempotencyKey: 'k' });
      const again = await bench.accept(agentId, { idempotencyKey: 'k' }, bench.other);
      expect(first).toMatchObject({ kind: 'accepted', duplicate: false, position: 0 });
      expect(again).toMatchObject({
        kind: 'accepted',
        duplicate: true,
        agentTurnId: first.kind === 'accepted' ? first.agentTurnId : '',
      });
      const lease = await bench.leased(agentId);
      await bench.store.commitTurn(fenceOf(lease), SUCCESS);
      expect(await bench.accept(agentId, { idempotencyKey: 'k' })).toMatchObject({
        duplicate: true,
        status: 'success',
      });
      expect(await bench.store.leaseNext(agentId)).toEqual(nothing(agentId));
      expect(await bench.accept(newAgent(), { idempotencyKey: 'k' })).toMatchObject({ duplicate: false });
    });

    test('the same key with another request is refused as a conflict (T2)', async () => {
      const agentId = newAgent();
      await bench.accept(agentId, { idempotencyKey: 'k' });
      const outcome = await bench.accept(agentId, { idempotencyKey: 'k', instruction: 'something else' });
      expect(outcome).toMatchObject({ kind: 'refused', code: 'idempotency_conflict' });
    });

    test('two processes accepting at once lose nothing and number the turns 1..n (T1, T9)', async () => {
      const agentId = newAgent();
      await Promise.all(
        Array.from({ length: 40 }, (_, i) => bench.accept(agentId, {}, i % 2 ? bench.store : bench.other)),
      );
      const turns = await bench.store.listTurns(agentId);
      expect(turns.map((turn) => turn.acceptSeq)).toEqual(Array.from({ length: 40 }, (_, i) => i + 1));
    });

    test('a full inbox refuses and keeps what it has (T10)', async () => {
      const agentId = newAgent();
      await bench.started(agentId);
      for (let i = 0; i < 1_000; i += 1) await bench.accepted(agentId);
      expect(await bench.accept(agentId)).toMatchObject({ kind: 'refused', code: 'inbox_full' });
      expect((await bench.store.getAgent(agentId))?.queuedTurns).toBe(1_000);
    });

    test('an instruction card that does not exist is refused by name', async () => {
      const outcome = await bench.accept(newAgent(), {
        instruction: undefined,
        instructionCardId: v7(),
      } as Partial<EnqueueInput>);
      expect(outcome).toMatchObject({ kind: 'refused', code: 'invalid_request' });
    });
  });

  test('a message that nobody can use leaves one event, however often it is handled, and each message its own (T3)', async () => {
    const agentId = newAgent();
    const drop = (messageId: string, reason: string, store = bench.store) =>
      store.recordDropped(agentId, messageId, { what: 'enqueue', reason });
    const [first, second] = [v7(), v7()];
    await Promise.all([bench.store, bench.other, bench.store].map((store) => drop(first, 'no request', store)));
    await drop(second, 'refused');
    await drop(first, 'another reason');
    const events = await bench.eventsOf(agentId);
    expect(events.map(({ type, payload }) => [type, payload])).toEqual([
      ['dropped', { what: 'enqueue', reason: 'no request' }],
      ['dropped', { what: 'enqueue', reason: 'refused' }],
    ]);
  });

  describe('leasing', () => {
    test('a turn that cannot start ends with its own task event and does not block the next (T8)', async () => {
      const agentId = newAgent();
      const open = await bench.started(agentId);
      const contextBoxId = v7();
      const poisoned = await bench.accepted(agentId, { contextBoxId });
      const healthy = await bench.accepted(agentId);
      const { handover } = await bench.store.commitTurn(fenceOf(open), SUCCESS);
      expect(handover).toMatchObject({ next: { agentTurnId: healthy, turnEpoch: 3 }, more: false });
      const view = await bench.store.getTurn(poisoned);
      expect(view).toMatchObject({ status: 'failed', errorCode: 'box_unavailable', turnEpoch: 2 });
      expect(view?.deliverable?.fallback?.reason).toContain(contextBoxId);
      expect(await bench.tasksOf(agentId)).toHaveLength(2);
    });

    test('a request to an idle agent that names a box which is not there has ended when it is accepted (T8)', async () => {
      const agentId = newAgent();
      const outcome = await bench.accept(agentId, { contextBoxId: v7() });
      expect(outcome).toMatchObject({ kind: 'accepted', lease: null, status: 'failed', position: 0 });
      expect(await bench.tasksOf(agentId)).toMatchObject([{ payload: { errorCode: 'box_unavailable' } }]);
      expect(await bench.store.leaseNext(agentId)).toEqual(nothing(agentId));
      expect((await bench.started(agentId)).turnEpoch).toBe(2);
    });

    test('a missing context box ends the turn box_unavailable (T25)', async () => {
      const agentId = newAgent();
      const turn = await bench.accepted(agentId, { contextBoxId: v7() });
      expect(await bench.store.leaseNext(agentId)).toEqual(nothing(agentId));
      expect(await bench.store.getTurn(turn)).toMatchObject({ status: 'failed', errorCode: 'box_unavailable' });
    });

    test('the same texts are the same context box, however often and by however many they are written at once (T29)', async () => {
      const texts = [newAgent(), 'b', 'b'];
      const writing = [bench.store, bench.other, bench.store, bench.other].map((store) => store.writeContextBox(texts));
      const [boxId = '', ...more] = await Promise.all(writing);
      expect(more).toEqual([boxId, boxId, boxId]);
      expect(await bench.other.writeContextBox(texts)).toBe(boxId);
      expect(await bench.store.findBox(boxId)).toEqual({ kind: 'context', ownerAgentId: null });
      expect(await bench.store.findBox('no-such-box')).toBeNull();
      const cards = await bench.store.readBox(boxId);
      expect(cards.map(({ card }) => card.content)).toEqual(texts.map((text) => ({ text })));
      expect(await bench.store.readBox(boxId, false, { after: 1, limit: 1 })).toEqual(cards.slice(1, 2));
    });

    test('the instruction joins the output box at lease; memory comes first, then the context, the instruction last (T24)', async () => {
      const agentId = newAgent();
      const first = await bench.started(agentId, { instruction: 'first' });
      await bench.think(first, 1);
      await bench.store.commitTurn(fenceOf(first), SUCCESS);
      const contextBoxId = await bench.store.writeContextBox(['context']);
      const second = await bench.started(agentId, { instruction: 'second', contextBoxId });
      const own = { boxId: second.outputBoxId, fromSeq: second.instructionSeq, toSeq: second.instructionSeq };
      const cards = await bench.store.readExtents([...second.earlier, own]);
      const texts = cards.flatMap((card) => ('text' in card.content ? [card.content.text] : [card.type]));
      expect(texts).toEqual(['first', 'thought 1', 'task.deliverable', 'context', 'second']);
    });

    test('an instruction card of an earlier turn stays with its answer, and comes last again as the newest (T24, T29)', async () => {
      const agentId = newAgent();
      const instructionCardId = await bench.store.writeInstructionCard(`again ${agentId}`);
      const request = { instruction: undefined, instructionCardId } as Partial<EnqueueInput>;
      for (let earlier = 1; earlier <= 2; earlier += 1)
        await bench.store.commitTurn(fenceOf(await bench.started(agentId, request)), SUCCESS);
      const lease = await bench.started(agentId, request);
      const { earlier, outputBoxId, instructionSeq, agentTurnId } = lease;
      const own = { boxId: outputBoxId, fromSeq: instructionSeq, toSeq: instructionSeq };
      const cards = await bench.store.readExtents([...earlier, own]);
      const asked = ['task.instruction', 'task.deliverable'];
      expect(cards.map(({ type }) => type)).toEqual([...asked, ...asked, 'task.instruction']);
      expect(cards.at(-1)).toMatchObject({ agentTurnId, content: { text: `again ${agentId}` } });
      expect(lease.instructionTokens).toBe(cards.at(-1)?.tokens);
      expect(await bench.store.getTurn(agentTurnId)).toMatchObject({ instruction: `again ${agentId}` });
      expect(await bench.store.violations()).toEqual([]);
    });
  });
}
