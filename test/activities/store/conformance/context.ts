/** What leaves the view of a conversation, and what a turn remembers of earlier ones, as every store must do it. */

import { describe, expect, test } from '@jest/globals';
import { callId as callIdOf } from '../../../../activities/ids.ts';
import type { Lease } from '../../../../workflows/contract/lease.ts';
import type { BudgetAsk } from '../../../../workflows/kernel/budgets.ts';
import type { BudgetChange } from '../../../../workflows/protocol/profile.ts';
import { answersIn, budgetsIn } from '../../../support/inbox.ts';
import { fenceOf, newAgent, nth, result, type StoreBench, SUCCESS } from '../store-bench.ts';

const NO_COST = { usage: { input: 30, output: 5, cached: 0 }, cost: 0.25 };

export function describeContext(bench: StoreBench): void {
  const textsOf = async ({ outputBoxId: boxId }: Lease) => {
    const cards = await bench.store.readExtents([{ boxId, fromSeq: 1, toSeq: 100 }]);
    return cards.flatMap((card) => ('text' in card.content ? [card.content.text] : []));
  };

  describe('a conversation', () => {
    test('shows a summary in place of the cards it stands for; they stay in their box (K15)', async () => {
      const lease = await bench.started(newAgent());
      const first = await bench.think(lease, 1);
      const second = await bench.think(lease, 2);
      const { outputBoxId: boxId, agentTurnId } = lease;
      const hide = [{ boxId, fromSeq: first.thoughtSeq, toSeq: first.thoughtSeq }];
      expect(await bench.store.findSummary(fenceOf(lease), hide)).toBeNull();
      const commit = { stepIndex: 3, text: 'in short', hide, ...NO_COST };
      const summary = await bench.store.commitSummary(fenceOf(lease), commit);
      expect(summary).toMatchObject({ seq: second.thoughtSeq + 1, ...NO_COST });
      expect(await bench.store.commitSummary(fenceOf(lease), { ...commit, text: 'again' })).toEqual(summary);
      expect(await bench.store.findSummary(fenceOf(lease), hide)).toEqual(summary);
      expect(await textsOf(lease)).toEqual(['do it', 'thought 2', 'in short']);
      const view = await bench.store.getTurn(agentTurnId);
      expect(view?.usage).toEqual({ input: 50, output: 9, cached: 0 });
      expect(view?.cost).toBe(1.25);
    });

    test('tells of its summaries under the lease alone: a model may be asked for what is not there (T5)', async () => {
      const lease = await bench.started(newAgent());
      const early = { ...fenceOf(lease), acting: nth(1) };
      const late = { ...fenceOf(lease), acting: nth(2) };
      await bench.store.openStep(late, { stepIndex: 1, profileHash: lease.profileHash });
      await expect(bench.other.findSummary(early, [])).rejects.toMatchObject({ code: 'call_overtaken' });
      expect(await bench.other.findSummary(late, [])).toBeNull();
      await bench.reaped(lease);
      await expect(bench.other.findSummary(late, [])).rejects.toMatchObject({ code: 'stale_epoch' });
    });

    test('loses the cards of a step that was taken back (K13)', async () => {
      const lease = await bench.started(newAgent());
      const { thoughtSeq } = await bench.think(lease, 1);
      await bench.store.openStep(fenceOf(lease), { stepIndex: 2, profileHash: lease.profileHash, hide: [thoughtSeq] });
      expect(await textsOf(lease)).toEqual(['do it']);
    });

    test('loses them also when the turn ends at once, and the next turn does not remember them (K13)', async () => {
      const lease = await bench.started(newAgent());
      const { thoughtSeq } = await bench.think(lease, 1);
      await bench.store.commitTurn(fenceOf(lease), { ...SUCCESS, hide: [thoughtSeq] });
      expect(await textsOf(lease)).toEqual(['do it']);
      const next = await bench.started(lease.agentId);
      const cards = await bench.store.readExtents(next.earlier);
      expect(cards.map(({ type }) => type)).toEqual(['task.instruction', 'task.deliverable']);
    });

    test('is remembered by the next turn as one unit for each earlier turn, with its size, without what is hidden (K15, T24)', async () => {
      const agentId = newAgent();
      const first = await bench.started(agentId);
      const { thoughtSeq, thoughtTokens } = await bench.think(first, 1, ['t']);
      const callId = callIdOf(first.agentTurnId, 1, 0);
      await bench.store.claimCall(fenceOf(first), { callId, first: true, by: nth(1), repeatable: false });
      const long = result(callId, { result: 'x'.repeat(4_000) });
      const { tokens } = await bench.store.settleCall(fenceOf(first), {
        callId,
        attempt: 1,
        content: long,
        durationMs: 1,
      });
      await bench.store.commitTurn(fenceOf(first), SUCCESS);
      const second = await bench.started(agentId);
      const [unit, ...rest] = second.earlier;
      expect(rest).toEqual([]);
      expect(unit).toMatchObject({ boxId: first.outputBoxId, fromSeq: 1 });
      const [full = 0, snipped = 0, preview = 0, collapsed = 0] = unit?.tokens ?? [];
      expect(full).toBeGreaterThan(tokens + thoughtTokens);
      expect([full > preview, snipped >= preview, preview > collapsed]).toEqual([true, true, true]);
      expect(full - preview).toBe(tokens - 200);
      expect(full - collapsed).toBe(tokens - 60);
      const hide = [{ boxId: first.outputBoxId, fromSeq: thoughtSeq, toSeq: unit?.toSeq ?? 0 }];
      await bench.store.commitSummary(fenceOf(second), { stepIndex: 1, text: 's', hide, ...NO_COST });
      await bench.store.commitTurn(fenceOf(second), SUCCESS);
      const third = await bench.started(agentId);
      expect(third.earlier.reduce((sum, { tokens: sizes }) => sum + (sizes?.[0] ?? 0), 0)).toBeLessThan(full);
    });

    test('of many turns is remembered in a bounded number of units (K3)', async () => {
      const agentId = newAgent();
      for (let turn = 0; turn < 70; turn += 1)
        await bench.store.commitTurn(fenceOf(await bench.started(agentId)), SUCCESS);
      const { earlier } = await bench.started(agentId);
      expect(earlier.length).toBeLessThanOrEqual(64);
      expect(earlier[0]?.fromSeq).toBe(1);
      for (const [index, unit] of earlier.slice(1).entries())
        expect(unit.fromSeq).toBeGreaterThan(earlier[index]?.toSeq ?? 0);
    });

    test('is remembered whole, however many turns it has and whatever of it is summarised (K15)', async () => {
      const agentId = newAgent();
      const remembered = async () => {
        const lease = await bench.started(agentId);
        const shown = await bench.store.readExtents(lease.earlier);
        const tokens = lease.earlier.reduce((sum, unit) => sum + (unit.tokens?.[0] ?? 0), 0);
        expect(tokens).toBe(shown.reduce((sum, card) => sum + card.tokens + 8, 0));
        return { lease, shown };
      };
      for (let turn = 0; turn < 135; turn += 1) {
        const lease = await bench.started(agentId);
        await bench.store.commitTurn(fenceOf(lease), SUCCESS);
      }
      const { lease, shown } = await remembered();
      expect(shown).toHaveLength(2 * 135);
      const [oldest, , second] = lease.earlier;
      const hide = [{ boxId: lease.outputBoxId, fromSeq: 1, toSeq: second?.fromSeq ?? 0 }];
      expect(oldest).toMatchObject({ fromSeq: 1, toSeq: 2 * 72 });
      await bench.store.commitSummary(fenceOf(lease), { stepIndex: 1, text: 's', hide, ...NO_COST });
      await bench.store.commitTurn(fenceOf(lease), SUCCESS);
      const after = await remembered();
      // Half of a turn is left of what was hidden; the summary is of the turn that made it.
      expect(after.shown).toHaveLength(2 * 61 + 1 + 3);
      expect(after.lease.earlier[0]).toMatchObject({ fromSeq: 2 * 74, toSeq: 2 * 74 });
      await bench.store.commitTurn(fenceOf(after.lease), SUCCESS);
      expect(await bench.store.violations()).toEqual([]);
    });

    test('has the deliverable of a turn that was cancelled in the queue in the unit of the turn it lies in (T24)', async () => {
      const agentId = newAgent();
      const open = await bench.started(agentId);
      const cancelled = await bench.accepted(agentId);
      await bench.think(open, 1);
      await bench.store.stopTurn(cancelled, 'test');
      await bench.think(open, 2);
      const end = await bench.ended(open);
      const { earlier, instructionSeq } = await bench.started(agentId);
      expect(earlier).toMatchObject([{ boxId: end.outputBoxId, fromSeq: 1, toSeq: instructionSeq - 1 }]);
      const cards = await bench.store.readExtents(earlier);
      expect(cards.map(({ type }) => type)).toEqual([
        'task.instruction',
        'agent.thought',
        'task.deliverable',
        'agent.thought',
        'task.deliverable',
      ]);
    });

    test('in which turns share an instruction card of the client keeps them apart (T24)', async () => {
      const agentId = newAgent();
      const instructionCardId = await bench.store.writeInstructionCard(`shared ${agentId}`);
      for (let turn = 0; turn < 3; turn += 1) {
        const other = await bench.store.writeInstructionCard(`task ${turn} of ${agentId}`);
        const lease = await bench.started(agentId, {
          instruction: undefined,
          instructionCardId: turn === 1 ? instructionCardId : other,
        });
        await bench.ended(lease);
      }
      expect((await bench.started(agentId)).earlier).toHaveLength(3);
    });

    test('keeps a large result whole, and counts what is shown of it (W11)', async () => {
      const lease = await bench.started(newAgent());
      await bench.think(lease, 1, ['t']);
      const callId = callIdOf(lease.agentTurnId, 1, 0);
      const content = result(callId, { result: 'long '.repeat(20_000) });
      await bench.store.claimCall(fenceOf(lease), { callId, first: true, by: nth(1), repeatable: false });
      const { tokens } = await bench.store.settleCall(fenceOf(lease), { callId, attempt: 1, content, durationMs: 1 });
      expect(tokens).toBeLessThan(1_000);
      expect(await bench.store.readResult(fenceOf(lease), callId)).toMatchObject({ result: content.result });
      const stranger = await bench.started(newAgent());
      expect(await bench.store.readResult(fenceOf(stranger), callId)).toBeNull();
    });
  });

  describe('budgets of a running turn', () => {
    const asking = async (budget: BudgetAsk) => {
      const lease = await bench.started(newAgent());
      const callId = `budget-1-${budget.code}`;
      const request = { callId, kind: 'budget', tool: '', reason: 'used up', budget } as const;
      await bench.store.askApprovals(fenceOf(lease), [request]);
      const answer = (budgets: BudgetChange) =>
        bench.store.answerApproval(lease.agentTurnId, { callId, decision: 'approved', budgets });
      return { lease, callId, answer };
    };

    test.each<[BudgetAsk['code'], BudgetChange[], BudgetChange]>([
      ['max_steps_reached', [{ maxTokens: 9_000 }, { maxSteps: 10 }], { maxSteps: 11 }],
      ['budget_tokens', [{ maxSteps: 99 }, { maxTokens: 10 }], { maxTokens: 11 }],
      ['budget_tool_calls', [{ maxToolCalls: 9 }], { maxToolCalls: 11 }],
      ['budget_cost', [{ maxCost: 10 }], { maxCost: 10.5 }],
      // A second passes before the answer.
      ['budget_wall_time', [{ maxWallTimeMs: 20 }, { maxWallTimeMs: 1_010 }], { maxWallTimeMs: 1_011 }],
    ])('of which %s is used up are not extended by too little (K9)', async (code, tooLittle, enough) => {
      const { lease, callId, answer } = await asking({ code, used: 10, limit: 8 });
      bench.now += 1_000;
      for (const budgets of tooLittle) {
        const refused = { code: 'approval_refused', message: expect.stringContaining(`${code}: `) };
        await expect(answer(budgets)).rejects.toMatchObject(refused);
      }
      const [question] = await bench.store.listApprovals({ agentId: lease.agentId });
      expect(question).toMatchObject({ callId, status: 'waiting' });
      expect(await answer(enough)).toMatchObject({ ack: 'applied' });
    });

    test('that an answer extends are kept with those that are set, before or after it (K9)', async () => {
      const { lease, answer } = await asking({ code: 'max_steps_reached', used: 2, limit: 2 });
      await bench.store.setBudgets(lease.agentTurnId, { maxCost: 2, maxSteps: 2 });
      await answer({ maxSteps: 20, maxTokens: undefined });
      await bench.store.setBudgets(lease.agentTurnId, { maxTokens: 5_000 });
      await bench.store.setBudgets(lease.agentTurnId, { maxTokens: undefined, maxToolCalls: 7 });
      const all = { maxSteps: 20, maxTokens: 5_000, maxCost: 2, maxToolCalls: 7 };
      expect(await bench.store.readInbox(fenceOf(lease))).toMatchObject({ items: [{ kind: 'budgets', budgets: all }] });
    });

    test('that are raised while an operator is asked answer the question, once, and only when that is enough (K9)', async () => {
      const { lease, callId, answer } = await asking({ code: 'max_steps_reached', used: 2, limit: 2 });
      const question = async () => (await bench.store.listApprovals({ agentId: lease.agentId, all: true }))[0]?.status;
      const look = () => bench.store.resolveWaiting(fenceOf(lease), [callId]);
      const set = (budgets: BudgetChange) => bench.store.setBudgets(lease.agentTurnId, budgets);
      expect(await set({ maxTokens: 9 })).toMatchObject({ changed: true });
      expect([await question(), answersIn(await look())]).toEqual(['waiting', []]);
      expect(await set({ maxSteps: 3 })).toMatchObject({ changed: true });
      expect(await set({ maxSteps: 3 })).toMatchObject({ changed: false });
      expect(await question()).toBe('approved');
      const items = [
        { kind: 'budgets', seq: 2, budgets: { maxTokens: 9, maxSteps: 3 } },
        { kind: 'answer', seq: 3, answer: { callId, decision: 'approved' } },
      ];
      expect(await look()).toMatchObject({ items, waiting: [] });
      expect(await answer({ maxSteps: 9 })).toMatchObject({ ack: 'duplicate' });
      expect((await bench.store.getTurn(lease.agentTurnId))?.status).toBe('running');
      expect(await bench.store.violations()).toEqual([]);
    });

    test('that were raised before an operator was asked answer the question at once (K9)', async () => {
      const lease = await bench.started(newAgent());
      await bench.store.setBudgets(lease.agentTurnId, { maxSteps: 3 });
      const ask = async (limit: number) => {
        const callId = `budget-${limit}-max_steps_reached`;
        const budget = { code: 'max_steps_reached', used: limit, limit } as const;
        const request = { callId, kind: 'budget', tool: '', reason: 'used up', budget } as const;
        return (await bench.store.askApprovals(fenceOf(lease), [request]))[0]?.deadline ?? 0;
      };
      expect(await ask(2)).toBe(bench.now);
      expect(await ask(2)).toBe(bench.now);
      expect(await ask(3)).toBeGreaterThan(bench.now);
      const open = await bench.store.listApprovals({ agentId: lease.agentId });
      expect(open.map(({ callId }) => callId)).toEqual(['budget-3-max_steps_reached']);
      expect(await bench.store.violations()).toEqual([]);
    });

    test('are with the lease when they are set before the turn begins, and with each step and look: no wake-up is needed (K9)', async () => {
      const agentId = newAgent();
      const before = await bench.started(agentId);
      await bench.store.setBudgets(await bench.accepted(agentId), { maxSteps: 3 });
      await bench.ended(before);
      const lease = await bench.leased(agentId);
      expect(lease.kernel.budgets).toMatchObject({ maxSteps: 3, maxToolCalls: 200 });
      const { calls } = await bench.think(lease, 1, ['a']);
      await bench.store.setBudgets(lease.agentTurnId, { maxTokens: 9 });
      const budgets = { maxSteps: 3, maxTokens: 9 };
      const { recorded } = await bench.store.openStep(fenceOf(lease), { stepIndex: 1, profileHash: lease.profileHash });
      expect(budgetsIn(recorded ?? {})).toEqual(budgets);
      const [callId = ''] = calls.map((call) => call.callId);
      await bench.store.suspendCall(fenceOf(lease), callId, 1_000);
      await bench.store.reportResult(lease.agentTurnId, { callId, status: 'success', result: 1 });
      expect(budgetsIn(await bench.store.resolveWaiting(fenceOf(lease), [callId]))).toEqual(budgets);
      expect(budgetsIn(await bench.think(lease, 2))).toEqual(budgets);
    });

    test('are as they were set last, also when that was after the answer (K9)', async () => {
      const { lease, callId, answer } = await asking({ code: 'max_steps_reached', used: 2, limit: 2 });
      await answer({ maxSteps: 20 });
      await bench.store.setBudgets(lease.agentTurnId, { maxSteps: 5 });
      const check = (inboxRead: number) => bench.store.resolveWaiting(fenceOf(lease), [callId], { inboxRead });
      expect((await check(0)).items).toMatchObject([{ kind: 'budgets', budgets: { maxSteps: 5 } }, { kind: 'answer' }]);
      // A workflow that was reset asks the question again, whatever it had read.
      expect((await check(99)).items).toMatchObject([{ kind: 'answer', answer: { callId, decision: 'approved' } }]);
    });

    test('are set by an operator, added to what was set before, and are there for its workflow (K9)', async () => {
      const lease = await bench.started(newAgent());
      expect(await bench.store.readInbox(fenceOf(lease))).toEqual({});
      const set = (budgets: BudgetChange) => bench.store.setBudgets(lease.agentTurnId, budgets);
      const changed = { agentId: lease.agentId, changed: true };
      expect(await set({ maxSteps: 9 })).toEqual(changed);
      expect(await set({ maxCost: 2 })).toEqual(changed);
      expect(await set({ maxSteps: 9 })).toEqual({ ...changed, changed: false });
      const all = { kind: 'budgets', seq: 2, budgets: { maxSteps: 9, maxCost: 2 } };
      expect(await bench.store.readInbox(fenceOf(lease))).toEqual({ items: [all] });
      expect(await bench.store.readInbox(fenceOf(lease), { inboxRead: 1 })).toEqual({ items: [all] });
      expect(await bench.store.readInbox(fenceOf(lease), { inboxRead: 2 })).toEqual({});
      const step = { stepIndex: 1, profileHash: lease.profileHash };
      await bench.think(lease, 1);
      const opened = (inboxRead: number) => bench.store.openStep(fenceOf(lease), { ...step, inboxRead });
      expect(await opened(1)).toMatchObject({ recorded: { items: [all] } });
      expect((await opened(2)).recorded).not.toHaveProperty('items');
      await bench.store.commitTurn(fenceOf(lease), SUCCESS);
      expect(await set({ maxSteps: 10 })).toBeNull();
    });
  });
  describe('half a surrogate pair', () => {
    const HALF = '\ud83d';
    test('is nowhere in what a model is shown later, whoever sent it (T24)', async () => {
      const lease = await bench.started(newAgent(), { instruction: `do ${HALF}`, criteria: [`until ${HALF}`] });
      const fence = fenceOf(lease);
      await bench.store.steerTurn(lease.agentTurnId, `steer ${HALF}`);
      const { steers, criteria } = await bench.store.openStep(fence, { stepIndex: 1, profileHash: lease.profileHash });
      const { calls } = await bench.think(lease, 1, ['t']);
      const [{ callId } = { callId: '' }] = calls;
      await bench.store.suspendCall(fence, callId, 1_000);
      await bench.store.reportResult(lease.agentTurnId, { callId, status: 'success', result: { [HALF]: HALF } });
      await bench.ended(lease);
      const shown = JSON.stringify([steers, criteria, await bench.store.readBox(lease.outputBoxId)]);
      expect(shown).toContain('steer \ufffd');
      expect(shown).not.toMatch(/\\ud[89a-f]/);
    });

    test('is not made by cutting the title of a turn', async () => {
      const { title } = await bench.started(newAgent(), { instruction: '\u{1f600}'.repeat(500) });
      expect(title).toMatch(/^\u{1f600}+…$/u);
    });
  });
}
