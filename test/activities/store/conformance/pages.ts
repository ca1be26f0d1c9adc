/** Lists, a page at a time, as every store must show them. */
import { describe, expect, test } from '@jest/globals';
import { v7 } from 'uuid';
import type { ApprovalFilter, ApprovalView } from '../../../../workflows/contract/approvals.ts';
import type { AgentFilter, AgentView } from '../../../../workflows/contract/views.ts';
import { fenceOf, newAgent, type StoreBench } from '../store-bench.ts';

export function describePages(bench: StoreBench): void {
  describe('lists', () => {
    test('of agents are by id; each page begins behind the last one of the page before', async () => {
      const prefix = `paged-${v7()}`;
      const ids = Array.from({ length: 5 }, (_, index) => `${prefix}-${index}`);
      for (const agentId of ids.toReversed()) await bench.started(agentId);
      const found: AgentView[] = [];
      for (let after = prefix; ; after = found.at(-1)?.agentId ?? '') {
        const page = await bench.store.listAgents({ after, limit: 2 });
        expect(page.length).toBeLessThanOrEqual(2);
        found.push(...page.filter(({ agentId }) => agentId.startsWith(prefix)));
        if (found.length === ids.length || page.length < 2) break;
      }
      expect(found.map(({ agentId }) => agentId)).toEqual(ids);
      for (const view of found) expect(view).toEqual(await bench.store.getAgent(view.agentId));
    });

    test('of agents leave one-shot agents out whose turn has ended, unless they are asked for', async () => {
      const prefix = 'run-';
      const ids = Array.from({ length: 6 }, () => `${prefix}${v7()}`);
      const [ended = '', twice = '', triggered = '', stopped = '', failed = '', open = ''] = ids;
      for (const agentId of [ended, twice, triggered, stopped]) await bench.ended(await bench.started(agentId));
      await bench.ended(await bench.started(twice));
      const trigger = v7();
      await bench.store.createTrigger(triggered, { triggerId: trigger, name: 'mail', tokenHash: trigger });
      await bench.store.setLifecycle(stopped, 'stopped', 'test');
      await bench.store.stopTurn((await bench.started(failed)).agentTurnId, 'enough');
      await bench.started(open);
      const named = `${prefix}of-a-user`;
      await bench.ended(await bench.started(named));
      const within = { agentPrefixes: [prefix], anyProfile: true };
      const listed = async (filter: AgentFilter) => {
        const found: string[] = [];
        for (let after = ''; ; after = found.at(-1) ?? '') {
          const page = await bench.other.listAgents({ ...filter, after, limit: 2 }, within);
          found.push(...page.map(({ agentId }) => agentId));
          if (page.length < 2) break;
        }
        expect(await bench.other.countAgents(filter, within)).toBe(found.length);
        return found;
      };
      const others = [twice, triggered, stopped, open, named];
      expect(await listed({})).toEqual(others.toSorted());
      expect(await listed({ oneShot: 'only' })).toEqual([ended, failed].toSorted());
      expect(await listed({ oneShot: 'with' })).toEqual([...ids, named].toSorted());
      expect(await listed({ posture: 'idle', profile: 'tester' })).toEqual([twice, triggered, named].toSorted());
      expect(await listed({ posture: 'idle', oneShot: 'only' })).toEqual([ended, failed].toSorted());
      for (const agentId of [...ids, named]) expect(await bench.store.rebuildAgent(agentId)).toEqual([]);
      await bench.started(ended);
      expect(await listed({ oneShot: 'only' })).toEqual([failed]);
    });

    test('of turns are oldest first; each page begins behind the last one of the page before', async () => {
      const agentId = newAgent();
      const ids = [(await bench.started(agentId)).agentTurnId];
      for (let turn = 1; turn < 5; turn += 1) ids.push(await bench.accepted(agentId));
      const first = await bench.store.listTurns(agentId, { limit: 2 });
      const second = await bench.store.listTurns(agentId, { limit: 2, after: first[1]?.acceptSeq ?? 0 });
      const third = await bench.store.listTurns(agentId, { limit: 2, after: second[1]?.acceptSeq ?? 0 });
      expect([first, second, third].map((page) => page.length)).toEqual([2, 2, 1]);
      expect([...first, ...second, ...third].map(({ agentTurnId }) => agentTurnId)).toEqual(ids);
      const queued = await bench.store.listTurns(agentId, { status: 'queued', limit: 1, after: 3 });
      expect(queued.map(({ agentTurnId }) => agentTurnId)).toEqual([ids[3]]);
    });

    test('of questions are oldest first; each page begins behind the last one of the page before (K7)', async () => {
      const asked: string[] = [];
      const agents = [newAgent(), newAgent()];
      for (const agentId of agents) {
        const lease = await bench.started(agentId);
        const requests = [1, 2, 3].map((index) => ({
          callId: `budget-${index}-max_steps_reached`,
          kind: 'budget' as const,
          tool: '',
          reason: 'used up',
          budget: { code: 'max_steps_reached', used: 2, limit: 2 } as const,
        }));
        await bench.store.askApprovals(fenceOf(lease), requests);
        asked.push(...requests.map(({ callId }) => `${lease.agentTurnId} ${callId}`));
        bench.now += 1;
      }
      const paged = async (filter: ApprovalFilter) => {
        const found: ApprovalView[] = [];
        for (let page: readonly ApprovalView[] | undefined; page === undefined || page.length === 2; ) {
          const last = found.at(-1);
          page = await bench.store.listApprovals({ ...filter, ...(last ? { after: last } : {}), limit: 2 });
          found.push(...page);
        }
        return found
          .filter(({ agentId }) => agents.includes(agentId))
          .map(({ agentTurnId, callId }) => `${agentTurnId} ${callId}`);
      };
      expect(await paged({})).toEqual(asked);
      expect(await paged({ all: true })).toEqual(asked);
      const [agentId = ''] = agents;
      for (const all of [false, true]) expect(await paged({ agentId, all })).toEqual(asked.slice(0, 3));
      const [rootTurnId = ''] = asked[4]?.split(' ') ?? [];
      expect(await paged({ rootTurnId, all: true })).toEqual(asked.slice(3));
      expect(await paged({ rootTurnId, callId: 'budget-2-max_steps_reached' })).toEqual([asked[4]]);
    });
  });
}
