/** What webhooks are told of the log, as every store must keep it. */
import { describe, expect, test } from '@jest/globals';
import { v7 } from 'uuid';
import { type FoundEvent, TOPICS, type Topic } from '../../../../workflows/contract/webhooks.ts';
import { fenceOf, newAgent, type StoreBench } from '../store-bench.ts';

const TTL = 10_000;

export function describeWebhooks(bench: StoreBench): void {
  describe('webhooks', () => {
    /** A webhook that is made now, and what is found for it from then on. */
    async function opened() {
      const webhookId = v7();
      const from = await bench.store.openWebhook(webhookId);
      const find = () => bench.store.findEvents(from, 1_000);
      const due = async () =>
        (await bench.store.dueAgents(webhookId, 100)).map(({ agentId, seq }) => ({ agentId, seq }));
      const note = async () => bench.other.noteFound(webhookId, await find());
      const told = (agentId: string, at: number, event: FoundEvent | null, topics: readonly Topic[] = TOPICS) =>
        bench.store.noteSent({ webhookId, agentId, from: at, event, topics });
      const view = async () => (await bench.store.listWebhooks()).find((each) => each.webhookId === webhookId);
      return { webhookId, from, find, due, note, told, view };
    }

    /** A turn of a new agent that has ended. */
    async function ended(agentId = newAgent()): Promise<string> {
      await bench.ended(await bench.started(agentId));
      return agentId;
    }

    test('are told by one holder of the lease at a time, which is not that of the supervisor', async () => {
      await bench.store.holdSupervisorLease('s', TTL);
      expect(await bench.store.holdWebhookLease('a', TTL)).toBe(true);
      expect(await bench.other.holdWebhookLease('b', TTL)).toBe(false);
      bench.now += TTL - 1;
      expect(await bench.store.holdWebhookLease('a', TTL)).toBe(true);
      bench.now += TTL;
      expect(await bench.other.holdWebhookLease('b', TTL)).toBe(true);
      expect(await bench.store.holdWebhookLease('a', TTL)).toBe(false);
      await bench.store.releaseWebhookLease('a');
      expect(await bench.store.holdWebhookLease('a', TTL)).toBe(false);
      await bench.other.releaseWebhookLease('b');
      expect(await bench.store.holdWebhookLease('a', TTL)).toBe(true);
      await bench.store.releaseWebhookLease('a');
    });

    test('find ends of turns and what waits for people, each by its topic, and nothing from before they were made', async () => {
      await ended();
      const { find, webhookId, from } = await opened();
      expect(await find()).toEqual([]);
      const agentId = newAgent();
      const lease = await bench.started(agentId);
      const callId = await bench.suspended(lease);
      await bench.store.reportResult(lease.agentTurnId, { callId, status: 'success' });
      const { calls } = await bench.think(lease, 2, ['pay']);
      await bench.store.askApprovals(fenceOf(lease), [
        { callId: calls[0]?.callId ?? '', kind: 'call', tool: 'pay', reason: 'r' },
        { callId: 'budget-1', kind: 'budget', tool: '', reason: 'r' },
      ]);
      await bench.store.stopTurn(lease.agentTurnId, 'enough');
      const found = await find();
      expect(found.map(({ topic }) => topic)).toEqual(['call.waiting', 'approval.asked', 'budget.asked', 'turn.ended']);
      const ids = found.map(({ id }) => id);
      expect(ids).toEqual([...ids].sort((a, b) => a - b));
      expect(await bench.store.findEvents(ids[0] ?? 0, 2)).toEqual(found.slice(1, 3));
      const all = await bench.store.readTopicEvents(agentId, 0, TOPICS, 10);
      expect(all.map(({ id, seq, topic }) => ({ id, seq, topic, agentId }))).toEqual(
        found.map(({ id, seq, topic }) => ({ id, seq, topic, agentId })),
      );
      expect(all.at(-1)).toMatchObject({ type: 'task', agentTurnId: lease.agentTurnId, payload: { status: 'failed' } });
      const seq = found[1]?.seq ?? 0;
      expect(await bench.store.readTopicEvents(agentId, seq, ['approval.asked', 'turn.ended'], 10)).toEqual(
        all.slice(3),
      );
      expect(await bench.store.readTopicEvents(agentId, 0, TOPICS, 2)).toEqual(all.slice(0, 2));
      // Made once: what happened since is still to be found.
      expect(await bench.other.openWebhook(webhookId)).toBe(from);
    });

    test('say of which agents something is to be told, from the first event on, the one that waits longest first', async () => {
      const { note, due, find, told, view } = await opened();
      const one = await ended();
      const two = await ended();
      await ended(one);
      await note();
      await note();
      const [first, , second] = await find();
      expect(await due()).toHaveLength(2);
      expect(await due()).toEqual(
        expect.arrayContaining([
          { agentId: one, seq: (first?.seq ?? 0) - 1 },
          { agentId: two, seq: (first?.seq ?? 0) - 1 },
        ]),
      );
      expect(await view()).toMatchObject({ agentsBehind: 2, sent: 0, failed: 0, lastError: null, lastSentAt: null });
      bench.now += 5;
      expect(await told(one, (first?.seq ?? 0) - 1, first ?? null)).toBe(true);
      expect((await due()).map(({ agentId }) => agentId)).toEqual([two, one]);
      expect(await told(one, first?.seq ?? 0, second ?? null)).toBe(true);
      expect((await due()).map(({ agentId }) => agentId)).toEqual([two]);
      expect(await view()).toMatchObject({ agentsBehind: 1, sent: 2, lastSentAt: bench.now });
    });

    test('move only from where they were: who was overtaken has told nothing', async () => {
      const { note, told, find, view } = await opened();
      const agentId = await ended();
      await note();
      const [event] = await find();
      const before = (event?.seq ?? 0) - 1;
      const outcomes = await Promise.all([1, 2, 3].map(() => told(agentId, before, event ?? null)));
      expect(outcomes.sort()).toEqual([false, false, true]);
      expect(await view()).toMatchObject({ sent: 1, agentsBehind: 0 });
    });

    test('are not told again of what is found again, and are told of what came meanwhile', async () => {
      const { note, told, find, due } = await opened();
      const agentId = await ended();
      await note();
      const [first] = await find();
      await told(agentId, (first?.seq ?? 0) - 1, first ?? null);
      await note();
      expect(await due()).toEqual([]);
      await ended(agentId);
      await note();
      expect(await due()).toEqual([{ agentId, seq: first?.seq }]);
      // What came behind it, and was not found yet, is told as well.
      const [, second] = await find();
      await ended(agentId);
      await told(agentId, first?.seq ?? 0, second ?? null);
      expect(await due()).toEqual([{ agentId, seq: second?.seq }]);
      const [, , third] = await find();
      await told(agentId, second?.seq ?? 0, third ?? null);
      await note();
      expect(await due()).toEqual([]);
    });

    test('want some topics alone: an agent with nothing of them is passed', async () => {
      const { note, told, find, due } = await opened();
      const agentId = await ended();
      await note();
      const [event] = await find();
      expect(await told(agentId, (event?.seq ?? 0) - 1, null, ['budget.asked'])).toBe(true);
      expect(await due()).toEqual([]);
    });

    test('that fail are tried later, and count', async () => {
      const { webhookId, note, told, find, due, view } = await opened();
      const agentId = await ended();
      await note();
      const [event] = await find();
      const from = (event?.seq ?? 0) - 1;
      const failure = { webhookId, agentId, from, error: 'status 500', delayMs: 3_000 };
      await bench.store.noteFailed(failure);
      await note();
      bench.now += 2_999;
      expect(await due()).toEqual([]);
      bench.now += 1;
      expect(await bench.store.dueAgents(webhookId, 10)).toEqual([{ agentId, seq: from, failures: 1 }]);
      await bench.store.noteFailed({ ...failure, from: from + 1 });
      expect(await bench.store.dueAgents(webhookId, 10)).toEqual([{ agentId, seq: from, failures: 1 }]);
      expect(await view()).toMatchObject({ failed: 2, lastError: 'status 500', lastFailedAt: bench.now });
      await told(agentId, from, event ?? null);
      expect(await view()).toMatchObject({ agentsBehind: 0, sent: 1 });
    });

    test('forget agents of which all is told and whose events are searched no more; others begin where they are', async () => {
      const { webhookId, note, told, find, due } = await opened();
      const [done, behind] = [await ended(), await ended()];
      await note();
      const [first, second] = await find();
      await told(done, (first?.seq ?? 0) - 1, first ?? null);
      await bench.store.noteSearched(webhookId, second?.id ?? 0);
      expect(await bench.store.openWebhook(webhookId)).toBe(second?.id);
      await bench.store.noteSearched(webhookId, first?.id ?? 0);
      expect(await bench.store.openWebhook(webhookId)).toBe(second?.id);
      expect(await told(done, first?.seq ?? 0, null)).toBe(false);
      expect(await due()).toEqual([{ agentId: behind, seq: (second?.seq ?? 0) - 1 }]);
      await ended(done);
      await note();
      // Found again from before: its first event was told. The search goes on behind what was searched, and does not find it.
      const found = await bench.store.findEvents(second?.id ?? 0, 10);
      expect(found).toMatchObject([{ agentId: done }]);
    });

    test('many at once are found page by page, and none twice', async () => {
      const { webhookId, from, find } = await opened();
      const agents = Array.from({ length: 30 }, newAgent);
      await Promise.all(agents.map((agentId) => ended(agentId)));
      const pages: FoundEvent[] = [];
      for (let after = from; ; after = pages.at(-1)?.id ?? after) {
        const page = await bench.store.findEvents(after, 7);
        await bench.store.noteFound(webhookId, page);
        pages.push(...page);
        if (page.length < 7) break;
      }
      expect(pages).toEqual(await find());
      expect((await bench.store.dueAgents(webhookId, 100)).map(({ agentId }) => agentId).sort()).toEqual(agents.sort());
      expect(await bench.store.dueAgents(webhookId, 7)).toHaveLength(7);
    });
  });
}
