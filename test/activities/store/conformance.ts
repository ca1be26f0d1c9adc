/** What every store must do, whatever its backend. Each backend's test file calls this with a way to open an empty store. */
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { v7 } from 'uuid';
import { callId as callIdOf } from '../../../activities/store/ids.ts';
import type { ToolResultContent } from '../../../workflows/protocol/cards.ts';
import { type EnqueueInput, enqueueRequestSchema } from '../../../workflows/protocol/enqueue.ts';
import type { AgentEvent } from '../../../workflows/protocol/events.ts';
import type { Lease, StepCommit, Store, TurnCommit } from '../../../workflows/protocol/store.ts';
import type { Fence } from '../../../workflows/protocol/turn.ts';
import { testApp } from '../../support/app.ts';

/** Opens the same empty store for each call: two handles are two processes. */
export type OpenStore = (now: () => number) => Promise<Store>;

const SUCCESS: TurnCommit = { termination: { status: 'success' }, deliverable: { from: 'fallback' }, engine: null };

export function describeStore(name: string, makeOpener: () => OpenStore): void {
  describe(`store on ${name}`, () => {
    let clock = 1_000_000;
    let store: Store;
    let other: Store;

    beforeAll(async () => {
      const open = makeOpener();
      store = await open(() => clock);
      other = await open(() => clock);
      await store.registerProfiles([...testApp([]).agents.values()]);
    });
    afterAll(async () => {
      await store?.close();
      await other?.close();
    });

    const newAgent = (): string => `agent-${v7()}`;
    const accept = (agentId: string, input: Partial<EnqueueInput> = {}, on: Store = store) =>
      on.accept({
        agentId,
        request: enqueueRequestSchema.parse({ instruction: 'do it', profile: 'tester', ...input }),
      });
    const accepted = async (agentId: string, input: Partial<EnqueueInput> = {}): Promise<string> => {
      const outcome = await accept(agentId, input);
      if (outcome.kind !== 'accepted') throw new Error(outcome.message);
      return outcome.agentTurnId;
    };
    const leased = async (agentId: string): Promise<Lease> => {
      const outcome = await store.leaseNext(agentId);
      if (outcome.kind !== 'leased') throw new Error(`expected a lease, got ${outcome.kind}`);
      return outcome.lease;
    };
    const started = async (agentId: string, input: Partial<EnqueueInput> = {}): Promise<Lease> => {
      await accepted(agentId, input);
      return leased(agentId);
    };
    const fenceOf = ({ agentId, agentTurnId, turnEpoch }: Lease): Fence => ({ agentId, agentTurnId, turnEpoch });
    const think = async (lease: Lease, stepIndex: number, tools: readonly string[] = []) => {
      await store.openStep(fenceOf(lease), stepIndex, lease.profileHash);
      return store.commitStep(fenceOf(lease), {
        stepIndex,
        steerSeqs: [],
        note: null,
        thought: { text: `thought ${stepIndex}`, toolCalls: [] },
        calls: tools.map((tool, index) => ({
          index,
          content: { callId: callIdOf(lease.agentTurnId, stepIndex, index), tool, arguments: {} },
        })),
        usage: { input: 10, output: 2, cached: 0 },
        model: 'm',
        finishReason: 'stop',
        cost: 0.5,
        latencyMs: 1,
        firstTokenMs: 1,
      });
    };
    const result = (callId: string, more: Partial<ToolResultContent> = {}): ToolResultContent => ({
      callId,
      tool: 't',
      status: 'success',
      afterExecution: 'continue',
      result: 1,
      ...more,
    });
    const eventsOf = (agentId: string): Promise<readonly AgentEvent[]> => store.readEvents({ agentId });
    const tasksOf = async (agentId: string) => (await eventsOf(agentId)).filter((event) => event.type === 'task');

    describe('accepting', () => {
      test('the same idempotency key gives the same turn, also from another process and after the turn ended (T2)', async () => {
        const agentId = newAgent();
        const first = await accept(agentId, { idempotencyKey: 'k' });
        const again = await accept(agentId, { idempotencyKey: 'k' }, other);
        expect(first).toMatchObject({ kind: 'accepted', duplicate: false, position: 0 });
        expect(again).toMatchObject({
          kind: 'accepted',
          duplicate: true,
          agentTurnId: first.kind === 'accepted' ? first.agentTurnId : '',
        });
        const lease = await leased(agentId);
        await store.commitTurn(fenceOf(lease), SUCCESS);
        expect(await accept(agentId, { idempotencyKey: 'k' })).toMatchObject({ duplicate: true, status: 'success' });
        expect(await store.leaseNext(agentId)).toEqual({ kind: 'empty' });
        expect(await accept(newAgent(), { idempotencyKey: 'k' })).toMatchObject({ duplicate: false });
      });

      test('the same key with another request is refused as a conflict (T2)', async () => {
        const agentId = newAgent();
        await accept(agentId, { idempotencyKey: 'k' });
        const outcome = await accept(agentId, { idempotencyKey: 'k', instruction: 'something else' });
        expect(outcome).toMatchObject({ kind: 'refused', code: 'idempotency_conflict' });
      });

      test('two processes accepting at once lose nothing and number the turns 1..n (T1, T9)', async () => {
        const agentId = newAgent();
        await Promise.all(Array.from({ length: 40 }, (_, i) => accept(agentId, {}, i % 2 ? store : other)));
        const turns = await store.listTurns(agentId);
        expect(turns.map((turn) => turn.acceptSeq)).toEqual(Array.from({ length: 40 }, (_, i) => i + 1));
      });

      test('a full inbox refuses and keeps what it has (T10)', async () => {
        const agentId = newAgent();
        for (let i = 0; i < 1_000; i += 1) await accept(agentId);
        expect(await accept(agentId)).toMatchObject({ kind: 'refused', code: 'inbox_full' });
        expect((await store.listAgents()).find((agent) => agent.agentId === agentId)?.queuedTurns).toBe(1_000);
      });

      test('an instruction card that does not exist is refused by name', async () => {
        const outcome = await accept(newAgent(), {
          instruction: undefined,
          instructionCardId: v7(),
        } as Partial<EnqueueInput>);
        expect(outcome).toMatchObject({ kind: 'refused', code: 'invalid_request' });
      });
    });

    describe('leasing', () => {
      test('leases in lane order, then in accept order, with a rising epoch (T2, T9)', async () => {
        const agentId = newAgent();
        const background = await accepted(agentId, { priority: 'background' });
        const normal = await accepted(agentId);
        const later = await accepted(agentId);
        const now = await accepted(agentId, { priority: 'now' });
        const order: string[] = [];
        for (let epoch = 1; epoch <= 4; epoch += 1) {
          const lease = await leased(agentId);
          expect(lease.turnEpoch).toBe(epoch);
          order.push(lease.agentTurnId);
          await store.commitTurn(fenceOf(lease), SUCCESS);
        }
        expect(order).toEqual([now, normal, later, background]);
      });

      test('a second run gets the same lease, and a started turn is reported as held (T1, T29)', async () => {
        const agentId = newAgent();
        const lease = await started(agentId);
        await accepted(agentId);
        expect(await leased(agentId)).toEqual(lease);
        await store.openStep(fenceOf(lease), 1, lease.profileHash);
        expect(await store.leaseNext(agentId)).toEqual({ kind: 'held', fence: fenceOf(lease) });
      });

      test('a dispatch that is too slow is ended only while it is dispatched, and once (T12)', async () => {
        const timeout = { status: 'timeout', errorCode: 'dispatch_timeout' } as const;
        const expire = (lease: Lease) => store.expireTurn(fenceOf(lease), 'dispatched', timeout);
        const running = await started(newAgent());
        await store.openStep(fenceOf(running), 1, running.profileHash);
        expect(await expire(running)).toBe(false);
        expect(await store.getTurn(running.agentTurnId)).toMatchObject({ status: 'running' });
        const agentId = newAgent();
        const late = await started(agentId);
        expect([await expire(late), await expire(late)]).toEqual([true, false]);
        expect(await store.getTurn(late.agentTurnId)).toMatchObject(timeout);
        expect(await tasksOf(agentId)).toHaveLength(1);
      });

      test('a turn of an unknown profile ends with its own task event and does not block the next (T8)', async () => {
        const agentId = newAgent();
        const poisoned = await accepted(agentId, { profile: 'nobody' });
        const healthy = await accepted(agentId);
        expect((await leased(agentId)).agentTurnId).toBe(healthy);
        const view = await store.getTurn(poisoned);
        expect(view).toMatchObject({ status: 'failed', errorCode: 'profile_not_found', turnEpoch: 1 });
        expect(view?.deliverable?.fallback?.reason).toContain('nobody');
        expect(await tasksOf(agentId)).toHaveLength(1);
      });

      test('a missing context box ends the turn box_unavailable (T25)', async () => {
        const agentId = newAgent();
        const turn = await accepted(agentId, { contextBoxId: v7() });
        expect(await store.leaseNext(agentId)).toEqual({ kind: 'empty' });
        expect(await store.getTurn(turn)).toMatchObject({ status: 'failed', errorCode: 'box_unavailable' });
      });

      test('the instruction joins the output box at lease; memory comes first, then the context, the instruction last (T24)', async () => {
        const agentId = newAgent();
        const first = await started(agentId, { instruction: 'first' });
        await think(first, 1);
        await store.commitTurn(fenceOf(first), SUCCESS);
        const contextBoxId = await store.writeContextBox(['context']);
        const second = await started(agentId, { instruction: 'second', contextBoxId });
        const own = { boxId: second.outputBoxId, fromSeq: second.instructionSeq, toSeq: second.instructionSeq };
        const cards = await store.readExtents([...second.memory, own]);
        const texts = cards.flatMap((card) => ('text' in card.content ? [card.content.text] : [card.type]));
        expect(texts).toEqual(['first', 'thought 1', 'task.deliverable', 'context', 'second']);
      });

      test('an instruction card that is in the memory already is read once, as the newest (T24)', async () => {
        const agentId = newAgent();
        const instructionCardId = await store.writeInstructionCard(`again ${agentId}`);
        const request = { instruction: undefined, instructionCardId } as Partial<EnqueueInput>;
        await store.commitTurn(fenceOf(await started(agentId, request)), SUCCESS);
        const { memory, outputBoxId, instructionSeq } = await started(agentId, request);
        const own = { boxId: outputBoxId, fromSeq: instructionSeq, toSeq: instructionSeq };
        const cards = await store.readExtents([...memory, own]);
        expect(cards.map(({ type }) => type)).toEqual(['task.deliverable', 'task.instruction']);
      });
    });

    describe('fencing', () => {
      test('every write of a turn that lost its lease is stale_epoch and writes nothing (T5)', async () => {
        const agentId = newAgent();
        const lease = await started(agentId);
        const { calls } = await think(lease, 1, ['t']);
        const callId = calls[0]?.callId ?? '';
        const fence = fenceOf(lease);
        await store.settle({ ...fence, closed: { status: 'failed', errorCode: 'terminated' } });
        const before = { events: await eventsOf(agentId), box: await store.readBox(lease.outputBoxId) };
        const stale = { code: 'stale_epoch' };
        await expect(store.openStep(fence, 2, lease.profileHash)).rejects.toMatchObject(stale);
        await expect(think(lease, 2)).rejects.toMatchObject(stale);
        await expect(store.claimCall(fence, { callId, attempt: 1, repeatable: true })).rejects.toMatchObject(stale);
        await expect(
          store.settleCall(fence, { callId, attempt: 1, content: result(callId), durationMs: 1 }),
        ).rejects.toMatchObject(stale);
        await expect(store.suspendCall(fence, callId, clock + 1)).rejects.toMatchObject(stale);
        await expect(store.resolveWaiting(fence, [callId], clock)).rejects.toMatchObject(stale);
        expect({ events: await eventsOf(agentId), box: await store.readBox(lease.outputBoxId) }).toEqual(before);
      });

      test('a turn cannot write under another epoch or another turn of its agent (T5)', async () => {
        const agentId = newAgent();
        const lease = await started(agentId);
        const fence = fenceOf(lease);
        for (const wrong of [
          { ...fence, turnEpoch: 2 },
          { ...fence, agentTurnId: v7() },
          { ...fence, agentId: newAgent() },
        ]) {
          await expect(store.openStep(wrong, 1, lease.profileHash)).rejects.toMatchObject({ code: 'stale_epoch' });
        }
      });
    });

    describe('steps and calls', () => {
      test('a step that is stored is returned, not written again (T29)', async () => {
        const agentId = newAgent();
        const lease = await started(agentId);
        const first = await think(lease, 1, ['t']);
        const boxed = await store.readBox(lease.outputBoxId);
        expect(await think(lease, 1, ['t'])).toEqual(first);
        expect((await store.openStep(fenceOf(lease), 1, lease.profileHash)).recorded).toEqual(first);
        expect(await store.readBox(lease.outputBoxId)).toEqual(boxed);
        expect(await store.getTurn(lease.agentTurnId)).toMatchObject({
          usage: { input: 10, output: 2, cached: 0 },
          cost: 0.5,
        });
      });

      test('the first result of a call wins, the second attempt adopts it (T5, T14)', async () => {
        const lease = await started(newAgent());
        const { calls } = await think(lease, 1, ['t']);
        const callId = calls[0]?.callId ?? '';
        const fence = fenceOf(lease);
        expect(await store.claimCall(fence, { callId, attempt: 1, repeatable: true })).toMatchObject({ kind: 'go' });
        expect(await store.claimCall(fence, { callId, attempt: 2, repeatable: true })).toMatchObject({ kind: 'go' });
        const won = await store.settleCall(fence, {
          callId,
          attempt: 2,
          content: result(callId, { result: 'second' }),
          durationMs: 1,
        });
        const late = await store.settleCall(fence, {
          callId,
          attempt: 1,
          content: result(callId, { result: 'first' }),
          durationMs: 1,
        });
        expect(late).toEqual(won);
        const settled = (await eventsOf(lease.agentId)).filter(({ type }) => type === 'call');
        expect(settled).toHaveLength(1);
        const box = await store.readBox(lease.outputBoxId);
        const results = box.flatMap(({ card }) => (card.type === 'tool.result' ? [card.content.result] : []));
        expect(results).toEqual(['second']);
        expect(await store.claimCall(fence, { callId, attempt: 3, repeatable: true })).toMatchObject({
          kind: 'settled',
        });
      });

      test('an unsafe call with a claim and no result is outcome_unknown, never run again (W10)', async () => {
        const lease = await started(newAgent());
        const { calls } = await think(lease, 1, ['t']);
        const callId = calls[0]?.callId ?? '';
        await store.claimCall(fenceOf(lease), { callId, attempt: 1, repeatable: false });
        const second = await store.claimCall(fenceOf(lease), { callId, attempt: 2, repeatable: false });
        expect(second).toMatchObject({ kind: 'settled', settled: { status: 'failed', errorCode: 'outcome_unknown' } });
      });

      test('an oversized result becomes a failed one that says so (T4)', async () => {
        const lease = await started(newAgent());
        const { calls } = await think(lease, 1, ['t']);
        const callId = calls[0]?.callId ?? '';
        const content = result(callId, { result: 'x'.repeat(2 * 1024 * 1024) });
        const settled = await store.settleCall(fenceOf(lease), { callId, attempt: 1, content, durationMs: 1 });
        expect(settled).toMatchObject({ status: 'failed', errorCode: 'result_too_large' });
      });
    });

    describe('waiting', () => {
      const suspended = async (tools: readonly string[], timeoutMs = 1_000) => {
        const agentId = newAgent();
        const lease = await started(agentId);
        const { calls } = await think(lease, 1, tools);
        const ids = calls.map((call) => call.callId);
        for (const callId of ids) await store.suspendCall(fenceOf(lease), callId, clock + timeoutMs);
        return { agentId, lease, ids, fence: fenceOf(lease), turn: lease.agentTurnId };
      };
      const head = async (agentId: string) => (await store.listAgents()).find((agent) => agent.agentId === agentId);

      test('the head tells count and nearest deadline while calls wait, and runs again after the last result (T13)', async () => {
        const { agentId, ids, turn } = await suspended(['a', 'b']);
        expect(await head(agentId)).toMatchObject({
          status: 'suspended',
          waitingToolCount: 2,
          resumeDeadline: clock + 1_000,
        });
        expect(await store.reportResult(turn, { callId: ids[0] ?? '', status: 'success', result: 1 })).toMatchObject({
          ack: 'applied',
        });
        expect(await head(agentId)).toMatchObject({ status: 'suspended', waitingToolCount: 1 });
        await other.reportResult(turn, { callId: ids[1] ?? '', status: 'failed' });
        expect(await head(agentId)).toMatchObject({ status: 'running', waitingToolCount: 0, resumeDeadline: null });
      });

      test('answers duplicate, stale and unknown, each with one event and no second card (T14)', async () => {
        const { agentId, ids, turn, lease, fence } = await suspended(['a']);
        const callId = ids[0] ?? '';
        const ack = async (id: string, call: string, turnEpoch?: number) =>
          (
            await store.reportResult(id, {
              callId: call,
              status: 'success',
              result: 1,
              ...(turnEpoch ? { turnEpoch } : {}),
            })
          ).ack;
        expect(await ack(turn, callId, lease.turnEpoch + 1)).toBe('stale');
        expect(await ack(turn, v7())).toBe('unknown');
        expect(await ack(v7(), callId)).toBe('unknown');
        expect(await ack(turn, callId)).toBe('applied');
        expect(await ack(turn, callId)).toBe('duplicate');
        await store.commitTurn(fence, SUCCESS);
        expect(await ack(turn, v7())).toBe('stale');
        const box = await store.readBox(lease.outputBoxId);
        expect(box.filter(({ card }) => card.type === 'tool.result')).toHaveLength(1);
        const drops = (await eventsOf(agentId)).flatMap((event) =>
          event.type === 'call' && event.payload.phase === 'dropped' ? [event.payload.reason] : [],
        );
        expect(drops).toEqual(['stale', 'unknown', 'duplicate', 'stale']);
      });

      test('a result that comes before its call suspended is buffered and found by it (T14)', async () => {
        const lease = await started(newAgent());
        const { calls } = await think(lease, 1, ['a']);
        const callId = calls[0]?.callId ?? '';
        const report = await store.reportResult(lease.agentTurnId, { callId, status: 'success', result: 'early' });
        expect(report.ack).toBe('buffered');
        const outcome = await store.suspendCall(fenceOf(lease), callId, clock + 1_000);
        expect(outcome).toMatchObject({ kind: 'settled', settled: { status: 'success' } });
      });

      test('a heartbeat moves the deadline of its own call by its whole time, and nothing else (T16)', async () => {
        const { agentId, ids, turn, lease } = await suspended(['a', 'b']);
        const [beating = '', silent = ''] = ids;
        const started_ = clock;
        const box = await store.readBox(lease.outputBoxId);
        clock += 400;
        for (let beat = 0; beat < 2; beat += 1) {
          expect((await store.reportResult(turn, { callId: beating, status: 'running' })).ack).toBe('applied');
        }
        const deadlines = (await store.getTurn(turn))?.waiting.map(({ callId, deadline }) => [callId, deadline]);
        expect(new Map(deadlines as [string, number][])).toEqual(
          new Map([
            [beating, started_ + 1_400],
            [silent, started_ + 1_000],
          ]),
        );
        expect(await head(agentId)).toMatchObject({ waitingToolCount: 2, resumeDeadline: started_ + 1_000 });
        expect(await store.readBox(lease.outputBoxId)).toEqual(box);
        expect((await eventsOf(agentId)).filter(({ type }) => type === 'call')).toHaveLength(2);
      });

      test('only overdue calls get a timeout result; a late answer is a duplicate (T17)', async () => {
        const { ids, fence, turn } = await suspended(['a', 'b']);
        const [first = '', second = ''] = ids;
        await store.reportResult(turn, { callId: second, status: 'running' });
        clock += 500;
        await store.reportResult(turn, { callId: second, status: 'running' });
        clock += 600;
        const state = await store.resolveWaiting(fence, ids, clock);
        expect(state.settled).toMatchObject([{ callId: first, status: 'timeout', errorCode: 'tool_timeout' }]);
        expect(state.waiting.map((call) => call.callId)).toEqual([second]);
        expect(await store.resolveWaiting(fence, ids, clock)).toEqual(state);
        expect((await store.reportResult(turn, { callId: first, status: 'success', result: 1 })).ack).toBe('duplicate');
      });

      test('an answer whose signal was lost is found at the deadline instead of a timeout (T17)', async () => {
        const { ids, fence, turn } = await suspended(['a']);
        await store.reportResult(turn, { callId: ids[0] ?? '', status: 'success', result: 1 });
        clock += 5_000;
        expect((await store.resolveWaiting(fence, ids, clock)).settled).toMatchObject([{ status: 'success' }]);
      });
    });

    describe('ending', () => {
      test('commit writes the deliverable into the output box, then one task event; a second run adds nothing (T2, T6, T29)', async () => {
        const agentId = newAgent();
        const lease = await started(agentId);
        const { thoughtCardId } = await think(lease, 1);
        const end = await store.commitTurn(fenceOf(lease), {
          ...SUCCESS,
          deliverable: { from: 'thought', cardId: thoughtCardId },
        });
        expect(await store.commitTurn(fenceOf(lease), SUCCESS)).toEqual(end);
        const box = await store.readBox(end.outputBoxId);
        expect(box.at(-1)?.card).toMatchObject({
          cardId: end.deliverableCardId,
          type: 'task.deliverable',
          content: { text: 'thought 1' },
        });
        const tasks = await tasksOf(agentId);
        expect(tasks.map((event) => event.payload)).toEqual([
          {
            status: 'success',
            errorCode: null,
            deliverableCardId: end.deliverableCardId,
            outputBoxId: end.outputBoxId,
          },
        ]);
        expect((await store.listAgents()).find((agent) => agent.agentId === agentId)).toMatchObject({
          status: 'idle',
          activeAgentTurnId: null,
        });
      });

      test('settle reaps a turn that did not commit: epoch up, fallback of its own, next turn leased (T7)', async () => {
        const agentId = newAgent();
        const first = await started(agentId);
        await think(first, 1);
        await store.commitTurn(fenceOf(first), SUCCESS);
        const lease = await started(agentId);
        const waiting = await accepted(agentId);
        const closed = { status: 'failed', errorCode: 'terminated', reason: 'gone' } as const;
        const outcome = await store.settle({ ...fenceOf(lease), closed });
        expect(outcome.ended).toMatchObject({ status: 'failed', errorCode: 'terminated' });
        expect(outcome.next).toMatchObject({
          kind: 'leased',
          lease: { agentTurnId: waiting, turnEpoch: lease.turnEpoch + 2 },
        });
        // No thought of its own: the older turn's must not stand in for it.
        const view = await store.getTurn(lease.agentTurnId);
        expect(view?.deliverable).toEqual({ fallback: { reason: 'gone', toolResults: 0 } });
        expect((await store.settle({ ...fenceOf(lease), closed })).ended).toEqual(outcome.ended);
        expect(await tasksOf(agentId)).toHaveLength(2);
      });

      test('settle leaves a committed end as it is (T6)', async () => {
        const agentId = newAgent();
        const lease = await started(agentId);
        await store.commitTurn(fenceOf(lease), SUCCESS);
        const outcome = await store.settle({
          ...fenceOf(lease),
          closed: { status: 'failed', errorCode: 'terminated' },
        });
        expect(outcome).toMatchObject({ ended: { status: 'success' }, next: { kind: 'empty' } });
      });

      test('event numbers rise by one per agent (W, Events)', async () => {
        const agentId = newAgent();
        const lease = await started(agentId);
        await think(lease, 1, ['t']);
        await store.commitTurn(fenceOf(lease), SUCCESS);
        const seqs = (await eventsOf(agentId)).map((event) => event.seq);
        expect(seqs).toEqual(seqs.map((_, index) => index + 1));
      });
    });

    describe('stopping and steering', () => {
      const stepWith = async (lease: Lease, stepIndex: number, commit: Partial<StepCommit> = {}) =>
        store.commitStep(fenceOf(lease), {
          stepIndex,
          steerSeqs: [],
          note: null,
          thought: { text: 'x', toolCalls: [] },
          calls: [],
          usage: { input: 1, output: 1, cached: 0 },
          model: 'm',
          finishReason: 'stop',
          cost: null,
          latencyMs: 1,
          firstTokenMs: null,
          ...commit,
        });

      test('stop ends an active turn at once: open calls canceled, epoch up, one task event, late results stale (T21)', async () => {
        const agentId = newAgent();
        const lease = await started(agentId);
        const { calls } = await think(lease, 1, ['a', 'b']);
        const [open = '', waiting = ''] = calls.map((call) => call.callId);
        await store.suspendCall(fenceOf(lease), waiting, clock + 1_000);
        expect(await store.stopTurn(lease.agentTurnId, 'enough')).toEqual({ ack: 'stopped', agentId });
        expect(await store.stopTurn(lease.agentTurnId, 'again')).toEqual({ ack: 'already_ended', agentId });
        const view = await store.getTurn(lease.agentTurnId);
        expect(view).toMatchObject({
          status: 'failed',
          errorCode: 'stopped',
          deliverable: { fallback: { reason: 'enough' } },
        });
        expect(view?.steps[0]?.calls.map((call) => call.status)).toEqual(['canceled', 'canceled']);
        for (const callId of [open, waiting]) {
          expect((await store.reportResult(lease.agentTurnId, { callId, status: 'success', result: 1 })).ack).toBe(
            'stale',
          );
        }
        expect(await tasksOf(agentId)).toHaveLength(1);
        expect(await store.commitTurn(fenceOf(lease), SUCCESS)).toMatchObject({
          status: 'failed',
          errorCode: 'stopped',
        });
        expect((await started(agentId)).turnEpoch).toBe(lease.turnEpoch + 2);
        expect(await store.violations()).toEqual([]);
      });

      test('stop cancels a queued turn without touching the active one (T8)', async () => {
        const agentId = newAgent();
        const lease = await started(agentId);
        const queued = await accepted(agentId);
        expect((await store.stopTurn(queued, 'not needed')).ack).toBe('canceled');
        expect(await store.getTurn(queued)).toMatchObject({ status: 'canceled', errorCode: 'canceled' });
        expect(await store.openStep(fenceOf(lease), 1, lease.profileHash)).toBeDefined();
        expect(await tasksOf(agentId)).toHaveLength(1);
        expect(await store.stopTurn(v7(), '')).toEqual({ ack: 'unknown' });
      });

      test('a stopped agent refuses requests and leases nothing; what was queued runs after start (T10)', async () => {
        const agentId = newAgent();
        const lease = await started(agentId);
        const queued = await accepted(agentId);
        expect(await store.setLifecycle(agentId, 'stopped', 'holiday')).toEqual({ stoppedTurnId: lease.agentTurnId });
        expect(await store.setLifecycle(agentId, 'stopped', 'holiday')).toEqual({ stoppedTurnId: null });
        expect(await accept(agentId)).toMatchObject({ kind: 'refused', code: 'agent_stopped' });
        expect(await store.leaseNext(agentId)).toEqual({ kind: 'empty' });
        await store.setLifecycle(agentId, 'started', '');
        expect((await leased(agentId)).agentTurnId).toBe(queued);
      });

      test('a UI action is taken only by an idle agent with an empty inbox (T11)', async () => {
        const agentId = newAgent();
        expect(await accept(agentId, { uiAction: true })).toMatchObject({ kind: 'accepted' });
        expect(await accept(agentId, { uiAction: true })).toMatchObject({ kind: 'refused', code: 'agent_busy' });
        await leased(agentId);
        expect(await accept(agentId, { uiAction: true })).toMatchObject({ kind: 'refused', code: 'agent_busy' });
      });

      test('steers are shown at the next step, in order, to every attempt of it (T22)', async () => {
        const agentId = newAgent();
        const lease = await started(agentId);
        for (const text of ['one', 'two']) await store.steerTurn(lease.agentTurnId, text);
        const opening = await store.openStep(fenceOf(lease), 1, lease.profileHash);
        expect(await store.openStep(fenceOf(lease), 1, lease.profileHash)).toEqual(opening);
        const cards = await store.readExtents(opening.steers);
        expect(cards.map((card) => card.content)).toEqual([{ text: 'one' }, { text: 'two' }]);
        const outcome = await stepWith(lease, 1, { steerSeqs: opening.steers.map((extent) => extent.fromSeq) });
        expect(outcome.steers.map((steer) => steer.seq)).toEqual(opening.steers.map((extent) => extent.fromSeq));
        expect((await store.openStep(fenceOf(lease), 2, lease.profileHash)).steers).toEqual([]);
      });

      test('a steer the committed attempt did not see is shown again at the next step (T22)', async () => {
        const lease = await started(newAgent());
        await store.openStep(fenceOf(lease), 1, lease.profileHash);
        await store.steerTurn(lease.agentTurnId, 'late');
        const second = await store.openStep(fenceOf(lease), 1, lease.profileHash);
        expect(second.steers).toHaveLength(1);
        expect((await stepWith(lease, 1)).steers).toEqual([]);
        expect((await store.openStep(fenceOf(lease), 2, lease.profileHash)).steers).toEqual(second.steers);
      });

      test('what a turn never showed becomes the next turns, in order, before the queue (T22)', async () => {
        const agentId = newAgent();
        const lease = await started(agentId);
        const queued = await accepted(agentId, { priority: 'now' });
        for (const text of ['one', 'two']) await store.steerTurn(lease.agentTurnId, text);
        await store.commitTurn(fenceOf(lease), SUCCESS);
        expect(await store.steerTurn(lease.agentTurnId, 'three')).toEqual({ ack: 'stale', agentId });
        const order: string[] = [];
        for (let i = 0; i < 3; i += 1) {
          const next = await leased(agentId);
          order.push((await store.getTurn(next.agentTurnId))?.instruction ?? '');
          await store.commitTurn(fenceOf(next), SUCCESS);
        }
        expect(order).toEqual(['one', 'two', 'do it']);
        expect((await store.getTurn(queued))?.status).toBe('success');
      });

      test('submit_result waits for messages that were not read yet (W12)', async () => {
        const lease = await started(newAgent());
        await store.openStep(fenceOf(lease), 1, lease.profileHash);
        await store.steerTurn(lease.agentTurnId, 'wait');
        const callId = callIdOf(lease.agentTurnId, 1, 0);
        const accepted_ = result(callId, { tool: 'submit_result', afterExecution: 'terminate' });
        const content = { callId, tool: 'submit_result', arguments: {} };
        const { calls } = await stepWith(lease, 1, { calls: [{ index: 0, content, result: accepted_ }] });
        expect(calls[0]?.settled).toMatchObject({
          status: 'failed',
          errorCode: 'inbox_not_empty',
          afterExecution: 'continue',
        });
      });
    });

    describe('looking', () => {
      const edgesOf = async (agentTurnId: string) =>
        (await store.listEdges(agentTurnId)).map(({ primitive, phase, kind, callId, sourceStepIndex }) =>
          [primitive, phase, kind, callId, sourceStepIndex].join(' '),
        );

      test('edges tell the calls of a turn in their order, what was reported for which, and how it ended (T26)', async () => {
        const agentId = newAgent();
        const lease = await started(agentId, { correlationId: 'order-7' });
        const turn = lease.agentTurnId;
        const first = (await think(lease, 1, ['b', 'a'])).calls.map((call) => call.callId);
        const [answered = '', overdue = ''] = first;
        await store.suspendCall(fenceOf(lease), answered, clock + 1_000);
        await store.suspendCall(fenceOf(lease), overdue, clock + 1_000);
        expect(await edgesOf(turn)).toEqual([
          'enqueue request   ',
          `tool_call request b ${answered} 1`,
          `tool_call request a ${overdue} 1`,
        ]);
        await store.reportResult(turn, { callId: answered, status: 'success', result: 1 });
        clock += 1_001;
        await store.resolveWaiting(fenceOf(lease), first, clock);
        clock += 1;
        const [last = ''] = (await think(lease, 2, ['c'])).calls.map((call) => call.callId);
        const settled = { callId: last, attempt: 1, content: result(last), durationMs: 1 };
        await store.settleCall(fenceOf(lease), settled);
        await store.commitTurn(fenceOf(lease), SUCCESS);
        expect(await edgesOf(turn)).toEqual([
          'enqueue request   ',
          `tool_call request b ${answered} 1`,
          `tool_call request a ${overdue} 1`,
          `report response tool_result ${answered} `,
          `report response timeout ${overdue} `,
          `tool_call request c ${last} 2`,
          `report response tool_result ${last} `,
          'report response success  ',
        ]);
        const [enqueued, call, , report] = await other.listEdges(turn);
        expect(enqueued).toEqual({
          primitive: 'enqueue',
          phase: 'request',
          kind: null,
          sourceAgentId: null,
          sourceAgentTurnId: null,
          sourceStepIndex: null,
          targetAgentId: agentId,
          targetAgentTurnId: turn,
          callId: null,
          correlationId: 'order-7',
          depth: 0,
          traceId: null,
          createdAt: clock - 1_002,
        });
        expect(call).toMatchObject({ sourceAgentId: agentId, sourceAgentTurnId: turn, createdAt: clock - 1_002 });
        expect(report).toMatchObject({ targetAgentId: agentId, targetAgentTurnId: turn });
      });

      test('edges of another turn are not told, and a turn that was never accepted has none', async () => {
        const agentId = newAgent();
        const lease = await started(agentId);
        await think(lease, 1, ['a']);
        await store.commitTurn(fenceOf(lease), SUCCESS);
        const next = await accepted(agentId);
        expect(await edgesOf(next)).toEqual(['enqueue request   ']);
        expect(await edgesOf(v7())).toEqual([]);
      });

      test('an agent tells what is wanted of it and how many turns it has; an unknown one is null', async () => {
        const agentId = newAgent();
        const lease = await started(agentId, { profile: 'tester' });
        await accepted(agentId);
        await accepted(agentId);
        const view = await store.getAgent(agentId);
        expect(view).toMatchObject({
          agentId,
          profile: 'tester',
          lifecycle: 'started',
          status: 'dispatched',
          activeAgentTurnId: lease.agentTurnId,
          acceptedTurns: 3,
          queuedTurns: 2,
        });
        expect((await store.listAgents()).find((agent) => agent.agentId === agentId)).toEqual(view);
        await store.setLifecycle(agentId, 'stopped', 'test');
        expect(await store.getAgent(agentId)).toMatchObject({ lifecycle: 'stopped', status: 'idle', acceptedTurns: 3 });
        expect(await store.getAgent(newAgent())).toBeNull();
      });

      test('turns are listed oldest first: all, those in a status, or the last ones', async () => {
        const agentId = newAgent();
        const lease = await started(agentId);
        const queued = [await accepted(agentId), await accepted(agentId), await accepted(agentId)];
        const ids = async (filter?: Parameters<Store['listTurns']>[1]) =>
          (await store.listTurns(agentId, filter)).map((turn) => turn.agentTurnId);
        expect(await ids()).toEqual([lease.agentTurnId, ...queued]);
        expect(await ids({ status: 'queued' })).toEqual(queued);
        expect(await ids({ last: 2 })).toEqual(queued.slice(1));
        expect(await ids({ status: 'dispatched', last: 2 })).toEqual([lease.agentTurnId]);
      });
    });

    test('a waiter learns of another process’s commit at once', async () => {
      const seen = store.changed(10_000);
      const startedAt = performance.now();
      await accept(newAgent(), {}, other);
      await seen;
      expect(performance.now() - startedAt).toBeLessThan(2_000);
    });

    test('hundreds of waiters do not each look at every commit', async () => {
      const until = performance.now() + 1_000;
      let looks = 0;
      const waiter = async () => {
        for (; performance.now() < until; looks += 1) await store.changed(1_000);
      };
      const waiters = Promise.all(Array.from({ length: 400 }, waiter));
      while (performance.now() < until) await accept(newAgent(), {}, other);
      await waiters;
      expect(looks).toBeGreaterThan(400);
      expect(looks).toBeLessThan(2_500);
    });

    test('the sweeper’s list names agents with old queued turns or old held heads, and no others', async () => {
      const queued = newAgent();
      const held = newAgent();
      await accepted(queued);
      await started(held);
      clock += 60_000;
      const fresh = newAgent();
      await accepted(fresh);
      const all = await store.doorbellCandidates(30_000, null, 10_000);
      const byId = new Map(all.map((candidate) => [candidate.agentId, candidate.headStatus]));
      expect(byId.get(queued)).toBe('idle');
      expect(byId.get(held)).toBe('dispatched');
      expect(byId.has(fresh)).toBe(false);
      await store.setLifecycle(queued, 'stopped', 'test');
      const later = await store.doorbellCandidates(30_000, null, 10_000);
      expect(later.map((candidate) => candidate.agentId)).not.toContain(queued);
    });

    test('an agent that is not there cannot be stopped or started: agent_not_found, by name', async () => {
      const agentId = newAgent();
      const stopping = store.setLifecycle(agentId, 'stopped', 'test');
      await expect(stopping).rejects.toMatchObject({
        code: 'agent_not_found',
        message: expect.stringContaining(agentId),
      });
      expect(await store.getAgent(agentId)).toBeNull();
    });
  });
}
