/** Lists over a whole store, as every store must give them. */
import { describe, expect, test } from '@jest/globals';
import type { InboxEntry, TurnSummary } from '../../../../workflows/contract/lists.ts';
import { fenceOf, newAgent, type StoreBench } from '../store-bench.ts';

export function describeLists(bench: StoreBench): void {
  describe('the turns of a store', () => {
    test('are listed newest first, by status, agent, profile and age, in pages', async () => {
      bench.now += 1_000;
      const since = bench.now;
      const agentId = newAgent();
      const done = await bench.started(agentId);
      await bench.ended(done);
      bench.now += 10;
      const open = await bench.started(agentId);
      const queued = await bench.accepted(agentId);
      const find = async (query: object) =>
        (await bench.other.findTurns({ since, ...query })).map(({ agentTurnId }) => agentTurnId);
      const ids = [done.agentTurnId, open.agentTurnId, queued];
      const newestFirst = await find({ agentId });
      expect(newestFirst.toSorted()).toEqual(ids.toSorted());
      expect(newestFirst.at(-1)).toBe(done.agentTurnId);
      expect(await find({ agentId, status: ['success', 'failed'] })).toEqual([done.agentTurnId]);
      expect(await find({ agentId, profile: 'nobody' })).toEqual([]);
      expect(await find({ agentId, since: bench.now })).toHaveLength(2);
      const pages: TurnSummary[] = [];
      for (let before: TurnSummary | undefined; ; before = pages.at(-1)) {
        const page = await bench.store.findTurns({ since, agentId, limit: 1, ...(before ? { before } : {}) });
        if (page.length === 0) break;
        pages.push(...page);
      }
      expect(pages.map(({ agentTurnId }) => agentTurnId)).toEqual(newestFirst);
    });

    test.each([
      ['many letters', 'a'.repeat(30_000)],
      ['pairs of surrogates', '\u{1F600}'.repeat(7_000)],
      ['what JSON escapes', '"\\\n\u0001'.repeat(3_000)],
      ['nothing but a word', 'go'],
    ])('say the beginning of %s that was asked, whole characters alone', async (_, instruction) => {
      const agentId = newAgent();
      await bench.accepted(agentId, { instruction });
      const [turn] = await bench.store.findTurns({ agentId });
      expect(instruction.startsWith((turn?.asked ?? 'none').replace(/…$/, ''))).toBe(true);
      expect(turn?.asked.length).toBeGreaterThan(Math.min(instruction.length, 60) - 1);
      expect(turn?.asked.isWellFormed()).toBe(true);
    });

    test('are added up by agent and by profile; a cost that is not known is counted, not guessed (W17)', async () => {
      bench.now += 1_000;
      const since = bench.now;
      const [one, two] = [newAgent(), newAgent()];
      const lease = await bench.started(one);
      await bench.committed(lease, 1, { cost: 0.5 });
      await bench.ended(lease);
      const unknown = await bench.started(two);
      await bench.committed(unknown, 1, { cost: null });
      const byAgent = await bench.store.spending({ by: 'agent', since });
      expect(byAgent).toEqual([
        { of: one, turns: 1, failed: 0, tokens: 2, cost: 0.5, uncosted: 0 },
        { of: two, turns: 1, failed: 0, tokens: 2, cost: 0, uncosted: 1 },
      ]);
      expect(await bench.store.spending({ by: 'profile', since })).toMatchObject([
        { turns: 2, cost: 0.5, uncosted: 1 },
      ]);
    });
  });

  describe('what waits for somebody outside', () => {
    test('is listed with its question, its arguments, who may answer and what it holds up, until it is answered', async () => {
      const agentId = newAgent();
      const lease = await bench.started(agentId);
      const { calls } = await bench.think(lease, 1, ['pay', 'ask']);
      const [paid = '', asked = ''] = calls.map(({ callId }) => callId);
      const fence = fenceOf(lease);
      await bench.store.askApprovals(fence, [{ callId: paid, kind: 'call', tool: 'pay', reason: 'money leaves' }]);
      bench.now += 1;
      await bench.store.suspendCall(fence, asked, 60_000);
      await bench.accepted(agentId);
      const mine = (entries: readonly InboxEntry[]) => entries.filter((entry) => entry.agentId === agentId);
      const all = mine(await bench.store.listInbox({ limit: 10_000 }));
      expect(all).toMatchObject([
        { kind: 'approval', callId: paid, tool: 'pay', reason: 'money leaves', approvers: [], queuedBehind: 1 },
        { kind: 'result', callId: asked, tool: 'ask', reason: null, queuedBehind: 1 },
      ]);
      const [first] = all;
      const behind = await bench.other.listInbox({ limit: 10_000, ...(first ? { after: first } : {}) });
      expect(mine(behind).map(({ callId }) => callId)).toEqual([asked]);
      await bench.store.answerApproval(lease.agentTurnId, { callId: paid, decision: 'denied' });
      await bench.store.reportResult(lease.agentTurnId, { callId: asked, status: 'success', result: 1 });
      expect(mine(await bench.store.listInbox({ limit: 10_000 }))).toEqual([]);
    });
  });
}
