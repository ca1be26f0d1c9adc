/** Work handed from agent to agent, as the store sees it (T26, T27, T30), on every store. */
import { describe, expect, test } from '@jest/globals';
import { v7 } from 'uuid';
import { defineAgent, defineApp } from '../../../../activities/app/app.ts';
import { callId as callIdOf, delegatedTurnId, stepCardId } from '../../../../activities/ids.ts';
import type { Delegation, DelegationTarget } from '../../../../workflows/contract/delegation.ts';
import type { Lease } from '../../../../workflows/contract/lease.ts';
import type { ToolResultContent } from '../../../../workflows/protocol/cards.ts';
import { ENGINE, fenceOf, LOST, newAgent, result, STORES, StoreBench, SUCCESS } from '../store-bench.ts';

const app = defineApp({
  agents: [
    defineAgent({
      name: 'tester',
      delegationPolicy: { profiles: ['tester'], tags: ['expert'] },
      // Each of twenty generations is given half of what the one before had left.
      budgets: { maxTokens: 1_000_000_000 },
    }),
    defineAgent({ name: 'doctor', tags: ['expert'] }),
    defineAgent({ name: 'keeper', delegationPolicy: { profiles: ['doctor'], onEnd: 'keep' } }),
    defineAgent({ name: 'stranger' }),
  ],
});
const TRACE = '4bf92f3577b34da6a3ce929d0e0e4736';
const traceparent = `00-${TRACE}-00f067aa0ba902b7-01`;

