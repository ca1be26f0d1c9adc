/** What clients do to the workflows of turns, on a real server and without any worker. */
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { Client, Connection } from '@temporalio/client';
import { v7 } from 'uuid';
import { TurnWorkflows } from '../../client/turn-workflows.ts';
import type { DelegationSettlement } from '../../workflows/contract/delegation.ts';
import type { Handover, Lease } from '../../workflows/contract/lease.ts';
import { CodedError } from '../../workflows/protocol/failures.ts';
import { turnWorkflowId } from '../../workflows/protocol/ids.ts';
import { testApp } from '../support/app.ts';
import { type Harness, openHarness } from '../support/harness.ts';

let harness: Harness;
let workflows: TurnWorkflows;

beforeAll(async () => {
  harness = await openHarness();
  await harness.store.registerProfiles([...testApp([]).agents.values()]);
  workflows = new TurnWorkflows(harness.temporal.client, harness.store);
});
afterAll(() => harness?.close());

async function leased(agentId = `agent-${v7()}`): Promise<Lease> {
  const request = { instruction: 'do it', profile: 'tester', priority: 'normal' } as const;
  const outcome = await harness.store.accept({ agentId, request });
  if (outcome.kind === 'refused' || !outcome.lease) throw new Error('no lease');
  return outcome.lease;
}
const handleOf = ({ agentId, agentTurnId }: Pick<Lease, 'agentId' | 'agentTurnId'>) =>
  harness.temporal.client.workflow.getHandle(turnWorkflowId(agentId, agentTurnId));

/** Whether the workflow was asked to cancel. */
const isToldToEnd = async (lease: Lease): Promise<boolean> => {
  const { events } = await handleOf(lease).fetchHistory();
  return events?.some((event) => event.workflowExecutionCancelRequestedEventAttributes) ?? false;
};

/** The signals in the history of a turn's workflow, with what they carry. */
async function signalsOf(lease: Lease): Promise<[name: string, body: unknown][]> {
  const { events } = await handleOf(lease).fetchHistory();
  return (events ?? []).flatMap(({ workflowExecutionSignaledEventAttributes: signal }): [string, unknown][] => {
    const data = signal?.input?.payloads?.[0]?.data;
    return signal ? [[signal.signalName ?? '', JSON.parse(Buffer.from(data ?? []).toString())]] : [];
  });
}

describe('the workflow of a leased turn', () => {
  test('is started under the id of its turn, on the queue of its target, and can be searched for (T1)', async () => {
    const lease = await leased();
    await workflows.start(lease);
    const { type, taskQueue, status, typedSearchAttributes } = await handleOf(lease).describe();
    expect({ type, taskQueue, status: status.name }).toEqual({
      type: 'agentTurn',
      taskQueue: 'agentturn.worker_generic',
      status: 'RUNNING',
    });
    const attributes = typedSearchAttributes.getAll().map(({ key, value }) => [key.name, value]);
    expect(Object.fromEntries(attributes)).toEqual({
      AgentId: lease.agentId,
      AgentTurnId: lease.agentTurnId,
      Profile: 'tester',
    });
  });

  test('is started once, by however many and however often, and not again when it is closed (T1, T29)', async () => {
    const lease = await leased();
    const other = new TurnWorkflows(harness.temporal.client, harness.store);
    await Promise.all([workflows, other, workflows, other].map((starter) => starter.start(lease)));
    const first = await handleOf(lease).describe();
    expect(first.historyLength).toBe(2);
    await handleOf(lease).terminate('test');
    await workflows.start(lease);
    const last = await handleOf(lease).describe();
    expect({ runId: last.runId, status: last.status.name }).toEqual({ runId: first.runId, status: 'TERMINATED' });
  });

  test('is woken with ids only, and cancelled when it is stopped (T14, T21)', async () => {
    const lease = await leased();
    await workflows.start(lease);
    const { agentId, agentTurnId } = lease;
    await workflows.wake(agentId, agentTurnId, 'c1');
    await workflows.wake(agentId, agentTurnId);
    await workflows.cancel(agentId, agentTurnId);
    expect(await signalsOf(lease)).toEqual([
      ['wake', { callId: 'c1' }],
      ['wake', {}],
    ]);
    expect(await isToldToEnd(lease)).toBe(true);
  });

  test('needs no signal when it is closed, or was never started', async () => {
    const [closed, missing] = [await leased(), await leased()];
    await workflows.start(closed);
    await handleOf(closed).terminate('test');
    for (const { agentId, agentTurnId } of [closed, missing]) {
      await workflows.wake(agentId, agentTurnId, 'c1');
      await workflows.cancel(agentId, agentTurnId);
    }
    await expect(handleOf(missing).describe()).rejects.toThrow();
  });

  test('that cannot be reached is temporal_unreachable, and the message says that nothing is lost (T3)', async () => {
    const connection = Connection.lazy({ address: '127.0.0.1:1' });
    const nowhere = new TurnWorkflows(new Client({ connection, namespace: 'x' }), harness.store);
    const lease = await leased();
    const unreachable = { code: 'temporal_unreachable', message: expect.stringContaining('in the store') };
    const { agentId, agentTurnId } = lease;
    const calls = [nowhere.start(lease), nowhere.wake(agentId, agentTurnId), nowhere.cancel(agentId, agentTurnId)];
    await Promise.all(calls.map((call) => expect(call).rejects.toMatchObject(unreachable)));
    await connection.close();
  });
});

