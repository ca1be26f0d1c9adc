/** A turn as people read it, as every store must tell it. */
import { describe, expect, test } from '@jest/globals';
import type { TranscriptEntry } from '../../../../workflows/contract/transcript.ts';
import { fenceOf, newAgent, result, type StoreBench, SUCCESS } from '../store-bench.ts';

const DAY = 24 * 60 * 60_000;

export function describeTranscripts(bench: StoreBench): void {
  const kinds = (entries: readonly TranscriptEntry[] | null) => entries?.map(({ kind }) => kind);

  /** A turn with a steer, a call that somebody approved, a question about its budget, and an end; and a turn of the same agent behind it. */
  async function told(): Promise<string> {
    const agentId = newAgent();
    const lease = await bench.started(agentId);
    const [fence, turn] = [fenceOf(lease), lease.agentTurnId];
    const { calls } = await bench.think(lease, 1, ['pay']);
    const callId = calls[0]?.callId ?? '';
    bench.now += 10;
    await bench.store.askApprovals(fence, [{ callId, kind: 'call', tool: 'pay', reason: 'money leaves' }]);
    bench.now += 10;
    await bench.store.answerApproval(turn, { callId, decision: 'approved', by: 'ann', reason: 'fine' });
    await bench.store.settleCall(fence, { callId, attempt: 1, content: result(callId), durationMs: 1 });
    bench.now += 10;
    const budget = { code: 'max_steps_reached', used: 1, limit: 1 } as const;
    await bench.store.askApprovals(fence, [
      { callId: 'budget-1', kind: 'budget', tool: '', reason: 'used up', budget },
    ]);
    await bench.store.setBudgets(turn, { maxSteps: 9 });
    bench.now += 10;
    await bench.store.steerTurn(turn, 'be quick');
    const opening = await bench.store.openStep(fence, { stepIndex: 2, profileHash: lease.profileHash });
    await bench.committed(lease, 2, { steerIds: opening.steers.map(({ cardId }) => cardId) });
    const next = await bench.accepted(agentId);
    await bench.store.commitTurn(fence, SUCCESS);
    await bench.ended(await bench.leased(agentId));
    expect(kinds(await bench.store.readTranscript(next))).toContain('deliverable');
    return turn;
  }

  describe('a transcript', () => {
    test('tells what was asked, said, called, answered and delivered, in the order of the conversation, and nothing of other turns', async () => {
      const entries = (await bench.other.readTranscript(await told())) ?? [];
      expect(kinds(entries)).toEqual([
        'request',
        'thought',
        'call',
        'result',
        'budget',
        'steer',
        'thought',
        'deliverable',
      ]);
      const question = { status: 'approved', reason: 'money leaves', answeredBy: 'ann', comment: 'fine' };
      expect(entries[2]).toMatchObject({ tool: 'pay', stepIndex: 1, question });
      expect(entries[3]).toMatchObject({ tool: 't', status: 'success' });
      expect(entries[4]).toMatchObject({ reason: 'used up', status: 'approved', budgets: { maxSteps: 9 } });
      expect(entries[5]).toMatchObject({ text: 'be quick', hidden: null });
    });

    test('is the same in pages of any size', async () => {
      const turn = await told();
      const whole = await bench.store.readTranscript(turn);
      for (const limit of [1, 2, 3, 4]) {
        const entries: TranscriptEntry[] = [];
        for (let after = 0; ; ) {
          const page = (await bench.store.readTranscript(turn, { after, limit })) ?? [];
          entries.push(...page);
          const last = page.at(-1);
          if (!last) break;
          after = last.seq;
        }
        expect(entries).toEqual(whole);
      }
    });

    test('ends behind a question about a budget that nobody has answered, however it is paged', async () => {
      const lease = await bench.started(newAgent());
      await bench.think(lease, 1);
      bench.now += 10;
      const budget = { code: 'max_steps_reached', used: 1, limit: 1 } as const;
      const question = { callId: 'budget-1', kind: 'budget', tool: '', reason: 'used up', budget } as const;
      await bench.store.askApprovals(fenceOf(lease), [question]);
      for (const limit of [1, 2, 3]) {
        const entries: TranscriptEntry[] = [];
        for (let after = 0; entries.length < 10; ) {
          const page = (await bench.store.readTranscript(lease.agentTurnId, { after, limit })) ?? [];
          entries.push(...page);
          const last = page.at(-1);
          if (!last) break;
          after = last.seq;
        }
        expect(kinds(entries)).toEqual(['request', 'thought', 'budget']);
      }
    });

    test('has a question about a budget behind the card that it followed, though the clock was ahead then', async () => {
      const lease = await bench.started(newAgent());
      bench.now += DAY;
      await bench.think(lease, 1);
      bench.now -= DAY;
      const budget = { code: 'max_steps_reached', used: 1, limit: 1 } as const;
      const question = { callId: 'budget-1', kind: 'budget', tool: '', reason: 'used up', budget } as const;
      await bench.store.askApprovals(fenceOf(lease), [question]);
      await bench.store.setBudgets(lease.agentTurnId, { maxSteps: 9 });
      await bench.think(lease, 2);
      for (const limit of [1, 2, 9]) {
        const pages: TranscriptEntry[] = [];
        for (let after = 0; ; after = pages.at(-1)?.seq ?? 0) {
          const page = (await bench.store.readTranscript(lease.agentTurnId, { after, limit })) ?? [];
          if (page.length === 0) break;
          pages.push(...page);
        }
        expect(kinds(pages)).toEqual(['request', 'thought', 'budget', 'thought']);
        const times = pages.map(({ at }) => at);
        expect(times).toEqual([...times].sort((a, b) => a - b));
      }
    });

    test('has what was taken back, marked, and is its request and its end for a turn that never ran', async () => {
      const agentId = newAgent();
      const lease = await bench.started(agentId);
      const { thoughtSeq } = await bench.think(lease, 1);
      const queued = await bench.accepted(agentId);
      expect(kinds(await bench.store.readTranscript(queued))).toEqual(['request']);
      await bench.store.stopTurn(queued, 'not needed');
      expect(kinds(await bench.store.readTranscript(queued))).toEqual(['request', 'deliverable']);
      await bench.store.openStep(fenceOf(lease), { stepIndex: 2, profileHash: lease.profileHash, hide: [thoughtSeq] });
      const entries = await bench.store.readTranscript(lease.agentTurnId);
      expect(entries?.map(({ hidden }) => hidden)).toEqual([null, 'rolled_back']);
      expect(await bench.store.readTranscript('nobody')).toBeNull();
    });
  });
}
