/** What store activities do besides their transaction: start what was leased, tell who waits, drop what nobody can use. */

import { afterEach, beforeEach, describe, expect, jest, test } from '@jest/globals';
import { v7 } from 'uuid';
import { z } from 'zod';
import { defineTool } from '../../activities/app/app.ts';
import { createStoreActivities } from '../../activities/store-activities.ts';
import type { Handover } from '../../workflows/contract/lease.ts';
import type { Store } from '../../workflows/contract/store.ts';
import { CodedError } from '../../workflows/protocol/failures.ts';
import { governanceSchema } from '../../workflows/protocol/governance.ts';
import { testApp } from '../support/app.ts';
import { answersIn } from '../support/inbox.ts';
import { attempt, type LeasedTurn, leaseTurn } from './llm/leased-turn.ts';

/** Takes an amount in whole units, and gets it in cents. */
const pay = defineTool({
  name: 'pay',
  description: 'pays',
  parameters: z.object({ amount: z.number().transform((units) => units * 100) }),
  execute: () => null,
});
const app = testApp([pay]);
const SUCCESS = { termination: { status: 'success' }, deliverable: { from: 'fallback' }, engine: null } as const;

describe('a store activity', () => {
  let turn: LeasedTurn;
  let handovers: Handover[];
  /** What the next handover fails with. */
  let failure: Error | null;
  beforeEach(async () => {
    turn = await leaseTurn(app);
    handovers = [];
    failure = null;
  });
  afterEach(() => turn.close());

  const activities = (store: Store = turn.store) =>
    createStoreActivities({
      store,
      app,
      workflows: {
        handOver: async (handover) => {
          handovers.push(handover);
          if (failure) throw failure;
        },
      },
    });
  const enqueue = { instruction: 'next', profile: 'tester' };
  const queuedTurn = async () => {
    const body = { ...enqueue, idempotencyKey: v7() };
    await attempt(activities().acceptInline, { agentId: turn.fence.agentId, requests: [{ messageId: v7(), body }] });
    const [queued] = await turn.store.listTurns(turn.fence.agentId, { status: 'queued' });
    handovers = [];
    return queued?.agentTurnId ?? '';
  };

  test('that commits the end of a turn hands over what was leased, and again in another attempt (T9, T29)', async () => {
    const queued = await queuedTurn();
    const { commitTurn } = activities();
    const ended = await attempt(commitTurn, { ...turn.fence, ...SUCCESS });
    expect(ended).toMatchObject({ agentTurnId: turn.fence.agentTurnId, status: 'success' });
    expect(await attempt(commitTurn, { ...turn.fence, ...SUCCESS }, 2)).toEqual(ended);
    expect(handovers).toHaveLength(2);
    expect(handovers[0]?.next).toMatchObject({ agentTurnId: queued, turnEpoch: 2 });
    expect(handovers[1]).toEqual(handovers[0]);
  });

  test('that commits the end of a turn has ended it, whatever becomes of the handover (T6, T29)', async () => {
    const queued = await queuedTurn();
    failure = new Error('the server is away');
    const ended = await attempt(activities().commitTurn, { ...turn.fence, ...SUCCESS });
    expect(ended).toMatchObject({ status: 'success' });
    expect(await turn.store.getTurnStatus(queued)).toBe('dispatched');
  });

  test('that accepts a request of a foreign client starts its workflow, in each attempt the same (T3, T29)', async () => {
    const request = { agentId: `agent-${v7()}`, requests: [{ messageId: v7(), body: enqueue }] };
    const { acceptInline } = activities();
    await attempt(acceptInline, request);
    failure = new Error('the server is away');
    await attempt(acceptInline, request, 2);
    const [accepted, ...others] = await turn.store.listTurns(request.agentId);
    expect(others).toEqual([]);
    expect(handovers).toHaveLength(2);
    expect(handovers[0]?.next).toMatchObject({ agentId: request.agentId, agentTurnId: accepted?.agentTurnId });
    expect(handovers[1]).toEqual(handovers[0]);
  });

  test('that accepts requests makes one turn of each message, whatever the others say (T2)', async () => {
    const agentId = `agent-${v7()}`;
    const [first, second] = [v7(), v7()];
    const other = { ...enqueue, instruction: 'something else' };
    const messages = [
      [first, enqueue],
      [second, enqueue],
      [first, enqueue],
      [first, other],
      [second, enqueue],
    ] as const;
    const requests = messages.map(([messageId, body]) => ({ messageId, body }));
    expect(await attempt(activities().acceptInline, { agentId, requests })).toEqual(Array(5).fill(true));
    const instructions = (await turn.store.listTurns(agentId)).map(({ instruction }) => instruction);
    // A message that has another body is another one: its workflow was reset.
    expect(instructions).toEqual(['next', 'next', 'something else']);
  });

  test('that accepts a request to a busy agent starts nothing (T1, T3)', async () => {
    const { agentId } = turn.fence;
    await attempt(activities().acceptInline, { agentId, requests: [{ messageId: v7(), body: enqueue }] });
    expect(handovers).toEqual([{ agentId, next: null, more: false, settlements: [] }]);
  });

  test.each<[what: string, body: unknown, reason: string]>([
    ['is no request', 'do it', 'enqueue signal dropped'],
    ['is nothing', null, 'enqueue signal dropped'],
    ['is refused', { ...enqueue, uiAction: true }, 'agent_busy: '],
  ])('leaves one event of a request that %s, however often it is tried (T3)', async (_what, body, reason) => {
    const { agentId } = turn.fence;
    const request = { agentId, requests: [{ messageId: v7(), body }] };
    for (const number of [1, 2, 3]) expect(await attempt(activities().acceptInline, request, number)).toEqual([false]);
    const dropped = (await turn.store.readEvents({ agentId })).filter(({ type }) => type === 'dropped');
    expect(dropped).toMatchObject([{ payload: { what: 'enqueue', reason: expect.stringContaining(reason) } }]);
    expect(handovers).toEqual([]);
    expect(await turn.store.listTurns(agentId)).toHaveLength(1);
  });

  test('drops what the store refuses for good, with its reason, and goes on with the next (T3)', async () => {
    const agentId = `agent-${v7()}`;
    const damaged = { ...enqueue, instruction: 'damaged' };
    const accept: Store['accept'] = async (input) => {
      if (input.request.instruction === 'damaged') throw new CodedError('protocol_violation', 'its rows are damaged');
      return turn.store.accept(input);
    };
    const { acceptInline } = activities({ ...turn.store, accept });
    const requests = [damaged, enqueue].map((body) => ({ messageId: v7(), body }));
    expect(await attempt(acceptInline, { agentId, requests })).toEqual([false, true]);
    expect(await turn.store.listTurns(agentId)).toHaveLength(1);
    const dropped = (await turn.store.readEvents({ agentId })).filter(({ type }) => type === 'dropped');
    expect(dropped).toMatchObject([
      { payload: { what: 'enqueue', reason: 'protocol_violation: its rows are damaged' } },
    ]);
  });

  test('gives the rest of a batch back when the store is slow, and fails as a whole when it is away (T3)', async () => {
    const agentId = `agent-${v7()}`;
    const requests = Array.from({ length: 3 }, () => ({ messageId: v7(), body: enqueue }));
    const now = jest.spyOn(performance, 'now');
    const slow: Store['accept'] = async (input) => {
      now.mockReturnValue(now.getMockImplementation() ? performance.now() + 3_000 : 3_000);
      return turn.store.accept(input);
    };
    now.mockReturnValue(0);
    expect(await attempt(activities({ ...turn.store, accept: slow }).acceptInline, { agentId, requests })).toEqual([
      true,
      true,
    ]);
    now.mockRestore();
    const away: Store['accept'] = async () => {
      throw new CodedError('store_unavailable', 'away');
    };
    const failing = attempt(activities({ ...turn.store, accept: away }).acceptInline, { agentId, requests });
    await expect(failing).rejects.toMatchObject({ code: 'store_unavailable' });
    expect(await turn.store.listTurns(agentId)).toHaveLength(2);
  });

  test('keeps what came while the store is too damaged to take even that it was dropped (T3)', async () => {
    const damaged = async () => {
      throw new CodedError('store_corrupt', 'damaged');
    };
    const { acceptInline } = activities({ ...turn.store, accept: damaged, recordDropped: damaged });
    const agentId = `agent-${v7()}`;
    const kept = attempt(acceptInline, { agentId, requests: [{ messageId: v7(), body: enqueue }] });
    await expect(kept).rejects.toMatchObject({ type: 'store_corrupt', nonRetryable: false });
    const refused = async () => {
      throw new CodedError('payload_too_large', 'too much to say');
    };
    // What no restored store heals is not tried again for ever.
    const other = activities({ ...turn.store, accept: damaged, recordDropped: refused });
    const failing = attempt(other.acceptInline, { agentId, requests: [{ messageId: v7(), body: enqueue }] });
    await expect(failing).rejects.toMatchObject({ code: 'payload_too_large' });
  });

  test('judges arguments that an approver changed as the tool would get them, else as they were written (K7)', async () => {
    const governance = governanceSchema.parse({ constraints: [{ tool: 'pay', path: 'amount', max: 500 }] });
    const answered = (amount: number | string) =>
      ({
        callId: `pay-${amount}`,
        decision: 'approved',
        edited: { tool: 'pay', arguments: { amount }, governance },
      }) as const;
    const plain = { callId: 'other', decision: 'denied', reason: 'no' } as const;
    const items = [answered(8), answered('much'), plain].map((answer) => ({ kind: 'answer', seq: 1, answer }) as const);
    const resolveWaiting: Store['resolveWaiting'] = async () => ({ settled: [], waiting: [], items });
    const resolved = activities({ ...turn.store, resolveWaiting }).resolveWaiting({ ...turn.fence, callIds: [] });
    expect(answersIn(await resolved)).toEqual([
      { callId: 'pay-8', decision: 'approved', edited: { facts: { values: { amount: 800 }, oversized: [] } } },
      { callId: 'pay-much', decision: 'approved', edited: { facts: { values: { amount: 'much' }, oversized: [] } } },
      plain,
    ]);
  });

  test('leaves one event of a result that is none, and one of the next, however often they are tried (T14, T20)', async () => {
    const { agentId, agentTurnId } = turn.fence;
    const { reportInline } = activities();
    const [first, second] = [v7(), v7()];
    const results = [first, first, second, first, second].map((messageId) => ({
      messageId,
      body: { status: 'success' },
    }));
    await attempt(reportInline, { agentId, agentTurnId, results });
    const dropped = (await turn.store.readEvents({ agentId })).filter(({ type }) => type === 'dropped');
    expect(dropped.map(({ payload }) => payload)).toMatchObject(Array(2).fill({ what: 'tool_result' }));
  });
});
