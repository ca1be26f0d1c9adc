/** Questions to people and their answers, as every store must do it. */
import { describe, expect, test } from '@jest/globals';
import type { Lease } from '../../../../workflows/contract/lease.ts';
import { fenceOf, newAgent, nth, result, type StoreBench } from '../store-bench.ts';

export function describeApprovals(bench: StoreBench): void {
  async function asked(): Promise<{ lease: Lease; callId: string; turn: string }> {
    const lease = await bench.started(newAgent());
    const { calls } = await bench.think(lease, 1, ['pay']);
    const callId = calls[0]?.callId ?? '';
    const requests = [{ callId, kind: 'call', tool: 'pay', reason: 'r' }] as const;
    await bench.store.askApprovals(fenceOf(lease), requests);
    return { lease, callId, turn: lease.agentTurnId };
  }

  async function unread(turn: string): Promise<boolean> {
    const due = await bench.dueAt(bench.now + 3_600_000, turn);
    return due?.unread === true;
  }

  describe('an answer to a question', () => {
    test('is unread for the supervisor until the turn has acted on it (K7)', async () => {
      const { lease, callId, turn } = await asked();
      expect(await unread(turn)).toBe(false);
      expect((await bench.store.answerApproval(turn, { callId, decision: 'approved' })).ack).toBe('applied');
      expect(await unread(turn)).toBe(true);
      const look = await bench.store.resolveWaiting(fenceOf(lease), [callId]);
      const answer = { kind: 'answer', seq: 1, answer: { callId, decision: 'approved' } };
      expect(look).toMatchObject({ items: [answer], waiting: [] });
      expect(await unread(turn)).toBe(true);
      const claim = { callId, first: true, by: nth(1), repeatable: false };
      expect(await bench.store.claimCall(fenceOf(lease), claim)).toMatchObject({ kind: 'go', edited: false });
      expect(await unread(turn)).toBe(false);
    });

    test('that refuses its call is acted on with the refusal, and one about a budget with the next step (K7, K9)', async () => {
      const { lease, callId, turn } = await asked();
      await bench.store.answerApproval(turn, { callId, decision: 'denied' });
      const budget = { callId: 'budget-1', kind: 'budget', tool: '', reason: 'r' } as const;
      await bench.store.askApprovals(fenceOf(lease), [budget]);
      const budgets = { maxSteps: 99 };
      await bench.store.answerApproval(turn, { callId: 'budget-1', decision: 'approved', budgets });
      const refusal = { callId, tool: 'pay', code: 'approval_denied', message: 'm' } as const;
      await bench.store.refuseCalls(fenceOf(lease), [refusal]);
      expect(await unread(turn)).toBe(true);
      await bench.store.openStep(fenceOf(lease), { stepIndex: 2, profileHash: lease.profileHash });
      expect(await unread(turn)).toBe(false);
    });

    test('leaves no room for a result from outside before its call was started (T14, K7)', async () => {
      const { lease, callId, turn } = await asked();
      const report = { callId, status: 'success', result: 1 } as const;
      expect((await bench.store.reportResult(turn, report)).ack).toBe('unknown');
      await bench.store.answerApproval(turn, { callId, decision: 'denied' });
      expect((await bench.store.reportResult(turn, report)).ack).toBe('unknown');
      const refusal = { callId, tool: 'pay', code: 'approval_denied', message: 'm' } as const;
      const [settled] = await bench.store.refuseCalls(fenceOf(lease), [refusal]);
      expect(settled).toMatchObject({ status: 'failed', errorCode: 'approval_denied' });
      expect((await bench.store.reportResult(turn, report)).ack).toBe('duplicate');
    });

    test('that repeats the proposed arguments changes nothing of them (K7)', async () => {
      const { lease, callId, turn } = await asked();
      await bench.store.answerApproval(turn, { callId, decision: 'approved', arguments: {} });
      const claim = { callId, first: true, by: nth(1), repeatable: false };
      expect(await bench.store.claimCall(fenceOf(lease), claim)).toMatchObject({ kind: 'go', edited: false });
    });

    test('stands in the result with what it changed and why (K7)', async () => {
      const { lease, callId, turn } = await asked();
      const approval = { by: 'ann', reason: 'less will do', arguments: { amount: 3 } };
      await bench.store.answerApproval(turn, { callId, decision: 'approved', ...approval });
      const content = result(callId, { tool: 'pay' });
      await bench.store.settleCall(fenceOf(lease), { callId, attempt: 1, content, durationMs: 1 });
      const view = await bench.store.getTurn(turn);
      expect(view?.steps.flatMap((step) => step.calls)).toMatchObject([{ callId, arguments: {}, approval }]);
    });
  });
}
