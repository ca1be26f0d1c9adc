/** What a tree of turns may spend, as the store keeps it (K9, K20), on every store. */

import { describe, expect, test } from '@jest/globals';
import { defineAgent, defineApp } from '../../../../activities/app/app.ts';
import { callId as callIdOf, delegatedTurnId } from '../../../../activities/ids.ts';
import type { Delegation, DelegationTarget } from '../../../../workflows/contract/delegation.ts';
import type { Lease } from '../../../../workflows/contract/lease.ts';
import type { StepCommit } from '../../../../workflows/contract/steps.ts';
import type { ToolResultContent } from '../../../../workflows/protocol/cards.ts';
import { randomOf } from '../../../chaos/random.ts';
import { budgetsIn } from '../../../support/inbox.ts';
import { fenceOf, newAgent, STORES, StoreBench } from '../store-bench.ts';

const LIMIT = 1_000;
/** Of a step of the bench. */
const STEP = 12;
const STEP_COST = 0.5;

const policy = { delegationPolicy: { profiles: ['tester', 'small', 'priced'] } };
const app = defineApp({
  agents: [
    defineAgent({ name: 'tester', budgets: { maxTokens: LIMIT }, ...policy }),
    defineAgent({ name: 'small', budgets: { maxTokens: 50 }, ...policy }),
    defineAgent({ name: 'priced', budgets: { maxTokens: 1_000_000, maxCost: 8 }, ...policy }),
  ],
});

const to = (profile: string): DelegationTarget => ({ strategy: 'new', profile });
const TESTER = to('tester');