describe('after a stop', () => {
  test('the active turn is told, and the next one is started, also when the other cannot be done (T21, T29)', async () => {
    const [active, next] = [await leased(), await leased()];
    await workflows.start(active);
    const handover = { agentId: next.agentId, next, more: false, settlements: ['lost'] };
    const away = new CodedError('store_unavailable', 'gone for a moment');
    const store = {
      leaseNext: harness.store.leaseNext,
      settleDelegation: async () => {
        throw away;
      },
    };
    const over = new TurnWorkflows(harness.temporal.client, store);
    await expect(over.stopped(handover, active)).rejects.toBe(away);
    expect(await isToldToEnd(active)).toBe(true);
    expect((await handleOf(next).describe()).status.name).toBe('RUNNING');
    await over.stopped(null, null);
    await over.stopped({ ...handover, settlements: [] }, null);
  });
});

describe('a handover', () => {
  const nothing = (agentId: string): Handover => ({ agentId, next: null, more: false, settlements: [] });
  const over = (store: ConstructorParameters<typeof TurnWorkflows>[1]) =>
    new TurnWorkflows(harness.temporal.client, store);
  const noReports = async () => null;
  const noMore = async (agentId: string) => nothing(agentId);
  const reportFor = ({ agentId, agentTurnId }: Lease, wake: boolean): DelegationSettlement => ({
    ack: wake ? 'applied' : 'duplicate',
    wake,
    handover: null,
    agentId,
    agentTurnId,
    callId: 'c1',
  });

  test('starts what was leased and asks for nothing more (T29)', async () => {
    const lease = await leased();
    const asked: string[] = [];
    const store = {
      leaseNext: (agentId: string) => {
        asked.push(agentId);
        return noMore(agentId);
      },
      settleDelegation: noReports,
    };
    await over(store).handOver({ ...nothing(lease.agentId), next: lease });
    expect((await handleOf(lease).describe()).status.name).toBe('RUNNING');
    await over(store).handOver(nothing(lease.agentId));
    expect(asked).toEqual([]);
  });

  test('goes on while turns end that cannot start, and starts the one that can (T8)', async () => {
    const agentId = `agent-${v7()}`;
    const open = await leased(agentId);
    const request = { instruction: 'do it', profile: 'tester', priority: 'normal' } as const;
    const unfit = { ...request, contextBoxId: v7() };
    for (let i = 0; i < 120; i += 1) await harness.store.accept({ agentId, request: unfit });
    const good = await harness.store.accept({ agentId, request });
    const { handover } = await harness.store.stopTurn(open.agentTurnId, 'test');
    expect(handover).toMatchObject({ next: null, more: true });
    await workflows.handOver(handover ?? nothing(agentId));
    const agentTurnId = good.kind === 'accepted' ? good.agentTurnId : '';
    expect((await handleOf({ agentId, agentTurnId }).describe()).status.name).toBe('RUNNING');
  });

  test('does not go on for ever: what is left, the supervisor does (T8)', async () => {
    let batches = 0;
    const store = {
      leaseNext: async (agentId: string) => {
        batches += 1;
        await sleep(50);
        return { ...nothing(agentId), more: true };
      },
      settleDelegation: noReports,
    };
    await over(store).handOver({ ...nothing('a'), more: true });
    expect(batches).toBeGreaterThan(1);
    expect(batches).toBeLessThan(100);
  });

  test('tells the parents of what has ended, and wakes those for whom that is new (T30)', async () => {
    const [first, second] = [await leased(), await leased()];
    for (const lease of [first, second]) await workflows.start(lease);
    const reports: Record<string, DelegationSettlement | null> = {
      new: reportFor(first, true),
      known: reportFor(second, false),
      unheard: null,
    };
    const store = { leaseNext: noMore, settleDelegation: async (turn: string) => reports[turn] ?? null };
    await over(store).handOver({ ...nothing('a'), settlements: Object.keys(reports) });
    expect(await signalsOf(first)).toEqual([['wake', { callId: 'c1' }]]);
    expect(await signalsOf(second)).toEqual([]);
  });

  test('does all that can be done before it throws what went wrong first (T29, T30)', async () => {
    const [parent, next, last] = [await leased(), await leased(), await leased()];
    await workflows.start(parent);
    const away = new CodedError('store_unavailable', 'gone for a moment');
    const store = {
      leaseNext: async (agentId: string) => ({ ...nothing(agentId), next: last }),
      settleDelegation: async (turn: string) => {
        if (turn === 'lost') throw away;
        return reportFor(parent, true);
      },
    };
    const handover = { agentId: 'a', next, more: true, settlements: ['lost', 'told'] };
    await expect(over(store).handOver(handover)).rejects.toBe(away);
    expect(await signalsOf(parent)).toHaveLength(1);
    for (const lease of [next, last]) expect((await handleOf(lease).describe()).status.name).toBe('RUNNING');
  });
});