describe.each(STORES)('delegation on %s', (_, fresh) => {
  const bench = new StoreBench(fresh, app);
  const NEW_DOCTOR = { strategy: 'new', profile: 'doctor' } as const;

  const delegated = async (lease: Lease, target: DelegationTarget, more: Partial<Delegation> = {}) => {
    const made = await bench.delegated(lease, target, more);
    return { ...made, callId: made.delegation.callId };
  };
  const asked = (lease: Lease, target: DelegationTarget = NEW_DOCTOR, more: Partial<Delegation> = {}) =>
    delegated(lease, target, { waitMs: 60_000, ...more });
  const childOf = ({ callId, handover }: Awaited<ReturnType<typeof delegated>>) => {
    if (!handover) throw new Error('it was refused');
    return { agentId: handover.agentId, agentTurnId: delegatedTurnId(callId) };
  };
  const resultOf = async (lease: Lease, callId: string): Promise<ToolResultContent | undefined> =>
    (await bench.store.readBox(lease.outputBoxId))
      .flatMap(({ card }) => (card.type === 'tool.result' ? [card.content] : []))
      .find((content) => content.callId === callId);
  const refusedWith = async (lease: Lease, made: Awaited<ReturnType<typeof delegated>>) => {
    expect(made.handover).toBeNull();
    const result = await resultOf(lease, made.callId);
    expect(made.call).toMatchObject({ kind: 'settled', settled: { status: 'failed', errorCode: result?.error?.code } });
    return result?.error?.code;
  };
  const toldOf = (agentTurnId: string) => bench.store.settleDelegation(agentTurnId);

  describe('a call that does not wait', () => {
    test('leases a turn of a new agent and has its result at once (T26, W12)', async () => {
      const lease = await bench.started(newAgent(), { correlationId: 'order-7', traceparent });
      const made = await delegated(lease, NEW_DOCTOR);
      const child = childOf(made);
      expect(made.handover).toMatchObject({ next: child, more: false, settlements: [] });
      expect(await resultOf(lease, made.callId)).toMatchObject({
        status: 'success',
        result: { status: 'accepted', agent_id: child.agentId, agent_turn_id: child.agentTurnId },
      });
      expect(await bench.store.getTurn(child.agentTurnId)).toMatchObject({
        status: 'dispatched',
        instruction: 'look into it',
        depth: 1,
        parent: { agentId: lease.agentId, agentTurnId: lease.agentTurnId, callId: made.callId },
      });
      const childLease = await bench.leased(child.agentId);
      expect(childLease).toEqual(made.handover?.next);
      expect(childLease).toMatchObject({ profileName: 'doctor', agentTurnId: child.agentTurnId });
      await bench.ended(childLease);
    });

    describe('and whose turn ends', () => {
      const instructionOf = async (turn: Lease | null | undefined) =>
        (await bench.store.getTurn(turn?.agentTurnId ?? ''))?.instruction ?? '';

      test('wakes the agent that made it, once, with what was delivered (A11)', async () => {
        const lease = await bench.started(newAgent());
        const child = childOf(await delegated(lease, NEW_DOCTOR));
        await bench.ended(lease);
        const childLease = await bench.leased(child.agentId);
        await bench.think(childLease, 1);
        const { handover } = await bench.store.commitTurn(fenceOf(childLease), SUCCESS);
        expect(handover.settlements).toEqual([child.agentTurnId]);
        const tellers = [bench.store, bench.other, bench.store];
        const answers = await Promise.all(tellers.map((store) => store.settleDelegation(child.agentTurnId)));
        expect(answers.map((answer) => answer?.ack)).toEqual(['applied', 'applied', 'applied']);
        const woken = answers.flatMap((answer) => answer?.handover?.next ?? []);
        expect(woken).toHaveLength(1);
        expect(await instructionOf(woken[0])).toContain(
          `turn ${child.agentTurnId} of agent ${child.agentId} has ended`,
        );
        expect((await bench.store.agentSummary(lease.agentId))?.agent.autonomousTurns).toBe(1);
        expect(await bench.store.violations()).toEqual([]);
      });

      test('wakes it also when it has waited for the turn, and its wait had ended before (A8, A11)', async () => {
        const lease = await bench.started(newAgent());
        const child = childOf(await delegated(lease, NEW_DOCTOR));
        const wait = {
          type: 'wait',
          waitId: v7(),
          workItemId: null,
          kind: 'task',
          resource: child.agentTurnId,
          reason: 'the answer',
          recheckAfterMs: null,
          deadlineMs: 60_000,
        } as const;
        await bench.think(lease, 9_000, ['wait_for'], {
          effect: wait,
          result: result(callIdOf(lease.agentTurnId, 9_000, 0)),
        } as object);
        await bench.ended(lease);
        bench.now += 61_000;
        const due = (await bench.store.dueWakes(100)).find(({ agentId }) => agentId === lease.agentId);
        const late = due && (await bench.store.fireWake(due))?.next;
        expect(await instructionOf(late)).toContain('the deadline has passed');
        await bench.ended(late as Lease);
        await bench.ended(await bench.leased(child.agentId));
        expect(await instructionOf((await toldOf(child.agentTurnId))?.handover?.next)).toContain(child.agentTurnId);
      });

      test('while the agent is busy is told behind its open turn (A11)', async () => {
        const lease = await bench.started(newAgent());
        const child = childOf(await delegated(lease, NEW_DOCTOR));
        await bench.ended(await bench.leased(child.agentId));
        expect(await toldOf(child.agentTurnId)).toMatchObject({ ack: 'applied', handover: { next: null } });
        const { handover } = await bench.store.commitTurn(fenceOf(lease), SUCCESS);
        expect(await instructionOf(handover.next)).toContain(child.agentTurnId);
      });

      test('wakes no agent that was made for one turn, none that was stopped with it, and none that keeps to itself (A11)', async () => {
        const oneShot = await bench.started(`run-${v7()}`);
        const stopped = await bench.started(newAgent());
        const keeping = await bench.started(newAgent(), { profile: 'keeper' });
        const children = [
          childOf(await delegated(oneShot, NEW_DOCTOR)),
          childOf(await delegated(stopped, NEW_DOCTOR, { onParentEnd: 'stop' })),
          childOf(await delegated(keeping, NEW_DOCTOR)),
        ];
        for (const lease of [oneShot, keeping]) await bench.ended(lease);
        await bench.store.stopTurn(stopped.agentTurnId, 'enough');
        for (const child of children) await bench.ended(await bench.leased(child.agentId));
        for (const child of children) expect((await toldOf(child.agentTurnId))?.handover ?? null).toBeNull();
        for (const lease of [oneShot, stopped, keeping])
          expect((await bench.store.leaseNext(lease.agentId)).next).toBeNull();
        expect(await bench.store.violations()).toEqual([]);
      });
    });

    test('to an agent at work waits in its queue, and is leased by the end of the turn before it (T1, T29)', async () => {
      const busy = await bench.started(newAgent(), { profile: 'doctor' });
      await bench.store.openStep(fenceOf(busy), { stepIndex: 1, profileHash: busy.profileHash });
      const made = await delegated(await bench.started(newAgent()), { strategy: 'reuse', agentId: busy.agentId });
      const child = childOf(made);
      expect(made.handover).toEqual({ agentId: busy.agentId, next: null, more: false, settlements: [] });
      expect(await bench.store.getTurn(child.agentTurnId)).toMatchObject({ status: 'queued' });
      const { handover } = await bench.store.commitTurn(fenceOf(busy), SUCCESS);
      expect(handover.next).toMatchObject(child);
    });

    test('made twice, by two attempts at once, gives one turn (T29, W10)', async () => {
      const lease = await bench.started(newAgent());
      const { calls } = await bench.think(lease, 1, ['delegate_async']);
      const callId = calls[0]?.callId ?? '';
      const call = { callId, target: NEW_DOCTOR, instruction: 'once', onParentEnd: 'continue' } as const;
      const made = await Promise.all(
        [bench.store, bench.other].map((store, index) =>
          store.delegate(fenceOf(lease), { ...call, attempt: index + 1 }),
        ),
      );
      expect(made[0]).toEqual(made[1]);
      const { handover } = made[0] ?? {};
      expect(handover?.next).toMatchObject({ agentTurnId: delegatedTurnId(callId) });
      expect(await bench.store.listTurns(handover?.agentId ?? '')).toHaveLength(1);
    });

    test('made again once its turn has started gives no lease (T29)', async () => {
      const lease = await bench.started(newAgent());
      const made = await delegated(lease, NEW_DOCTOR);
      const childLease = await bench.leased(childOf(made).agentId);
      await bench.store.openStep(fenceOf(childLease), { stepIndex: 1, profileHash: childLease.profileHash });
      const again = await bench.store.delegate(fenceOf(lease), { ...made.delegation, attempt: 2 });
      expect(again).toEqual({ call: made.call, handover: { ...made.handover, next: null } });
    });

    test('reuse goes to the agent that is there, clone to a new one that remembers the same (T25, W12)', async () => {
      const expert = newAgent();
      const first = await bench.started(expert, { profile: 'doctor', instruction: 'remember this' });
      await bench.think(first, 1);
      await bench.ended(first);
      const lease = await bench.started(newAgent());
      const reused = childOf(await delegated(lease, { strategy: 'reuse', agentId: expert }));
      expect(reused.agentId).toBe(expert);
      const cloned = childOf(await delegated(lease, { strategy: 'clone', agentId: expert }));
      expect(cloned.agentId).not.toBe(expert);
      const remembered = await bench.cardsOf(first.outputBoxId);
      const copy = await bench.leased(cloned.agentId);
      expect(copy.outputBoxId).not.toBe(first.outputBoxId);
      expect((await bench.cardsOf(copy.outputBoxId)).slice(0, remembered.length)).toEqual(remembered);
      expect((await bench.leased(expert)).outputBoxId).toBe(first.outputBoxId);
    });

    test.each([
      ['delegation_denied', { strategy: 'new', profile: 'stranger' }],
      ['profile_not_found', { strategy: 'new', profile: 'nobody' }],
      ['agent_not_found', { strategy: 'reuse', agentId: 'no-such-agent' }],
      ['agent_not_found', { strategy: 'clone', agentId: 'no-such-agent' }],
    ] as const)('is refused with %s, and makes no agent and no turn', async (code, target) => {
      const lease = await bench.started(newAgent());
      const before = await bench.store.listAgents();
      expect(await refusedWith(lease, await delegated(lease, target))).toBe(code);
      expect(await bench.store.listAgents()).toHaveLength(before.length);
    });

    test('to a profile that is not there names the nearest one that is', async () => {
      const lease = await bench.started(newAgent());
      const { callId } = await delegated(lease, { strategy: 'new', profile: 'docter' });
      const { error } = (await resultOf(lease, callId)) ?? {};
      expect(error?.message).toContain('did you mean doctor?');
    });

    test('by a profile without a policy, or to a stopped agent, is refused', async () => {
      const lonely = await bench.started(newAgent(), { profile: 'doctor' });
      expect(await refusedWith(lonely, await delegated(lonely, NEW_DOCTOR))).toBe('delegation_denied');
      const stopped = newAgent();
      await bench.ended(await bench.started(stopped, { profile: 'doctor' }));
      await bench.store.setLifecycle(stopped, 'stopped', 'test');
      const lease = await bench.started(newAgent());
      const made = await delegated(lease, { strategy: 'reuse', agentId: stopped });
      expect(await refusedWith(lease, made)).toBe('agent_stopped');
    });

    test('hands on its own boxes only: the history as a copy, without the step under way (T25, W12)', async () => {
      const contextBoxId = await bench.store.writeContextBox([`a note ${v7()}`]);
      const lease = await bench.started(newAgent(), { contextBoxId });
      const before = await bench.cardsOf(lease.outputBoxId);
      const withHistory = childOf(await delegated(lease, NEW_DOCTOR, { includeHistory: true }));
      const { earlier } = await bench.leased(withHistory.agentId);
      expect(earlier).toMatchObject([{ fromSeq: 1, toSeq: before.length }]);
      expect(await bench.cardsOf(earlier[0]?.boxId ?? '')).toEqual(before);
      const [step] = (await bench.store.getTurn(lease.agentTurnId))?.steps ?? [];
      const thought = stepCardId(lease.agentTurnId, step?.stepIndex ?? 0, 'agent.thought');
      expect(await bench.cardsOf(lease.outputBoxId)).toContain(thought);
      expect(before).not.toContain(thought);

      const withContext = childOf(await delegated(lease, NEW_DOCTOR, { contextBoxId }));
      expect((await bench.leased(withContext.agentId)).earlier).toMatchObject([{ boxId: contextBoxId }]);
      const foreign = (await bench.started(newAgent())).outputBoxId;
      const stolen = await delegated(lease, NEW_DOCTOR, { contextBoxId: foreign });
      expect(await refusedWith(lease, stolen)).toBe('unauthorized_box');
      const nowhere = await delegated(lease, NEW_DOCTOR, { contextBoxId: v7() });
      expect(await refusedWith(lease, nowhere)).toBe('box_unavailable');
    });
  });

  describe('depth and trace', () => {
    test('rise from turn to turn and flow along, up to depth 19; the next is refused (T27)', async () => {
      let lease = await bench.started(newAgent(), { correlationId: 'deep', traceparent });
      const root = lease;
      for (let depth = 1; depth < 20; depth += 1) {
        const child = childOf(await delegated(lease, { strategy: 'new', profile: 'tester' }));
        lease = await bench.leased(child.agentId);
        expect(await bench.store.getTurn(child.agentTurnId)).toMatchObject({ depth });
      }
      const tooDeep = await delegated(lease, NEW_DOCTOR);
      expect(await refusedWith(lease, tooDeep)).toBe('recursion_depth_exceeded');
      const edges = await bench.store.listEdges(root.agentTurnId);
      const enqueues = edges.filter((edge) => edge.primitive === 'enqueue');
      expect(enqueues.map((edge) => edge.depth)).toEqual(Array.from({ length: 20 }, (__, depth) => depth));
      expect(new Set(edges.map((edge) => edge.traceId))).toEqual(new Set([TRACE]));
      expect(new Set(enqueues.map((edge) => edge.correlationId))).toEqual(new Set(['deep']));
    });
  });

  describe('a call that waits', () => {
    test('suspends the turn until the child has ended and its end is told, once (T30)', async () => {
      const lease = await bench.started(newAgent(), { traceparent });
      const made = await asked(lease);
      const child = childOf(made);
      expect(made.call).toEqual({ kind: 'suspended', deadline: bench.now + 60_000, leftMs: 60_000 });
      expect(await bench.store.getAgent(lease.agentId)).toMatchObject({ status: 'suspended', waitingToolCount: 1 });
      expect(await toldOf(child.agentTurnId)).toBeNull();
      const childLease = await bench.leased(child.agentId);
      await bench.think(childLease, 1);
      const thought = stepCardId(child.agentTurnId, 1, 'agent.thought');
      const commit = { ...SUCCESS, deliverable: { from: 'thought', cardId: thought } } as const;
      const { handover } = await bench.store.commitTurn(fenceOf(childLease), commit);
      expect(handover).toEqual({ agentId: child.agentId, next: null, more: false, settlements: [child.agentTurnId] });
      expect(await bench.store.commitTurn(fenceOf(childLease), commit)).toMatchObject({ handover });
      expect(await bench.dueIn(child.agentTurnId)).toBe(10_000);
      const to = { agentId: lease.agentId, agentTurnId: lease.agentTurnId, callId: made.callId };
      const told = { ...to, ack: 'applied', handover: null };
      const tellers = [bench.store, bench.other, bench.store];
      const answers = await Promise.all(tellers.map((store) => store.settleDelegation(child.agentTurnId)));
      // Whoever was first wakes the parent.
      expect(answers.map((answer) => answer?.wake).sort()).toEqual([false, false, true]);
      expect(answers.map((answer) => ({ ...answer, wake: true }))).toEqual(Array(3).fill({ ...told, wake: true }));
      expect(await resultOf(lease, made.callId)).toMatchObject({
        status: 'success',
        result: { status: 'success', agent_id: child.agentId, deliverable: { text: 'thought 1' } },
      });
      expect((await bench.store.commitTurn(fenceOf(childLease), commit)).handover.settlements).toEqual([]);
      expect(await bench.store.violations()).toEqual([]);
    });

    test.each([
      ['needs no further check when its child committed its own end', ENGINE, null],
      ['leaves the child to be checked for its workflow when it was ended over its head', null, 10_000],
    ] as const)('that is told %s (T29, T30)', async (__, engine, dueIn) => {
      const lease = await bench.started(newAgent());
      const child = childOf(await asked(lease));
      await bench.ended(await bench.leased(child.agentId), { ...SUCCESS, engine });
      expect(await bench.dueAt(bench.now + 10_000, child.agentTurnId)).toMatchObject({ settlementDue: true });
      await toldOf(child.agentTurnId);
      expect(await bench.dueIn(child.agentTurnId)).toBe(dueIn);
      expect((await bench.dueAt(bench.now + 10_000, child.agentTurnId))?.settlementDue ?? false).toBe(false);
    });

    test.each([
      ['stopped while queued', 'canceled', 'canceled'],
      ['stopped while running', 'failed', 'stopped'],
      ['reaped after a crash', 'failed', 'worker_lost'],
    ] as const)('is told when the child was %s: %s/%s (T30)', async (how, status, code) => {
      const lease = await bench.started(newAgent());
      const busy = await bench.started(newAgent(), { profile: 'doctor' });
      const queued = how === 'stopped while queued';
      const made = await asked(lease, queued ? { strategy: 'reuse', agentId: busy.agentId } : NEW_DOCTOR);
      const child = childOf(made);
      const handover =
        how === 'reaped after a crash'
          ? await bench.reaped(await bench.leased(child.agentId), LOST)
          : (await bench.store.stopTurn(child.agentTurnId, 'test')).handover;
      expect(handover?.settlements).toEqual([child.agentTurnId]);
      expect(await bench.dueAt(bench.now + 9_999, child.agentTurnId)).toBeUndefined();
      expect(await bench.dueAt(bench.now + 10_000, child.agentTurnId)).toMatchObject({ status, settlementDue: true });
      expect(await toldOf(child.agentTurnId)).toMatchObject({ ack: 'applied', wake: true });
      expect(await resultOf(lease, made.callId)).toMatchObject({
        status,
        error: { code },
        result: { status, deliverable: { fallback: {} } },
      });
    });

    test('of a turn that was stopped meanwhile gets a stale report, once (T14, T30)', async () => {
      const lease = await bench.started(newAgent());
      const child = childOf(await asked(lease));
      await bench.store.stopTurn(lease.agentTurnId, 'test');
      await bench.ended(await bench.leased(child.agentId));
      expect(await toldOf(child.agentTurnId)).toMatchObject({ ack: 'stale', wake: false });
      expect(await toldOf(child.agentTurnId)).toMatchObject({ ack: 'stale', wake: false });
      expect(await bench.dueAt(bench.now + 60_000, child.agentTurnId)).toMatchObject({ settlementDue: false });
      expect(await bench.store.violations()).toEqual([]);
    });

    test('that timed out keeps its timeout: the late report is a duplicate (T17, T30)', async () => {
      const lease = await bench.started(newAgent());
      const made = await asked(lease, NEW_DOCTOR, { waitMs: 500 });
      const child = childOf(made);
      bench.now += 500;
      await bench.store.resolveWaiting(fenceOf(lease), [made.callId]);
      await bench.ended(await bench.leased(child.agentId));
      expect(await toldOf(child.agentTurnId)).toMatchObject({ ack: 'duplicate', wake: false });
      expect(await resultOf(lease, made.callId)).toMatchObject({ status: 'timeout' });
    });

    test('leaves edges from which the whole tree can be drawn (T26)', async () => {
      const lease = await bench.started(newAgent());
      const made = await asked(lease);
      const child = childOf(made);
      await bench.ended(await bench.leased(child.agentId));
      await toldOf(child.agentTurnId);
      const edges = await bench.store.listEdges(lease.agentTurnId);
      expect(edges.map((edge) => `${edge.primitive} ${edge.phase} ${edge.kind ?? ''}`)).toEqual([
        'enqueue request ',
        'tool_call request ask_expert',
        'enqueue request ',
        'join request ask_expert',
        'join response success',
        'report response tool_result',
        'report response success',
      ]);
      const [, , enqueue, wait, answer] = edges;
      const parent = {
        sourceAgentTurnId: lease.agentTurnId,
        targetAgentTurnId: child.agentTurnId,
        callId: made.callId,
      };
      expect([enqueue, wait]).toMatchObject([parent, parent]);
      expect(answer).toMatchObject({ sourceAgentTurnId: child.agentTurnId, targetAgentTurnId: lease.agentTurnId });
    });
  });

  describe('a circle', () => {
    const standing = async () => {
      const agentId = newAgent();
      await bench.ended(await bench.started(agentId));
      return agentId;
    };
    const reuse = (agentId: string): DelegationTarget => ({ strategy: 'reuse', agentId });

    test('of agents that wait for each other is refused, of any length; one that does not wait is fine (T27)', async () => {
      const agents = await Promise.all([standing(), standing(), standing()]);
      const [a = '', b = '', c = ''] = agents;
      const first = await bench.started(a);
      const self = await asked(first, reuse(a));
      expect(await refusedWith(first, self)).toBe('delegation_cycle');
      await asked(first, reuse(b));
      const second = await bench.leased(b);
      await asked(second, reuse(c));
      const third = await bench.leased(c);
      for (const target of [a, b]) {
        expect(await refusedWith(third, await asked(third, reuse(target)))).toBe('delegation_cycle');
      }
      expect((await delegated(third, reuse(a))).handover).not.toBeNull();
    });

    test('made by all at once leaves one of them without its wait (T27)', async () => {
      const agents = await Promise.all(Array.from({ length: 4 }, standing));
      const leases = await Promise.all(agents.map((agentId) => bench.started(agentId)));
      const calls = await Promise.all(
        leases.map(async (lease) => (await bench.think(lease, 1, ['ask_expert'])).calls[0]?.callId ?? ''),
      );
      const made = await Promise.all(
        leases.map((lease, index) =>
          (index % 2 ? bench.store : bench.other).delegate(fenceOf(lease), {
            callId: calls[index] ?? '',
            attempt: 1,
            target: reuse(agents[(index + 1) % agents.length] ?? ''),
            instruction: 'you go first',
            waitMs: 60_000,
            onParentEnd: 'stop',
          }),
        ),
      );
      expect(made.filter(({ handover }) => handover === null)).toHaveLength(1);
    });

    test('that is over is none: who has its answer waits for nobody (T27)', async () => {
      const [a = '', b = ''] = await Promise.all([standing(), standing()]);
      const first = await bench.started(a);
      const child = childOf(await asked(first, reuse(b)));
      await bench.ended(await bench.leased(b));
      await toldOf(child.agentTurnId);
      const second = await bench.started(b);
      expect((await asked(second, reuse(a))).handover).not.toBeNull();
    });
  });
});