describe.each(STORES)('budgets of a tree on %s', (_, fresh) => {
  const bench = new StoreBench(fresh, app);

  /** A call of the next step hands work on; the step costs what each does. */
  const delegates = async (lease: Lease, more: Partial<Delegation> = {}, target = TESTER): Promise<Lease> => {
    const { handover } = await bench.delegated(lease, target, more);
    if (!handover?.next) throw new Error('it was refused, or is queued');
    return handover.next;
  };
  const givenTo = ({ kernel }: Lease) => kernel.budgets.maxTokens;
  const standing = async (lease: Lease) => (await bench.store.readInbox(fenceOf(lease))).delegated;
  const setTokens = ({ agentTurnId }: Pick<Lease, 'agentTurnId'>, maxTokens: number) =>
    bench.store.setBudgets(agentTurnId, { maxTokens });
  const refusalOf = async (lease: Lease, more: Partial<Delegation> = {}) => {
    const { call, handover, delegation } = await bench.delegated(lease, TESTER, more);
    expect(handover).toBeNull();
    expect(call).toMatchObject({ kind: 'settled', settled: { status: 'failed' } });
    expect(await bench.store.getTurn(delegatedTurnId(delegation.callId))).toBeNull();
    return call.kind === 'settled' ? call.settled.errorCode : undefined;
  };

  describe('what a delegated turn is given', () => {
    test('is half of what its caller has left, and so on down the tree (K9, K20)', async () => {
      const root = await bench.started(newAgent());
      const child = await delegates(root);
      const grandchild = await delegates(child);
      const second = await delegates(root);
      const left = LIMIT - STEP;
      expect(givenTo(child)).toBe(left / 2);
      expect(givenTo(grandchild)).toBe((left / 2 - STEP) / 2);
      expect(givenTo(second)).toBe((left / 2 - STEP) / 2);
      expect(await bench.store.violations()).toEqual([]);
    });

    test('is the same for all that a step delegates, and as much stays with the caller (K9)', async () => {
      const root = await bench.started(newAgent());
      const { calls } = await bench.think(root, 1, ['ask_expert', 'ask_expert', 'delegate_async']);
      const base = { attempt: 1, target: TESTER, instruction: 'help', onParentEnd: 'continue' } as const;
      const made = await Promise.all(
        calls.map(({ callId }, index) =>
          (index % 2 ? bench.store : bench.other).delegate(fenceOf(root), { ...base, callId }),
        ),
      );
      expect(made.map(({ handover }) => handover?.next && givenTo(handover.next))).toEqual([247, 247, 247]);
      expect(await standing(root)).toEqual({ tokens: 741, cost: 0, open: true });
    });

    test.each([
      ['what the call asks for', 100, TESTER, 100],
      ['at most what is left', 5_000, TESTER, LIMIT - STEP],
      ['at most what its own profile allows', 100, to('small'), 50],
    ])('is %s (K9, K20)', async (__, maxTokens, target, given) => {
      const root = await bench.started(newAgent());
      const child = await delegates(root, { maxTokens }, target);
      expect(givenTo(child)).toBe(given);
      const { callId } = (await bench.store.getTurn(child.agentTurnId))?.parent ?? {};
      const results = (await bench.store.readBox(root.outputBoxId)).flatMap(({ card }) =>
        card.type === 'tool.result' ? [card.content as ToolResultContent] : [],
      );
      expect(results.find((result) => result.callId === callId)?.result).toMatchObject({ max_tokens: given });
    });

    test('is nothing where all is spent or held: the call fails and makes no turn (K9)', async () => {
      const root = await bench.started(newAgent());
      const child = await delegates(root, { maxTokens: LIMIT });
      expect(await refusalOf(root)).toBe('budget_tokens');
      await bench.ended(child);
      expect(givenTo(await delegates(root))).toBe((LIMIT - 3 * STEP) / 2);
    });

    test('is a part of the money too where there is a limit of it, and nothing once nobody can count it (K9)', async () => {
      const root = await bench.started(newAgent(), { profile: 'priced' });
      const child = await delegates(root, {}, to('priced'));
      expect(child.kernel.budgets.maxCost).toBe((8 - STEP_COST) / 2);
      expect((await delegates(child)).kernel.budgets.maxCost).toBe((3.75 - STEP_COST) / 2);
      expect(await standing(root)).toMatchObject({ cost: 3.75, open: true });
      await bench.store.commitStep(fenceOf(child), { ...stepOf(9), cost: null });
      expect(await standing(root)).toMatchObject({ cost: null });
      expect(await refusalOf(root)).toBe('budget_cost');
    });

    test('is of no account for a message that outlived its turn: it is a request from outside (K9, T22)', async () => {
      const root = await bench.started(newAgent());
      const child = await delegates(root);
      await bench.store.steerTurn(child.agentTurnId, 'one thing more');
      await bench.ended(child);
      const steered = await bench.leased(child.agentId);
      await bench.think(steered, 1);
      expect(givenTo(steered)).toBe(LIMIT);
      expect(await standing(root)).toEqual({ tokens: 0, cost: 0, open: false });
      expect(await setTokens(steered, 5 * LIMIT)).toMatchObject({ changed: true });
      expect(await bench.store.violations()).toEqual([]);
    });
  });

  describe('what a caller is charged with', () => {
    const spends = async (lease: Lease, steps: number) => {
      for (let step = 11; step < 11 + steps; step += 1) await bench.think(lease, step);
    };

    test('is the share until the turn has ended, then what was spent, however it ends (K9)', async () => {
      const root = await bench.started(newAgent());
      const children = [];
      for (let made = 0; made < 3; made += 1) children.push(await delegates(root, { maxTokens: 100 }));
      const [first, second, third] = children as [Lease, Lease, Lease];
      expect(await standing(root)).toEqual({ tokens: 300, cost: 0, open: true });
      await spends(first, 2);
      expect(await standing(root)).toEqual({ tokens: 300, cost: 2 * STEP_COST, open: true });
      await bench.ended(first);
      expect(await standing(root)).toEqual({ tokens: 2 * STEP + 200, cost: 2 * STEP_COST, open: true });
      await spends(second, 1);
      await bench.store.stopTurn(second.agentTurnId, 'test');
      await bench.reaped(third);
      expect(await standing(root)).toEqual({ tokens: 3 * STEP, cost: 3 * STEP_COST, open: false });
    });

    test('is nothing for a turn that was cancelled while it was queued (K9)', async () => {
      const busy = await bench.started(newAgent());
      const root = await bench.started(newAgent());
      const { delegation } = await bench.delegated(root, { strategy: 'reuse', agentId: busy.agentId });
      expect(await standing(root)).toMatchObject({ tokens: 494, open: true });
      await bench.store.stopTurn(delegatedTurnId(delegation.callId), 'test');
      expect(await standing(root)).toEqual({ tokens: 0, cost: 0, open: false });
    });

    test('goes on with what a turn that has ended left to others, until these end (K9)', async () => {
      const root = await bench.started(newAgent());
      const child = await delegates(root, { maxTokens: 400 });
      const grandchild = await delegates(child, { maxTokens: 100 });
      await bench.ended(child);
      expect(await standing(root)).toEqual({ tokens: STEP + 100, cost: STEP_COST, open: true });
      await spends(grandchild, 2);
      await bench.ended(grandchild);
      expect(await standing(root)).toEqual({ tokens: 3 * STEP, cost: 3 * STEP_COST, open: false });
    });

    test('is all that was spent where a step went beyond the share, at once (K9)', async () => {
      const root = await bench.started(newAgent());
      const child = await delegates(root, { maxTokens: 40 });
      const grandchild = await delegates(child, { maxTokens: 20 });
      await spends(grandchild, 5);
      const tokens = 6 * STEP;
      expect(await standing(root)).toMatchObject({ tokens, open: true });
      await bench.ended(grandchild);
      await bench.ended(child);
      expect(await standing(root)).toMatchObject({ tokens, open: false });
    });

    test('is told with each step, again with a recorded one, and with each look at what waits (K9)', async () => {
      const root = await bench.started(newAgent());
      expect(await bench.think(root, 30)).not.toHaveProperty('delegated');
      const { delegation } = await bench.delegated(root, TESTER, { maxTokens: 100, waitMs: 500 });
      const child = await bench.leased((await bench.store.getTurn(delegatedTurnId(delegation.callId)))?.agentId ?? '');
      const open = { delegated: { tokens: 100, cost: 0, open: true } };
      const { callId } = delegation;
      expect(await bench.store.resolveWaiting(fenceOf(root), [callId])).toMatchObject(open);
      bench.now += 500;
      expect(await bench.store.resolveWaiting(fenceOf(root), [callId])).toMatchObject({
        ...open,
        settled: [{ status: 'timeout' }],
      });
      expect(await bench.think(root, 31)).toMatchObject(open);
      // Its answer comes too late to be read, and is paid for all the same.
      await spends(child, 1);
      await bench.ended(child);
      await bench.store.settleDelegation(child.agentTurnId);
      const ended = { delegated: { tokens: STEP, cost: STEP_COST, open: false } };
      expect(
        (await bench.store.openStep(fenceOf(root), { stepIndex: 31, profileHash: root.profileHash })).recorded,
      ).toMatchObject(ended);
      expect(await bench.think(root, 32)).toMatchObject(ended);
    });
  });

  describe('an operator who gives a delegated turn more', () => {
    test('takes it from what its caller has left, and is refused where that is not enough (K9, K20)', async () => {
      const root = await bench.started(newAgent());
      const child = await delegates(root, { maxTokens: 400 });
      const left = LIMIT - STEP - 400;
      const message = expect.stringContaining(`${root.agentTurnId}, which it works for, has ${left} left`);
      await expect(setTokens(child, 400 + left + 1)).rejects.toMatchObject({ code: 'budget_refused', message });
      expect(await bench.store.readInbox(fenceOf(child))).toEqual({});
      expect(await setTokens(child, 300)).toMatchObject({ changed: true });
      expect(await setTokens(child, 400 + left)).toMatchObject({ changed: true });
      expect(await standing(root)).toMatchObject({ tokens: LIMIT - STEP });
      expect(await refusalOf(root)).toBe('budget_tokens');
      await setTokens(root, 2 * LIMIT);
      expect(await setTokens(child, LIMIT)).toMatchObject({ changed: true });
      expect(await bench.store.violations()).toEqual([]);
    });

    test('takes it from the nearest turn above that has not ended, else from the first one (K9, K20)', async () => {
      const root = await bench.started(newAgent());
      const child = await delegates(root, { maxTokens: 400 });
      const grandchild = await delegates(child, { maxTokens: 100 });
      await bench.ended(child);
      // Its caller left 288 of its share unused; they went back to the root, which has all the rest.
      const most = LIMIT - STEP - STEP;
      await expect(setTokens(grandchild, most + 1)).rejects.toMatchObject({ code: 'budget_refused' });
      expect(await setTokens(grandchild, 500)).toMatchObject({ changed: true });
      await bench.ended(root);
      await expect(setTokens(grandchild, most + 1)).rejects.toMatchObject({ code: 'budget_refused' });
      expect(await setTokens(grandchild, most)).toMatchObject({ changed: true });
      expect(await bench.store.violations()).toEqual([]);
    });

    test('may do so by an answer, as by new budgets (K9, K20)', async () => {
      const root = await bench.started(newAgent());
      const child = await delegates(root, { maxTokens: 100 });
      const callId = 'budget-1-budget_tokens';
      const budget = { code: 'budget_tokens', used: 100, limit: 100 } as const;
      await bench.store.askApprovals(fenceOf(child), [{ callId, kind: 'budget', tool: '', reason: 'used up', budget }]);
      const answer = (maxTokens: number) =>
        bench.store.answerApproval(child.agentTurnId, { callId, decision: 'approved', budgets: { maxTokens } });
      await expect(answer(LIMIT)).rejects.toMatchObject({ code: 'budget_refused' });
      expect(await answer(200)).toMatchObject({ ack: 'applied' });
      expect(await standing(root)).toMatchObject({ tokens: 200 });
    });

    test('and turns that delegate at the same moment never give the same tokens twice (K9, K20)', async () => {
      for (let round = 0; round < 10; round += 1) {
        const root = await bench.started(newAgent());
        const child = await delegates(root, { maxTokens: 100 });
        const { calls } = await bench.think(root, 50, ['delegate_async']);
        const callId = calls[0]?.callId ?? '';
        const all = { maxTokens: LIMIT, instruction: 'all', onParentEnd: 'continue' } as const;
        await Promise.allSettled([
          bench.store.delegate(fenceOf(root), { ...all, callId, attempt: 1, target: TESTER }),
          setTokens(child, LIMIT - 2 * STEP),
          bench.other.setBudgets(child.agentTurnId, { maxTokens: 500 }),
        ]);
        expect((await standing(root))?.tokens).toBeLessThanOrEqual(LIMIT - 2 * STEP);
      }
      expect(await bench.store.violations()).toEqual([]);
    });
  });

  test.each([1, 2, 3])(
    'a tree that grows, works and ends at random spends what its root was given, and a step of each open turn (K9, K20): seed %i',
    async (seed) => {
      const random = randomOf(seed, 'trees');
      const root = await bench.started(newAgent());
      const open = [root];
      const steps = new Map<string, number>();
      const pick = () => open[random.int(0, open.length - 1)] as Lease;
      let spent = 0;
      let mostOpen = 1;
      for (let move = 0; move < 150 && open.length > 0; move += 1) {
        const lease = pick();
        const used = (await bench.store.getTurn(lease.agentTurnId))?.usage ?? { input: 0, output: 0 };
        const delivery = await bench.store.readInbox(fenceOf(lease));
        const { delegated } = delivery;
        const limit = budgetsIn(delivery)?.maxTokens ?? givenTo(lease);
        const roll = random.int(0, 9);
        if (roll === 0 && lease !== root) {
          await bench.ended(lease);
          open.splice(open.indexOf(lease), 1);
        } else if (roll === 1) {
          await setTokens(lease, random.int(1, LIMIT)).catch((error) =>
            expect(error).toMatchObject({ code: 'budget_refused' }),
          );
        } else if (used.input + used.output + (delegated?.tokens ?? 0) < limit) {
          const step = (steps.get(lease.agentTurnId) ?? 0) + 1;
          steps.set(lease.agentTurnId, step);
          spent += STEP;
          await bench.think(lease, step, roll < 5 ? ['delegate_async'] : []);
          if (roll >= 5) continue;
          const callId = callIdOf(lease.agentTurnId, step, 0);
          const wish = roll === 2 ? { maxTokens: random.int(1, LIMIT) } : {};
          const base = { callId, attempt: 1, target: TESTER, instruction: 'grow', onParentEnd: 'continue' } as const;
          const { handover } = await bench.store.delegate(fenceOf(lease), { ...base, ...wish });
          if (handover?.next) open.push(handover.next);
        }
        mostOpen = Math.max(mostOpen, open.length);
        expect(spent).toBeLessThanOrEqual(LIMIT + STEP * mostOpen);
      }
      expect(mostOpen).toBeGreaterThan(3);
      expect(spent).toBeGreaterThan(LIMIT / 4);
      expect(await bench.store.violations()).toEqual([]);
    },
  );

  const stepOf = (stepIndex: number): StepCommit => ({
    stepIndex,
    steerIds: [],
    note: null,
    thought: { text: 'dear', toolCalls: [] },
    calls: [],
    usage: { input: 10, output: 2, cached: 0 },
    model: 'm',
    finishReason: 'stop',
    cost: STEP_COST,
    latencyMs: 1,
    firstTokenMs: 1,
  });
});
