/** How turns end, are stopped and steered, as every store must do it. */
import { describe, expect, test } from '@jest/globals';
import { v7 } from 'uuid';
import { callId as callIdOf } from '../../../../activities/ids.ts';
import type { Lease } from '../../../../workflows/contract/lease.ts';
import type { StepCommit } from '../../../../workflows/contract/steps.ts';
import { MESSAGE_TOKENS } from '../../../../workflows/kernel/pressure.ts';
import { SIZES } from '../../../../workflows/protocol/sizes.ts';
import { fenceOf, LOST, newAgent, nothing, result, type StoreBench, SUCCESS } from '../store-bench.ts';

export function describeEndings(bench: StoreBench): void {
  describe('ending', () => {
    test('commit writes the deliverable into the output box, then one task event; a second run adds nothing (T2, T6, T29)', async () => {
      const agentId = newAgent();
      const lease = await bench.started(agentId);
      const { thoughtCardId } = await bench.think(lease, 1);
      const commit = { ...SUCCESS, deliverable: { from: 'thought', cardId: thoughtCardId } } as const;
      const ending = await bench.store.commitTurn(fenceOf(lease), commit);
      expect(await bench.store.commitTurn(fenceOf(lease), SUCCESS)).toEqual(ending);
      const { ended: end, handover } = ending;
      expect(handover).toEqual(nothing(agentId));
      const box = await bench.store.readBox(end.outputBoxId);
      expect(box.at(-1)?.card).toMatchObject({
        cardId: end.deliverableCardId,
        type: 'task.deliverable',
        content: { text: 'thought 1' },
      });
      const tasks = await bench.tasksOf(agentId);
      expect(tasks.map((event) => event.payload)).toEqual([
        {
          status: 'success',
          errorCode: null,
          deliverableCardId: end.deliverableCardId,
          outputBoxId: end.outputBoxId,
        },
      ]);
      expect(await bench.store.getAgent(agentId)).toMatchObject({
        status: 'idle',
        activeAgentTurnId: null,
      });
    });

    /** A step whose thought, or whose one call's result, is this text. */
    const said = async (lease: Lease, text: string, terminating?: string) => {
      const fence = fenceOf(lease);
      await bench.store.openStep(fence, { stepIndex: 1, profileHash: lease.profileHash });
      const callId = callIdOf(lease.agentTurnId, 1, 0);
      const content = { callId, tool: 't', arguments: {} };
      const commit = {
        thought: { text, toolCalls: [] },
        ...(terminating ? { calls: [{ index: 0, content, digest: 'd' }] } : {}),
      };
      const { thoughtCardId } = await bench.committed(lease, 1, commit);
      const done = result(callId, { result: { text: terminating ?? '' }, afterExecution: 'terminate' });
      if (terminating) await bench.store.settleCall(fence, { callId, attempt: 1, content: done, durationMs: 1 });
      return { thoughtCardId, callId };
    };
    const deliveredBy = async ({ agentTurnId }: Lease) => (await bench.store.getTurn(agentTurnId))?.deliverable ?? {};
    // Each byte of it takes two in a card.
    const quotes = (bytes: number) => '"'.repeat(bytes);
    const HALF = SIZES.cardBytes / 2 - 500;

    test('an answer in several parts that no card can hold is cut and says how large it was (T6)', async () => {
      const lease = await bench.started(newAgent());
      const { thoughtCardId: cardId } = await said(lease, quotes(HALF));
      const deliverable = { from: 'thought', cardId, parts: [cardId] } as const;
      expect(await bench.ended(lease, { ...SUCCESS, deliverable })).toMatchObject({ status: 'success' });
      const { text = '', wholeBytes } = await deliveredBy(lease);
      expect(wholeBytes).toBe(2 * HALF);
      expect(text).toMatch(/^"{400000,}…$/);
      expect(await bench.store.violations()).toEqual([]);
    });

    test('a terminating tool may return as much as a card holds (T6)', async () => {
      const lease = await bench.started(newAgent());
      const { callId } = await said(lease, 'thinking', quotes(HALF));
      const deliverable = { from: 'tool_result', callId } as const;
      expect(await bench.ended(lease, { ...SUCCESS, deliverable })).toMatchObject({ status: 'success' });
      const { text = '', wholeBytes } = await deliveredBy(lease);
      // Escaped once in its card, and once more in the text that is delivered.
      expect(wholeBytes).toBe(2 * HALF + '{"text":""}'.length);
      expect(text).toMatch(/^\{"text":"(\\"){200000,}\\?…$/);
    });

    test('a turn can be ended whatever its last thought and the reason of its end are (T7)', async () => {
      const lease = await bench.started(newAgent());
      // A control character takes six bytes in a card.
      const thought = `\u{1f600}${'\u0001'.repeat(SIZES.cardBytes / 6 - 100)}`;
      await said(lease, thought);
      const next = await bench.accepted(lease.agentId);
      const reason = 'why '.repeat(SIZES.cardBytes);
      const { ack, handover } = await bench.store.stopTurn(lease.agentTurnId, reason);
      expect({ ack, next: handover?.next?.agentTurnId }).toEqual({ ack: 'stopped', next });
      const { fallback, wholeBytes } = await deliveredBy(lease);
      expect(fallback?.reason).toMatch(/^(why )+\w*…$/);
      expect(wholeBytes).toBe(Buffer.byteLength(thought));
      const last = fallback?.lastThought ?? '';
      expect({ from: last.slice(0, 2), to: last.at(-1), most: last.length > 170_000 }).toEqual({
        from: '\u{1f600}',
        to: '…',
        most: true,
      });
      expect(await bench.tasksOf(lease.agentId)).toHaveLength(1);
    });

    test('a turn that did not commit is reaped: epoch up, fallback of its own, next turn leased (T7)', async () => {
      const agentId = newAgent();
      const first = await bench.started(agentId);
      await bench.think(first, 1);
      await bench.ended(first);
      const lease = await bench.started(agentId);
      const waiting = await bench.accepted(agentId);
      const closed = { status: 'failed', errorCode: 'terminated', reason: 'gone' } as const;
      const seen = { ...fenceOf(lease), status: 'dispatched', progressAt: bench.now } as const;
      expect(await bench.store.reapTurn(seen, closed)).toMatchObject({
        next: { agentTurnId: waiting, turnEpoch: lease.turnEpoch + 2 },
        more: false,
        settlements: [],
      });
      // No thought of its own: the older turn's must not stand in for it.
      const view = await bench.store.getTurn(lease.agentTurnId);
      expect(view).toMatchObject({ status: 'failed', errorCode: 'terminated' });
      expect(view?.deliverable).toEqual({ fallback: { reason: 'gone', toolResults: 0 } });
      expect(await bench.store.reapTurn(seen, LOST)).toBeNull();
      expect(await bench.store.getTurn(lease.agentTurnId)).toEqual(view);
      expect(await bench.tasksOf(agentId)).toHaveLength(2);
      expect(await bench.store.violations()).toEqual([]);
    });

    test('the commit of a turn that was reaped meanwhile gets the recorded end and writes nothing (T5, T6)', async () => {
      const agentId = newAgent();
      const lease = await bench.started(agentId);
      const { thoughtCardId } = await bench.think(lease, 1);
      await bench.reaped(lease);
      const before = { events: await bench.eventsOf(agentId), box: await bench.store.readBox(lease.outputBoxId) };
      const commit = { ...SUCCESS, deliverable: { from: 'thought', cardId: thoughtCardId } } as const;
      const { ended, handover } = await bench.store.commitTurn(fenceOf(lease), commit);
      expect(ended).toMatchObject({ status: 'failed', errorCode: 'worker_lost' });
      expect(handover).toEqual(nothing(agentId));
      const after = { events: await bench.eventsOf(agentId), box: await bench.store.readBox(lease.outputBoxId) };
      expect(after).toEqual(before);
    });

    test('a committed end is not reaped (T6)', async () => {
      const agentId = newAgent();
      const lease = await bench.started(agentId);
      const seen = { ...fenceOf(lease), status: 'dispatched', progressAt: bench.now } as const;
      await bench.ended(lease);
      expect(await bench.store.reapTurn(seen, LOST)).toBeNull();
      expect(await bench.store.getTurn(lease.agentTurnId)).toMatchObject({ status: 'success' });
      expect(await bench.tasksOf(agentId)).toHaveLength(1);
    });

    test('event numbers rise by one per agent (W, Events)', async () => {
      const agentId = newAgent();
      const lease = await bench.started(agentId);
      await bench.think(lease, 1, ['t']);
      await bench.store.commitTurn(fenceOf(lease), SUCCESS);
      const seqs = (await bench.eventsOf(agentId)).map((event) => event.seq);
      expect(seqs).toEqual(seqs.map((_, index) => index + 1));
    });
  });

  describe('stopping and steering', () => {
    test('stop ends an active turn at once: open calls canceled, epoch up, one task event, late results stale (T21)', async () => {
      const agentId = newAgent();
      const lease = await bench.started(agentId);
      const { calls } = await bench.think(lease, 1, ['a', 'b']);
      const [open = '', waiting = ''] = calls.map((call) => call.callId);
      await bench.store.suspendCall(fenceOf(lease), waiting, 1_000);
      const stop = (reason: string) => bench.store.stopTurn(lease.agentTurnId, reason);
      expect(await stop('enough')).toEqual({ ack: 'stopped', agentId, handover: nothing(agentId) });
      expect(await stop('again')).toEqual({ ack: 'already_ended', agentId, handover: null });
      const view = await bench.store.getTurn(lease.agentTurnId);
      expect(view).toMatchObject({
        status: 'failed',
        errorCode: 'stopped',
        deliverable: { fallback: { reason: 'enough' } },
      });
      expect(view?.steps[0]?.calls.map((call) => call.status)).toEqual(['canceled', 'canceled']);
      for (const callId of [open, waiting]) {
        expect((await bench.store.reportResult(lease.agentTurnId, { callId, status: 'success', result: 1 })).ack).toBe(
          'stale',
        );
      }
      expect(await bench.tasksOf(agentId)).toHaveLength(1);
      expect(await bench.ended(lease)).toMatchObject({ status: 'failed', errorCode: 'stopped' });
      expect((await bench.started(agentId)).turnEpoch).toBe(lease.turnEpoch + 2);
      expect(await bench.store.violations()).toEqual([]);
    });

    test('stop cancels a queued turn without touching the active one (T8)', async () => {
      const agentId = newAgent();
      const lease = await bench.started(agentId);
      const queued = await bench.accepted(agentId);
      const { ack, handover } = await bench.store.stopTurn(queued, 'not needed');
      // What has not started yet is still to be started: the handover says so again.
      expect({ ack, handover }).toEqual({ ack: 'canceled', handover: { ...nothing(agentId), next: lease } });
      expect(await bench.store.getTurn(queued)).toMatchObject({ status: 'canceled', errorCode: 'canceled' });
      expect(
        await bench.store.openStep(fenceOf(lease), { stepIndex: 1, profileHash: lease.profileHash }),
      ).toBeDefined();
      expect(await bench.tasksOf(agentId)).toHaveLength(1);
      expect(await bench.store.stopTurn(v7(), '')).toEqual({ ack: 'unknown', handover: null });
    });

    test('a stopped agent refuses requests and leases nothing; what was queued runs after start (T10)', async () => {
      const agentId = newAgent();
      const lease = await bench.started(agentId);
      const queued = await bench.accepted(agentId);
      const stop = () => bench.store.setLifecycle(agentId, 'stopped', 'holiday');
      expect(await stop()).toEqual({ stoppedTurnId: lease.agentTurnId, handover: nothing(agentId) });
      expect(await stop()).toEqual({ stoppedTurnId: null, handover: nothing(agentId) });
      expect(await bench.accept(agentId)).toMatchObject({ kind: 'refused', code: 'agent_stopped' });
      expect(await bench.store.leaseNext(agentId)).toEqual(nothing(agentId));
      const start = () => bench.store.setLifecycle(agentId, 'started', '');
      const started = await start();
      expect(started).toMatchObject({ stoppedTurnId: null, handover: { next: { agentTurnId: queued } } });
      expect(await start()).toEqual(started);
      expect(await bench.leased(agentId)).toEqual(started.handover.next);
    });

    test('a UI action is taken only by an idle agent with an empty inbox (T11)', async () => {
      const agentId = newAgent();
      const act = () => bench.accept(agentId, { uiAction: true });
      const refused = { kind: 'refused', code: 'agent_busy' };
      const lease = await bench.started(agentId, { uiAction: true });
      expect(await act()).toMatchObject(refused);
      await bench.store.openStep(fenceOf(lease), { stepIndex: 1, profileHash: lease.profileHash });
      expect(await act()).toMatchObject(refused);
      await bench.ended(lease);
      expect(await act()).toMatchObject({ kind: 'accepted', status: 'dispatched' });
    });

    const steersAt = async (lease: Lease, stepIndex: number) =>
      (await bench.store.openStep(fenceOf(lease), { stepIndex, profileHash: lease.profileHash })).steers;
    const textsIn = async (boxId: string) =>
      (await bench.store.readBox(boxId, true)).flatMap(({ card }) =>
        'text' in card.content ? [card.content.text] : [],
      );

    test('steers are shown at the next step, in order, to every attempt of it (T22)', async () => {
      const agentId = newAgent();
      const lease = await bench.started(agentId);
      for (const text of ['one', 'two']) await bench.store.steerTurn(lease.agentTurnId, text);
      const steers = await steersAt(lease, 1);
      expect(steers.map((card) => card.content)).toEqual([{ text: 'one' }, { text: 'two' }]);
      expect(await steersAt(lease, 1)).toEqual(steers);
      const outcome = await bench.committed(lease, 1, { steerIds: steers.map((card) => card.cardId) });
      expect(outcome.steers).toMatchObject([{ seq: 2 }, { seq: 3 }]);
      expect(outcome.thoughtSeq).toBe(4);
      expect(await textsIn(lease.outputBoxId)).toEqual(['do it', 'one', 'two', 'x']);
      expect(await steersAt(lease, 2)).toEqual([]);
    });

    test('steers are shown as far as the prompt has room for them, one at least; the others wait, in order (T22, K15)', async () => {
      const lease = await bench.started(newAgent());
      for (const text of ['one', 'two', 'three', 'four']) await bench.store.steerTurn(lease.agentTurnId, text);
      const shown = async (stepIndex: number, room: number) =>
        (await bench.store.openStep(fenceOf(lease), { stepIndex, profileHash: lease.profileHash, room })).steers;
      const [{ tokens = 0 } = {}] = await shown(1, 0);
      const first = await shown(1, 2 * (tokens + MESSAGE_TOKENS));
      expect(first.map(({ content }) => content)).toEqual([{ text: 'one' }, { text: 'two' }]);
      await bench.committed(lease, 1, { steerIds: first.map(({ cardId }) => cardId) });
      expect((await shown(2, 0)).map(({ content }) => content)).toEqual([{ text: 'three' }]);
      expect(await shown(2, 1_000)).toHaveLength(2);
    });

    test('a turn takes no more than a hundred messages that it has not read, and none of them is lost (T22)', async () => {
      const lease = await bench.started(newAgent());
      const steer = (text: string) => bench.store.steerTurn(lease.agentTurnId, text);
      for (let n = 1; n <= 100; n += 1) await steer(`message ${n}`);
      await expect(steer('one more')).rejects.toMatchObject({ code: 'inbox_full' });
      const steers = await steersAt(lease, 1);
      expect(steers).toHaveLength(100);
      await bench.committed(lease, 1, { steerIds: steers.map(({ cardId }) => cardId) });
      expect(await steer('one more')).toMatchObject({ ack: 'accepted', seq: 101 });
    });

    test('a steer that is sent again with its key counts once, also when its turn has ended meanwhile (T22)', async () => {
      const lease = await bench.started(newAgent());
      const steer = (text: string, on = bench.store) => on.steerTurn(lease.agentTurnId, text, 'k');
      const ack = await steer('hear me');
      expect(await Promise.all([steer('hear me'), steer('hear me', bench.other)])).toEqual([ack, ack]);
      await expect(steer('something else')).rejects.toMatchObject({ code: 'idempotency_conflict' });
      expect(await steersAt(lease, 1)).toHaveLength(1);
      await bench.ended(lease);
      expect(await steer('hear me')).toEqual(ack);
      const next = await bench.leased(lease.agentId);
      await bench.ended(next);
      expect(await bench.tasksOf(lease.agentId)).toHaveLength(2);
    });

    test('a steer the committed attempt did not see is shown again at the next step (T22)', async () => {
      const lease = await bench.started(newAgent());
      await steersAt(lease, 1);
      await bench.store.steerTurn(lease.agentTurnId, 'late');
      const second = await steersAt(lease, 1);
      expect(second).toHaveLength(1);
      expect((await bench.committed(lease, 1)).steers).toEqual([]);
      expect(await steersAt(lease, 2)).toEqual(second);
    });

    test('a steer shown by a step that is never committed is shown by the next one, and is in the box once (T22)', async () => {
      const lease = await bench.started(newAgent());
      await bench.store.steerTurn(lease.agentTurnId, 'hear me');
      const steers = await steersAt(lease, 1);
      expect(await steersAt(lease, 2)).toEqual(steers);
      await bench.committed(lease, 2, { steerIds: steers.map((card) => card.cardId) });
      expect(await textsIn(lease.outputBoxId)).toEqual(['do it', 'hear me', 'x']);
      const { ended: end, handover } = await bench.store.commitTurn(fenceOf(lease), SUCCESS);
      expect(handover).toEqual(nothing(lease.agentId));
      expect((await textsIn(end.outputBoxId)).filter((text) => text === 'hear me')).toHaveLength(1);
    });

    test.each(['ends', 'is ended over its head'])(
      'a steer shown by a step that is never committed is the next turn when its turn %s, and in the box once (T22)',
      async (how) => {
        const lease = await bench.started(newAgent());
        await bench.store.steerTurn(lease.agentTurnId, 'hear me');
        expect(await steersAt(lease, 1)).toHaveLength(1);
        if (how === 'ends') await bench.store.commitTurn(fenceOf(lease), SUCCESS);
        else await bench.reaped(lease);
        const next = await bench.leased(lease.agentId);
        expect(await bench.store.getTurn(next.agentTurnId)).toMatchObject({ instruction: 'hear me' });
        expect((await textsIn(next.outputBoxId)).filter((text) => text === 'hear me')).toHaveLength(1);
        expect(next.instructionSeq).toBeGreaterThan(next.earlier.at(-1)?.toSeq ?? 0);
        expect(await bench.store.violations()).toEqual([]);
      },
    );

    test('what a turn never showed becomes the next turns, in order, before the queue (T22)', async () => {
      const agentId = newAgent();
      const lease = await bench.started(agentId);
      const queued = await bench.accepted(agentId, { priority: 'now' });
      for (const text of ['one', 'two']) await bench.store.steerTurn(lease.agentTurnId, text);
      await bench.store.commitTurn(fenceOf(lease), SUCCESS);
      expect(await bench.store.steerTurn(lease.agentTurnId, 'three')).toEqual({ ack: 'stale', agentId });
      const order: string[] = [];
      for (let i = 0; i < 3; i += 1) {
        const next = await bench.leased(agentId);
        order.push((await bench.store.getTurn(next.agentTurnId))?.instruction ?? '');
        await bench.store.commitTurn(fenceOf(next), SUCCESS);
      }
      expect(order).toEqual(['one', 'two', 'do it']);
      expect((await bench.store.getTurn(queued))?.status).toBe('success');
    });

    test('a stop takes the messages that its turn had not read with it, and says how many and which (T21, T22)', async () => {
      const agentId = newAgent();
      const lease = await bench.started(agentId);
      const queued = await bench.accepted(agentId);
      for (const text of ['one', 'two']) await bench.store.steerTurn(lease.agentTurnId, text);
      await bench.store.steerTurn(queued, 'three');
      expect(await bench.store.stopTurn(queued, 'enough')).toMatchObject({ ack: 'canceled', droppedSteers: 1 });
      const stopped = await bench.store.stopTurn(lease.agentTurnId, 'enough');
      expect(stopped).toMatchObject({ ack: 'stopped', droppedSteers: 2 });
      const again = await bench.store.stopTurn(lease.agentTurnId, 'enough');
      expect(again).toEqual({ ack: 'already_ended', agentId, handover: null });
      expect(await bench.store.getAgent(agentId)).toMatchObject({ status: 'idle', queuedTurns: 0 });
      const dropped = (await bench.eventsOf(agentId)).filter(({ type }) => type === 'dropped');
      expect(dropped.map(({ agentTurnId, payload }) => [agentTurnId, payload])).toEqual(
        [
          [queued, 'three'],
          [lease.agentTurnId, 'one'],
          [lease.agentTurnId, 'two'],
        ].map(([turn, text]) => [turn, { what: 'steer', reason: `the turn was stopped before it read "${text}"` }]),
      );
      expect(await bench.store.violations()).toEqual([]);
    });

    /** A message comes in while the model submits its result. */
    const submitting = async (commit: Partial<StepCommit> = {}) => {
      const lease = await bench.started(newAgent());
      await bench.store.openStep(fenceOf(lease), { stepIndex: 1, profileHash: lease.profileHash });
      await bench.store.steerTurn(lease.agentTurnId, 'wait');
      const callId = callIdOf(lease.agentTurnId, 1, 0);
      const accepted = result(callId, { tool: 'submit_result', afterExecution: 'terminate' });
      const content = { callId, tool: 'submit_result', arguments: {} };
      const step = { ...commit, calls: [{ index: 0, content, digest: 'd', result: accepted }] };
      return { lease, settled: (await bench.committed(lease, 1, step)).calls[0]?.settled };
    };

    test('submit_result waits for messages that were not read yet (W12)', async () => {
      expect((await submitting()).settled).toMatchObject({
        status: 'failed',
        errorCode: 'inbox_not_empty',
        afterExecution: 'continue',
      });
    });

    test('a final report waits for no message, which is the next turn then (K9, T22)', async () => {
      const { lease, settled } = await submitting({ note: { type: 'sys.final_report', text: 'report now' } });
      expect(settled).toMatchObject({ status: 'success', afterExecution: 'terminate' });
      await bench.store.commitTurn(fenceOf(lease), SUCCESS);
      const next = await bench.leased(lease.agentId);
      expect(await bench.store.getTurn(next.agentTurnId)).toMatchObject({ instruction: 'wait' });
    });
  });
}
