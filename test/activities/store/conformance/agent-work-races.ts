/** What might be lost, doubled or blocked of an agent between its turns, and is not (A4, A6–A11). */
import { describe, expect, test } from '@jest/globals';
import { v7 } from 'uuid';
import { DEFAULT_DEADLINE_MS } from '../../../../workflows/agent-state/waits.ts';
import type { Lease } from '../../../../workflows/contract/lease.ts';
import { newAgent, type StoreBench } from '../store-bench.ts';
import { create, waitFor, workBench } from '../work-bench.ts';

export function describeAgentWorkRaces(bench: StoreBench): void {
  const { effects, end, rested, id, postureOf, eventsOf, dueOf, fired, trigger, instructionOf, clean } =
    workBench(bench);
  const NEW = { strategy: 'new', profile: 'tester' } as const;

  /** An agent that waits for a turn that it has delegated, which is open. */
  const waitingForTask = async () => {
    const agentId = newAgent();
    const lease = await bench.started(agentId);
    const { handover } = await bench.delegated(lease, NEW);
    const child = handover?.next;
    if (!child) throw new Error('no child');
    await effects(lease, 50, waitFor(id('wait'), { kind: 'task', resource: child.agentTurnId }));
    expect(await end(lease)).toBeNull();
    return { agentId, child };
  };

  describe('the end of a delegated turn', () => {
    test('is not missed by an agent that is stopped, or started once more, meanwhile (A6, A11)', async () => {
      for (const lifecycles of [['stopped', 'started'], ['started']] as const) {
        const { agentId, child } = await waitingForTask();
        const [first, ...others] = lifecycles;
        if (first === 'stopped') await bench.store.setLifecycle(agentId, first, 'test');
        await end(child);
        for (const lifecycle of first === 'stopped' ? others : lifecycles)
          await bench.store.setLifecycle(agentId, lifecycle, '');
        const handover = await fired(agentId);
        expect(await instructionOf(handover?.next)).toContain(`turn ${child.agentTurnId}`);
      }
      await clean();
    });

    test('is found by a look some time later where nobody has told of it, and is told once (A11)', async () => {
      const { agentId, child } = await waitingForTask();
      // Looks at a turn that goes on come ever more seldom.
      const pauses: number[] = [];
      for (let look = 0; look < 5; look += 1) {
        const from = bench.now;
        while ((await dueOf(agentId)).length === 0) bench.now += 1_000;
        pauses.push(bench.now - from);
        expect(await fired(agentId)).toBeNull();
      }
      expect(pauses).toEqual(pauses.toSorted((a, b) => a - b));
      const busy = await bench.started(agentId);
      await end(child);
      for (let look = 0; look < 3; look += 1) {
        await fired(agentId);
        bench.now += 600_000;
      }
      const next = await end(busy);
      expect(await instructionOf(next)).not.toContain('times');
      expect(await instructionOf(next)).toContain('has ended: success');
      if (next) await end(next);
      expect((await eventsOf(agentId, 'wait')).length).toBe(1);
    });

    test('is nothing to an agent that did not delegate it (A8)', async () => {
      const other = await bench.started(newAgent());
      await bench.think(other, 1);
      await end(other);
      const agentId = newAgent();
      const lease = await bench.started(agentId);
      await effects(lease, 1, waitFor(id('wait'), { kind: 'task', resource: other.agentTurnId }));
      const said = await instructionOf(await end(lease));
      expect(said).toContain(`there is no turn ${other.agentTurnId} that you have delegated`);
      expect(said).not.toContain('thought 1');
    });
  });

  describe('what has come, and work', () => {
    test('are not held up by queued turns that cannot start (A9, A10)', async () => {
      const agentId = newAgent();
      const lease = await bench.started(agentId);
      const { tokenHash } = await trigger(agentId);
      await bench.store.fireTrigger(tokenHash, { text: 'news' });
      await bench.accept(agentId, { contextBoxId: v7() });
      const next = await end(lease);
      expect(await instructionOf(next)).toContain('news');
      const working = await rested(create(id('a'), { planStatus: 'needs_input' }));
      const turn = await bench.started(working);
      await effects(turn, 1, create(id('b')));
      await bench.accept(working, { contextBoxId: v7() });
      expect(await instructionOf(await end(turn))).toContain('can be gone on with');
    });

    test('of one work item are gone on with although another waits for something else (A4, A10)', async () => {
      const [a, b] = [id('a'), id('b')];
      const agentId = newAgent();
      const lease = await bench.started(agentId);
      const { triggerId, tokenHash } = await trigger(agentId);
      await effects(
        lease,
        1,
        create(a),
        create(b),
        waitFor(id('wait'), { workItemId: a, kind: 'operator' }),
        waitFor(id('wait'), { workItemId: b, resource: triggerId }),
      );
      expect(await end(lease)).toBeNull();
      const woken = await bench.store.fireTrigger(tokenHash, { text: 'news' });
      expect(woken?.disposition).toBe('woken');
      await end(woken?.handover.next as Lease);

      const two = newAgent();
      const first = await bench.started(two);
      const [c, d] = [id('c'), id('d')];
      await effects(first, 1, create(c), create(d));
      const forC = await end(first);
      expect(await instructionOf(forC)).toContain(c);
      const forD = await end(forC as Lease);
      expect(await instructionOf(forD)).toContain(d);
      expect(await end(forD as Lease)).toBeNull();
      await clean();
    });

    test('of an agent that was made by delegation stay as deep as it is (A10)', async () => {
      const lease = await bench.started(newAgent());
      const { handover } = await bench.delegated(lease, NEW);
      const child = handover?.next as Lease;
      await effects(child, 1, create(id('a')));
      const own = await end(child);
      expect((await bench.store.getTurn(own?.agentTurnId ?? ''))?.depth).toBe(1);
    });

    test('that an agent brings about by itself do not start its count anew (A10)', async () => {
      const a = id('a');
      const agentId = newAgent();
      const lease = await bench.started(agentId);
      await effects(lease, 1, create(a));
      const own = (await end(lease)) as Lease;
      await effects(own, 1, { type: 'set_timer', timerId: id('timer'), reason: 'x', afterMs: 10, everyMs: null });
      await end(own);
      bench.now += 10;
      const rung = await fired(agentId);
      expect((await bench.store.agentSummary(agentId))?.agent.autonomousTurns).toBe(2);
      await end(rung?.next as Lease);
      await end(await bench.started(agentId));
      expect((await bench.store.agentSummary(agentId))?.agent.autonomousTurns).toBe(0);
    });
  });

  describe('what a model or a caller writes', () => {
    test('with half a character or a zero byte keeps no turn from its end (A7, A9)', async () => {
      const odd = 'x\u0000\ud83d';
      const agentId = newAgent();
      const lease = await bench.started(agentId);
      const a = id('a');
      await effects(
        lease,
        1,
        create(a, { objective: odd, todoList: [{ text: odd, state: 'pending' }], planStatus: 'needs_input' }),
        waitFor(id('wait'), { reason: odd }),
        { type: 'set_timer', timerId: id('timer'), reason: odd, afterMs: 1_000_000, everyMs: null },
        { type: 'create_trigger', triggerId: id('trigger'), name: odd, tokenHash: id('hash') },
      );
      expect(await end(lease)).toBeNull();
      const [item] = await bench.other.listWorkItems(agentId);
      expect(item?.objective).toMatch(/^x/);
      expect(item?.objective.isWellFormed()).toBe(true);
      const trigger = { triggerId: id('trigger'), name: odd, tokenHash: id('hash') };
      expect((await bench.store.createTrigger(agentId, trigger)).name).toMatch(/^x/);
      await clean();
    });
  });

  describe('a wait', () => {
    test('for what is gone when the turn is committed ends at once (A8)', async () => {
      const agentId = newAgent();
      const lease = await bench.started(agentId);
      const { triggerId } = await trigger(agentId);
      await effects(lease, 1, waitFor(id('wait'), { resource: triggerId }));
      await bench.store.revokeTrigger(agentId, triggerId);
      expect(await instructionOf(await end(lease))).toContain('what you wanted to wait for is not there any more');
    });

    test('for a time is over by its own time, and one for a person is asked for again each day (A8)', async () => {
      const wait = id('wait');
      const agentId = await rested(waitFor(wait, { kind: 'timer', recheckAfterMs: DEFAULT_DEADLINE_MS / 2 }), {
        type: 'set_timer',
        timerId: id('timer'),
        reason: 'other',
        afterMs: 1_000,
        everyMs: null,
      });
      bench.now += 1_000;
      const rung = await fired(agentId);
      await end(rung?.next as Lease);
      expect(await postureOf(agentId)).toBe('blocked');
      bench.now += DEFAULT_DEADLINE_MS / 2;
      const over = await fired(agentId);
      expect(await instructionOf(over?.next)).toContain('time to check');
      expect(await bench.store.listWaits(agentId, { open: true })).toEqual([]);

      const asking = await rested(create(id('a'), { planStatus: 'needs_input' }));
      for (let day = 0; day < 3; day += 1) {
        bench.now += DEFAULT_DEADLINE_MS;
        const again = await fired(asking);
        expect(await instructionOf(again?.next)).toContain('time to check work item');
        await end(again?.next as Lease);
      }
      await clean();
    });

    test('of several things that come together is over once (A8)', async () => {
      const agentId = await rested(waitFor(id('wait')), {
        type: 'set_timer',
        timerId: id('t'),
        reason: 'x',
        afterMs: 1,
        everyMs: null,
      });
      const busy = await bench.started(agentId);
      const [one, two] = [await trigger(agentId), await trigger(agentId)];
      for (const { tokenHash } of [one, two]) await bench.store.fireTrigger(tokenHash, { text: 'news' });
      await end(busy);
      expect(await eventsOf(agentId, 'wait')).toHaveLength(1);
    });
  });
}
