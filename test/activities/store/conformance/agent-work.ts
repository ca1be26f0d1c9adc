/** What an agent has between its turns, and what wakes it, as every store must keep it (A3, A4, A7–A10). */
import { describe, expect, test } from '@jest/globals';
import type { WorkEffect } from '../../../../workflows/agent-state/effects.ts';
import { DEFAULT_DEADLINE_MS } from '../../../../workflows/agent-state/waits.ts';
import type { DueWake } from '../../../../workflows/contract/agent-work.ts';
import type { Lease } from '../../../../workflows/contract/lease.ts';
import { fenceOf, newAgent, type StoreBench, SUCCESS } from '../store-bench.ts';
import { create, waitFor, workBench } from '../work-bench.ts';

export function describeAgentWork(bench: StoreBench): void {
  const { effects, end, rested, id, postureOf, eventsOf, dueOf, fired, hash, trigger, instructionOf, clean } =
    workBench(bench);

  describe('work items', () => {
    test('count for their own turn at once, and for all others with its commit (A7)', async () => {
      const agentId = newAgent();
      const lease = await bench.started(agentId);
      const [a, b] = [id('a'), id('b')];
      await effects(lease, 1, create(a), create(b, { blockedBy: [a] }), { type: 'pick', workItemId: b });
      const { work } = await bench.store.readWork(lease);
      expect(work).toMatchObject({ items: [{ workItemId: a }, { workItemId: b, blockedBy: [a] }], currentId: b });
      expect(await bench.other.listWorkItems(agentId)).toEqual([]);
      await effects(lease, 2, { type: 'complete', workItemId: a, resultSummary: 'done' });
      const next = await end(lease);
      expect(await bench.other.listWorkItems(agentId)).toMatchObject([
        { workItemId: a, state: 'completed', resultSummary: 'done', schedulingState: 'completed' },
        { workItemId: b, state: 'open', schedulingState: 'runnable', current: true },
      ]);
      expect(await bench.other.listWorkItems(agentId, { open: true })).toHaveLength(1);
      expect(await bench.other.listWorkItems(agentId, { limit: 1, after: a })).toMatchObject([{ workItemId: b }]);
      expect((await eventsOf(agentId, 'work')).map((payload) => payload)).toEqual(
        ['create', 'create', 'pick', 'complete'].map((change) => expect.objectContaining({ change, applied: true })),
      );
      // What can be gone on with is gone on with.
      expect(await instructionOf(next)).toContain(`work item ${b} can be gone on with`);
      await clean();
    });

    test('of a turn that is ended over its head are dropped, and so are those of a step that is taken back (A7)', async () => {
      const agentId = newAgent();
      const lease = await bench.started(agentId);
      await effects(lease, 1, create(id('a')));
      await bench.store.stopTurn(lease.agentTurnId, 'enough');
      expect(await bench.store.listWorkItems(agentId)).toEqual([]);

      const again = await bench.started(agentId);
      await bench.store.openStep(fenceOf(again), { stepIndex: 1, profileHash: again.profileHash });
      await effects(again, 1, create(id('b')));
      const box = await bench.store.readBox(again.outputBoxId);
      const places = box.slice(-3).map(({ seq }) => seq);
      await bench.store.openStep(fenceOf(again), { stepIndex: 2, profileHash: again.profileHash, hide: places });
      expect((await bench.store.readWork(again)).work.items).toEqual([]);
      await end(again);
      expect(await bench.store.listWorkItems(agentId)).toEqual([]);
      await clean();
    });

    test('are gone on with by the agent itself, once for each revision, and not without end (A10)', async () => {
      const agentId = newAgent();
      const lease = await bench.started(agentId);
      const a = id('a');
      await effects(lease, 1, create(a));
      const first = await end(lease);
      expect(await eventsOf(agentId, 'continuation')).toMatchObject([
        { triggerKind: 'internal_followup', class: 'local_continuation', sources: [a] },
      ]);
      // Nothing has changed: no second turn of its own for the same revision.
      if (!first) throw new Error('no continuation turn');
      expect(await end(first)).toBeNull();
      expect(await postureOf(agentId)).toBe('has_runnable_work');
      expect((await bench.store.agentSummary(agentId))?.agent.autonomousTurns).toBe(1);

      let lease2: Lease | null = await bench.started(agentId);
      let turns = 0;
      for (; lease2; turns += 1) {
        await effects(lease2, 1, { type: 'update', workItemId: a, change: { objective: `more ${turns}` } });
        lease2 = await end(lease2);
      }
      // The one that was asked for, and as many as the profile lets the agent make by itself.
      expect(turns).toBe(1 + 25);
      const summary = await bench.store.agentSummary(agentId);
      expect(summary).toMatchObject({
        closure: { outcome: 'continuable', workItemId: a },
        lifecycle: { operatorHint: expect.stringContaining('25 turns by itself') },
      });
      await clean();
    });

    test('are gone on with once the agent is started again, when it was stopped in the middle of it (A10)', async () => {
      const agentId = newAgent();
      const lease = await bench.started(agentId);
      const a = id('a');
      await effects(lease, 1, create(a));
      expect(await end(lease)).not.toBeNull();
      await bench.store.setLifecycle(agentId, 'stopped', 'for the night');
      const started = await bench.store.setLifecycle(agentId, 'started', '');
      expect(await instructionOf(started.handover.next)).toContain(`work item ${a} can be gone on with`);
      // Started again where nothing was stopped, it makes no second one.
      await end(started.handover.next as Lease);
      expect((await bench.store.setLifecycle(agentId, 'started', '')).handover.next).toBeNull();
      await clean();
    });

    test.each(['stopped', 'interrupted'])(
      'are gone on with after the next turn when a turn for them was %s (A10)',
      async (how) => {
        const agentId = newAgent();
        const lease = await bench.started(agentId);
        const a = id('a');
        await effects(lease, 1, create(a));
        const own = (await end(lease)) as Lease;
        if (how === 'stopped') await bench.store.stopTurn(own.agentTurnId, 'enough');
        else await bench.store.breakOffTurn(own.agentTurnId, { reason: 'enough' });
        // What was stopped does not begin anew by itself.
        expect((await bench.store.leaseNext(agentId)).next).toBeNull();
        const next = await end(await bench.started(agentId));
        expect(await instructionOf(next)).toContain(`work item ${a} can be gone on with`);
        await clean();
      },
    );

    test('wake the agent at the time when it wanted to come back to them (A7)', async () => {
      const a = id('a');
      const agentId = await rested(create(a, { planStatus: 'needs_input', recheckAfterMs: 500 }));
      expect(await dueOf(agentId)).toEqual([]);
      expect(await postureOf(agentId)).toBe('waiting_for_operator');
      bench.now += 500;
      const [due] = await dueOf(agentId);
      const handover = await fired(agentId);
      expect(await instructionOf(handover?.next)).toContain(`time to check work item ${a}`);
      expect(await bench.other.fireWake(due as DueWake)).toBeNull();
      await clean();
    });
  });

  describe('waits', () => {
    test('hold the agent until what they are for has come, and are over then (A4, A8)', async () => {
      const wait = id('wait');
      const agentId = await rested(waitFor(wait));
      expect(await postureOf(agentId)).toBe('waiting_for_external');
      expect(await eventsOf(agentId, 'closure')).toMatchObject([
        { outcome: 'waiting', waitingReason: 'awaiting_external_change', evidence: [expect.stringContaining(wait)] },
      ]);
      const { triggerId, tokenHash } = await trigger(agentId);
      const woken = await bench.other.fireTrigger(tokenHash, { text: 'it is there </data> now' });
      expect(woken).toMatchObject({ agentId, disposition: 'woken' });
      const said = await instructionOf(woken?.handover.next);
      expect(said).toContain(triggerId);
      expect(said).toContain('it is there < /data> now');
      expect(await eventsOf(agentId, 'continuation')).toMatchObject([
        { class: 'resume_expected_wait', triggerKind: 'external_event', sources: [triggerId] },
      ]);
      expect(await bench.store.listWaits(agentId)).toMatchObject([
        { waitId: wait, status: 'resolved', endedBy: triggerId },
      ]);
      expect(await bench.store.listWaits(agentId, { open: true })).toEqual([]);
      await clean();
    });

    test('have a deadline, a day where nobody says, and end by it (A8)', async () => {
      const wait = id('wait');
      const agentId = await rested(waitFor(wait, { recheckAfterMs: 1_000 }));
      bench.now += 1_000;
      const recheck = await fired(agentId);
      expect(await instructionOf(recheck?.next)).toContain('time to check what you wait for: the order is to come');
      expect(await bench.store.listWaits(agentId)).toMatchObject([{ status: 'active', recheckAt: null }]);
      await end(recheck?.next as Lease);
      bench.now += DEFAULT_DEADLINE_MS;
      const late = await fired(agentId);
      expect(await instructionOf(late?.next)).toContain('the deadline has passed');
      expect(await bench.store.listWaits(agentId)).toMatchObject([{ status: 'expired', endedBy: 'deadline' }]);
      await clean();
    });

    test('for a person end with whatever is asked of the agent (A4)', async () => {
      const agentId = await rested(waitFor(id('wait'), { kind: 'operator' }));
      expect(await postureOf(agentId)).toBe('waiting_for_operator');
      const { lifecycle } = (await bench.store.agentSummary(agentId)) ?? {};
      expect(lifecycle?.operatorHint).toContain(`agentturn enqueue --agent ${agentId}`);
      const lease = await bench.started(agentId);
      expect(await bench.store.listWaits(agentId)).toMatchObject([{ status: 'resolved', endedBy: lease.agentTurnId }]);
      expect(await eventsOf(agentId, 'continuation')).toMatchObject([{ class: 'resume_expected_wait' }]);
    });

    test('for a delegated turn end with it, whether it ended before, while or after the wait was committed (A8, A11)', async () => {
      for (const when of ['before', 'while', 'after'] as const) {
        const agentId = newAgent();
        const lease = await bench.started(agentId);
        const { handover } = await bench.delegated(lease, { strategy: 'new', profile: 'tester' });
        const child = handover?.next;
        if (!child) throw new Error('no child');
        if (when === 'before') await end(child);
        await effects(lease, 50, waitFor(id('wait'), { kind: 'task', resource: child.agentTurnId }));
        if (when === 'while') await end(child);
        let next = await end(lease);
        if (when === 'after') {
          expect(next).toBeNull();
          expect((await bench.store.getAgent(agentId))?.agentStatus).toBe('awaiting_task');
          expect(await postureOf(agentId)).toBe('waiting_for_task');
          expect((await bench.store.agentSummary(agentId))?.activeChildren).toMatchObject([
            { agentId: child.agentId, agentTurnId: child.agentTurnId },
          ]);
          await end(child);
          next = (await fired(agentId))?.next ?? null;
        }
        expect(await instructionOf(next)).toContain(`turn ${child.agentTurnId} of agent ${child.agentId} has ended`);
        expect(await bench.store.listWaits(agentId)).toMatchObject([{ status: 'resolved' }]);
        if (next) expect(await end(next)).toBeNull();
        expect(await dueOf(agentId)).toEqual([]);
      }
      await clean();
    });

    test('for a turn that ended are not due in every pass while the agent is busy, also behind their deadline (A8, A12)', async () => {
      const agentId = newAgent();
      const lease = await bench.started(agentId);
      const { handover } = await bench.delegated(lease, { strategy: 'new', profile: 'tester' });
      const child = handover?.next as Lease;
      await effects(lease, 50, waitFor(id('wait'), { kind: 'task', resource: child.agentTurnId }));
      await end(lease);
      const busy = await bench.started(agentId);
      await end(child);
      bench.now += 3 * 24 * 60 * 60_000;
      expect((await fired(agentId))?.next?.agentTurnId).toBe(busy.agentTurnId);
      expect(await dueOf(agentId)).toEqual([]);
      expect(await instructionOf(await end(busy))).toContain(
        `turn ${child.agentTurnId} of agent ${child.agentId} has ended`,
      );
      expect(await bench.store.listWaits(agentId)).toMatchObject([{ status: 'resolved' }]);
    });

    test('for something else stay, and what has come is kept until the agent is free for it (A4)', async () => {
      const agentId = await rested(waitFor(id('wait'), { kind: 'operator' }));
      const { tokenHash, triggerId } = await trigger(agentId);
      expect(await bench.store.fireTrigger(tokenHash, { text: 'news' })).toMatchObject({ disposition: 'kept' });
      expect(await postureOf(agentId)).toBe('waiting_for_operator');
      const asked = await bench.started(agentId);
      const next = await end(asked);
      expect(await instructionOf(next)).toContain(triggerId);
      await clean();
    });
  });

  describe('what wakes an agent', () => {
    test('comes once for each key, makes one turn together while the agent is busy, and nothing is lost (A9)', async () => {
      const agentId = newAgent();
      const lease = await bench.started(agentId);
      const { tokenHash } = await trigger(agentId);
      for (let hit = 1; hit <= 64; hit += 1) {
        const store = hit % 2 ? bench.store : bench.other;
        expect(await store.fireTrigger(tokenHash, { text: `hit ${hit}`, key: `k${hit}` })).toMatchObject({
          disposition: 'kept',
        });
      }
      expect(await bench.store.fireTrigger(tokenHash, { text: 'hit 1', key: 'k1' })).toMatchObject({
        disposition: 'duplicate',
      });
      const next = await end(lease);
      const said = await instructionOf(next);
      const hits = [...(said ?? '').matchAll(/^hit (\d+)$/gm)].map(([, hit]) => Number(hit));
      expect(hits).toEqual(Array.from({ length: 64 }, (_, at) => at + 1));
      expect(await eventsOf(agentId, 'wake')).toHaveLength(64);
      if (next) expect(await end(next)).toBeNull();
      expect(await bench.store.listTriggers(agentId)).toMatchObject([{ hits: 64 }]);
      await clean();
    });

    test('makes no turn where it says nothing, where its token is not known, revoked or of a stopped agent (A4, A9)', async () => {
      const agentId = await rested();
      const { tokenHash, triggerId } = await trigger(agentId);
      for (const text of [null, '', ' \n'])
        expect(await bench.store.fireTrigger(tokenHash, { text })).toMatchObject({ disposition: 'noted' });
      expect(await bench.store.fireTrigger(hash(), { text: 'x' })).toBeNull();
      await bench.store.setLifecycle(agentId, 'stopped', 'test');
      await expect(bench.store.fireTrigger(tokenHash, { text: 'x' })).rejects.toMatchObject({ code: 'agent_stopped' });
      await expect(bench.store.wakeAgent(agentId, { text: 'x' })).rejects.toMatchObject({ code: 'agent_stopped' });
      await bench.store.setLifecycle(agentId, 'started', '');
      expect(await bench.store.revokeTrigger(agentId, triggerId)).toBe(true);
      expect(await bench.store.revokeTrigger(agentId, triggerId)).toBe(true);
      expect(await bench.store.revokeTrigger(newAgent(), triggerId)).toBe(false);
      expect(await bench.store.fireTrigger(tokenHash, { text: 'x' })).toBeNull();
      expect(await bench.store.listTriggers(agentId, { open: true })).toEqual([]);
      await expect(bench.store.wakeAgent(newAgent(), { text: 'x' })).rejects.toMatchObject({ code: 'agent_not_found' });
      expect((await bench.store.getAgent(agentId))?.acceptedTurns).toBe(1);
      await clean();
    });

    test('wakes it by a word of the system (A4)', async () => {
      const agentId = await rested();
      const woken = await bench.store.wakeAgent(agentId, { text: 'look at the mail', key: 'once' });
      expect(woken.disposition).toBe('woken');
      expect(await instructionOf(woken.handover.next)).toContain('look at the mail');
      expect((await bench.store.wakeAgent(agentId, { text: 'look at the mail', key: 'once' })).disposition).toBe(
        'duplicate',
      );
    });

    test('fires at the times of a timer, on its grid, what was missed fires once, and none of a stopped agent (A6, A9)', async () => {
      const timerId = id('timer');
      const set = { type: 'set_timer', timerId, reason: 'mail', afterMs: 1_000, everyMs: 60_000 } as const;
      const agentId = await rested(set);
      const start = bench.now;
      bench.now = start + 1_000;
      const first = await fired(agentId);
      expect(await instructionOf(first?.next)).toContain(`timer ${timerId} has fired: mail`);
      await end(first?.next as Lease);
      bench.now = start + 200_000;
      const late = await fired(agentId);
      expect(late?.next).not.toBeNull();
      await end(late?.next as Lease);
      expect(await bench.store.listTimers(agentId)).toMatchObject([{ timerId, nextAt: start + 1_000 + 4 * 60_000 }]);
      await bench.store.setLifecycle(agentId, 'stopped', 'test');
      bench.now += 1_000_000;
      expect(await dueOf(agentId)).toEqual([]);
      await bench.store.setLifecycle(agentId, 'started', '');
      expect(await dueOf(agentId)).toHaveLength(1);
      expect(await bench.other.cancelTimer(agentId, timerId)).toBe(true);
      expect(await bench.other.cancelTimer(agentId, timerId)).toBe(false);
      expect(await dueOf(agentId)).toEqual([]);
      await clean();
    });

    test('is bounded where it is a time, which an agent brings about by itself (A10)', async () => {
      const timerId = id('timer');
      const agentId = await rested({ type: 'set_timer', timerId, reason: 'mail', afterMs: 60_000, everyMs: 60_000 });
      let turns = 0;
      for (let firing = 0; firing < 30; firing += 1) {
        bench.now += 60_000;
        const next = (await fired(agentId))?.next;
        if (!next) continue;
        turns += 1;
        await end(next);
      }
      expect(turns).toBe(25);
      expect(await bench.store.agentSummary(agentId)).toMatchObject({
        agent: { autonomousTurns: 25, came: 1 },
        lifecycle: { operatorHint: expect.stringContaining('25 turns by itself') },
      });
      // What comes from outside starts the count anew, and all that was kept is told.
      const woken = await bench.store.wakeAgent(agentId, { text: 'go on' });
      expect(await instructionOf(woken.handover.next)).toMatch(/timer .* has fired.*go on/s);
      expect((await bench.store.agentSummary(agentId))?.agent).toMatchObject({ autonomousTurns: 0, came: 0 });
      await clean();
    });

    test('is nothing for an agent that rests and waits for nothing: no time of it ever comes (A12)', async () => {
      const a = id('a');
      const agentId = await rested(
        create(a, { recheckAfterMs: 5_000, planStatus: 'needs_input' }),
        waitFor(id('wait')),
      );
      const lease = await bench.started(agentId);
      await effects(lease, 1, { type: 'complete', workItemId: a, resultSummary: null });
      const { tokenHash } = await trigger(agentId);
      await end(lease);
      const { handover } = (await bench.store.fireTrigger(tokenHash, { text: 'it is there' })) ?? {};
      await end(handover?.next as Lease);
      expect(await postureOf(agentId)).toBe('idle');
      bench.now += 10 * DEFAULT_DEADLINE_MS;
      expect(await dueOf(agentId)).toEqual([]);
      await clean();
    });

    test('that cannot be acted on is put off, and others come to theirs (A12)', async () => {
      const agentId = await rested(waitFor(id('wait'), { deadlineMs: 10 }));
      bench.now += 10;
      const [due] = await dueOf(agentId);
      await bench.store.putOffWake(due as DueWake, bench.now + 50);
      expect(await dueOf(agentId)).toEqual([]);
      expect(await bench.other.fireWake(due as DueWake)).toBeNull();
      bench.now += 50;
      expect(await fired(agentId)).toMatchObject({ next: { agentId } });
    });
  });

  describe('agents by what they are at', () => {
    test('are listed and counted by posture, status and profile (A5)', async () => {
      const prefix = id('listed');
      const made: Record<string, string> = {};
      const make = async (name: string, ...all: readonly WorkEffect[]) => {
        const agentId = `${prefix}-${name}`;
        made[name] = agentId;
        const lease = await bench.started(agentId);
        await effects(lease, 1, ...all);
        await end(lease);
      };
      await make('idle');
      await make('external', waitFor(id('wait')));
      await make('blocked', waitFor(id('wait'), { kind: 'timer', deadlineMs: 1e9 }));
      await make('stopped');
      await bench.store.setLifecycle(`${prefix}-stopped`, 'stopped', 'test');
      await bench.started(`${prefix}-open`);
      const within = { agentPrefixes: [`${prefix}-`], anyProfile: true };
      const listed = async (filter: object) => {
        const agents = await bench.other.listAgents(filter, within);
        expect(await bench.other.countAgents(filter, within)).toBe(agents.length);
        return agents.map(({ agentId }) => agentId.slice(prefix.length + 1));
      };
      expect(await listed({})).toEqual(['blocked', 'external', 'idle', 'open', 'stopped']);
      expect(await listed({ posture: 'idle' })).toEqual(['idle']);
      expect(await listed({ posture: 'waiting_for_external' })).toEqual(['external']);
      expect(await listed({ posture: 'blocked' })).toEqual(['blocked']);
      expect(await listed({ posture: 'archived' })).toEqual(['stopped']);
      expect(await listed({ posture: 'active_turn' })).toEqual(['open']);
      expect(await listed({ posture: 'has_queued_input' })).toEqual([]);
      expect(await listed({ posture: 'unknown' })).toEqual([]);
      expect(await listed({ agentStatus: 'asleep' })).toEqual(['blocked', 'external', 'idle']);
      expect(await listed({ profile: 'tester' })).toHaveLength(5);
      expect(await listed({ profile: 'other' })).toEqual([]);
    });

    test('are said to be at the same when an end is told again, until another turn has followed (A5)', async () => {
      const agentId = newAgent();
      const lease = await bench.started(agentId);
      await effects(lease, 1, waitFor(id('wait')));
      const agent = { posture: 'waiting_for_external', reason: 'the order is to come' };
      const first = await bench.store.commitTurn(fenceOf(lease), SUCCESS);
      expect(first).toMatchObject({ ended: { agent }, handover: { next: null } });
      // Whoever has heard nothing of the first time learns the same.
      expect(await bench.other.commitTurn(fenceOf(lease), SUCCESS)).toEqual(first);
      const second = await bench.started(agentId);
      await effects(second, 1);
      await end(second);
      expect((await bench.store.commitTurn(fenceOf(lease), SUCCESS)).ended).not.toHaveProperty('agent');
      await clean();
    });

    test('have a summary of what they have and have spent (A5)', async () => {
      const agentId = newAgent();
      const lease = await bench.started(agentId);
      await bench.think(lease, 1);
      expect(await bench.store.agentSummary(agentId)).toMatchObject({
        closure: null,
        schedulingPosture: { posture: 'active_turn', agentTurnId: lease.agentTurnId },
        model: { usage: { input: 10, output: 2 }, cost: 0.5 },
      });
      await end(lease);
      expect(await bench.store.agentSummary(agentId)).toMatchObject({
        version: 1,
        identity: { agentId, kind: 'named', visibility: 'public', parentAgentId: null, profile: 'tester' },
        agent: { status: 'asleep', pending: 0, turnIndex: 1, currentTurn: null },
        schedulingPosture: { posture: 'idle' },
        closure: { outcome: 'completed' },
        model: { usage: { input: 10, output: 2 }, cost: 0.5 },
        recentTurns: [{ agentTurnId: lease.agentTurnId, status: 'success' }],
      });
      expect(await bench.store.agentSummary(newAgent())).toBeNull();
    });
  });
}
