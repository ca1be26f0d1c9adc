/** What readers see, as every store must show it. */
import { describe, expect, test } from '@jest/globals';
import { v7 } from 'uuid';
import type { Store } from '../../../../workflows/contract/store.ts';
import { fenceOf, newAgent, result, type StoreBench, SUCCESS } from '../store-bench.ts';

export function describeLooks(bench: StoreBench): void {
  describe('looking', () => {
    const edgesOf = async (agentTurnId: string) =>
      (await bench.store.listEdges(agentTurnId)).map(({ primitive, phase, kind, callId, sourceStepIndex }) =>
        [primitive, phase, kind, callId, sourceStepIndex].join(' '),
      );

    test('edges tell the calls of a turn in their order, what was reported for which, and how it ended (T26)', async () => {
      const agentId = newAgent();
      const lease = await bench.started(agentId, { correlationId: 'order-7' });
      const turn = lease.agentTurnId;
      const first = (await bench.think(lease, 1, ['b', 'a'])).calls.map((call) => call.callId);
      const [answered = '', overdue = ''] = first;
      await bench.store.suspendCall(fenceOf(lease), answered, 1_000);
      await bench.store.suspendCall(fenceOf(lease), overdue, 1_000);
      expect(await edgesOf(turn)).toEqual([
        'enqueue request   ',
        `tool_call request b ${answered} 1`,
        `tool_call request a ${overdue} 1`,
      ]);
      await bench.store.reportResult(turn, { callId: answered, status: 'success', result: 1 });
      bench.now += 1_001;
      await bench.store.resolveWaiting(fenceOf(lease), first);
      bench.now += 1;
      const [last = ''] = (await bench.think(lease, 2, ['c'])).calls.map((call) => call.callId);
      const settled = { callId: last, attempt: 1, content: result(last), durationMs: 1 };
      await bench.store.settleCall(fenceOf(lease), settled);
      await bench.store.commitTurn(fenceOf(lease), SUCCESS);
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
      const [enqueued, call, , report] = await bench.other.listEdges(turn);
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
        createdAt: bench.now - 1_002,
      });
      expect(call).toMatchObject({ sourceAgentId: agentId, sourceAgentTurnId: turn, createdAt: bench.now - 1_002 });
      expect(report).toMatchObject({ targetAgentId: agentId, targetAgentTurnId: turn });
    });

    test('edges of another turn are not told, and a turn that was never accepted has none', async () => {
      const agentId = newAgent();
      const lease = await bench.started(agentId);
      await bench.think(lease, 1, ['a']);
      await bench.store.commitTurn(fenceOf(lease), SUCCESS);
      const next = await bench.accepted(agentId);
      expect(await edgesOf(next)).toEqual(['enqueue request   ']);
      expect(await edgesOf(v7())).toEqual([]);
    });

    test('what was noticed is told once, with the step that follows or before the end (K4)', async () => {
      const agentId = newAgent();
      const lease = await bench.started(agentId);
      const [fence, { profileHash }] = [fenceOf(lease), lease];
      const rolledBack = { type: 'rolled_back', reason: 'it failed', cards: 2, inARow: 1 } as const;
      const hit = { type: 'budget_hit', code: 'max_steps_reached', used: 1, limit: 1 } as const;
      for (let attempt = 0; attempt < 2; attempt += 1)
        await bench.store.openStep(fence, { stepIndex: 1, profileHash, noticed: [rolledBack] });
      await bench.store.commitTurn(fence, { ...SUCCESS, noticed: [hit] });
      const events = await bench.store.readEvents({ agentId });
      expect(events.filter(({ type }) => type === 'notice').map(({ payload }) => payload)).toEqual([rolledBack, hit]);
      expect(events.at(-1)?.type).toBe('task');
      expect(await bench.store.violations()).toEqual([]);
    });

    test('an agent tells what is wanted of it and how many turns it has; an unknown one is null', async () => {
      const agentId = newAgent();
      const lease = await bench.started(agentId, { profile: 'tester' });
      await bench.accepted(agentId);
      await bench.accepted(agentId);
      const view = await bench.store.getAgent(agentId);
      expect(view).toMatchObject({
        agentId,
        profile: 'tester',
        lifecycle: 'started',
        status: 'dispatched',
        activeAgentTurnId: lease.agentTurnId,
        acceptedTurns: 3,
        queuedTurns: 2,
      });
      await bench.store.setLifecycle(agentId, 'stopped', 'test');
      expect(await bench.store.getAgent(agentId)).toMatchObject({
        lifecycle: 'stopped',
        status: 'idle',
        acceptedTurns: 3,
      });
      expect(await bench.store.getAgent(newAgent())).toBeNull();
    });

    test('turns are listed oldest first: all, those in a status, or the last ones', async () => {
      const agentId = newAgent();
      const lease = await bench.started(agentId);
      const queued = [await bench.accepted(agentId), await bench.accepted(agentId), await bench.accepted(agentId)];
      const ids = async (filter?: Parameters<Store['listTurns']>[1]) =>
        (await bench.store.listTurns(agentId, filter)).map((turn) => turn.agentTurnId);
      expect(await ids()).toEqual([lease.agentTurnId, ...queued]);
      expect(await ids({ status: 'queued' })).toEqual(queued);
      expect(await ids({ last: 2 })).toEqual(queued.slice(1));
      expect(await ids({ status: 'dispatched', last: 2 })).toEqual([lease.agentTurnId]);
    });
  });

  test('a waiter is woken by another process’s commit', async () => {
    // Longer than a test may take: a wait that the commit does not end fails it.
    const seen = bench.store.changed(600_000);
    await bench.accept(newAgent(), {}, bench.other);
    await seen;
  });

  test('hundreds of waiters do not each look at every commit', async () => {
    const startedAt = performance.now();
    let looks = 0;
    let commits = 0;
    let failed = false;
    const isOver = () => failed || (commits >= 400 && looks > 400);
    const waiter = async () => {
      for (; !isOver(); looks += 1) await bench.store.changed(1_000);
    };
    const waiters = Promise.all(Array.from({ length: 400 }, waiter));
    try {
      for (; !isOver(); commits += 1) await bench.accept(newAgent(), {}, bench.other);
    } catch (error) {
      failed = true;
      throw error;
    }
    await waiters;
    // Of each one some six a second, however many commits there are; on a slow machine there are fewer.
    const seconds = (performance.now() - startedAt) / 1_000;
    expect(looks / seconds).toBeLessThan(2_500);
  });

  test('an agent that is not there cannot be stopped or started: agent_not_found, by name', async () => {
    const agentId = newAgent();
    const stopping = bench.store.setLifecycle(agentId, 'stopped', 'test');
    await expect(stopping).rejects.toMatchObject({
      code: 'agent_not_found',
      message: expect.stringContaining(agentId),
    });
    expect(await bench.store.getAgent(agentId)).toBeNull();
  });
}
