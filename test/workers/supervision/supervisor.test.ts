/**
 * The supervisor on a real server: one active at a time, two at once, one that wakes up late, items that fail, a list of workflows that
 * cannot be read (T3, T7, T10, T29).
 */
import { getEventListeners } from 'node:events';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { v7 } from 'uuid';
import type { TurnHandle } from '../../../client/api.ts';
import { type ScriptedServer, startScriptedModel } from '../../../workers/model-server/scripted.ts';
import { ClosedWorkflows, RunningWorkflows } from '../../../workers/supervision/listing.ts';
import { Supervisor, type SupervisorOptions } from '../../../workers/supervision/supervisor.ts';
import { turnWorkflowId } from '../../../workflows/protocol/ids.ts';
import { testApp } from '../../support/app.ts';
import { askScripts, askTool, suspended, taskEvents } from '../../support/asking.ts';
import { connectFaulty } from '../../support/faulty-client.ts';
import { type Harness, openHarness, scenarioStores } from '../../support/harness.ts';
import { WAIT } from '../../support/wait.ts';

const SIGNALED = 26;
/** How long the list of workflows is away, once more than one check; 120,000 for the long run. */
const LIST_OUTAGE_MS = Number(process.env.AGENTTURN_TEST_LIST_OUTAGE_MS ?? 0);

describe.each(scenarioStores(import.meta.url))('the supervisor on %s', (backend) => {
  let harness: Harness;
  let model: ScriptedServer;
  const errors: unknown[] = [];

  beforeAll(async () => {
    harness = await openHarness(backend);
    model = await startScriptedModel({ scripts: askScripts });
    // Each test runs supervisors of its own.
    await harness.startWorker(testApp([askTool]), model, { supervisor: null });
  });
  afterAll(async () => {
    await harness?.close();
    await model?.close();
  });

  const supervisor = (more: Partial<SupervisorOptions> = {}) => {
    const { store, temporal } = harness;
    return new Supervisor({ store, temporal: temporal.client, onError: (error) => errors.push(error), ...more });
  };
  /** What a listing needs, of a caller that does not end. */
  const listing = (client = harness.temporal.client) => ({
    store: harness.store,
    temporal: client,
    ended: new AbortController().signal,
  });
  const newAgent = () => `agent-${v7()}`;
  const enqueue = (script: string, agentId = newAgent()): Promise<TurnHandle> =>
    harness.client.agent(agentId).enqueue({ instruction: `[script:${script}] go`, profile: 'tester' });
  const waiting = async (agentId = newAgent()) => {
    const turn = await enqueue('ask', agentId);
    const [callId = ''] = await suspended(turn);
    const handle = harness.temporal.client.workflow.getHandle(turnWorkflowId(agentId, turn.id));
    return { agentId, turn, callId, handle };
  };
  /** Leased in the store, and never started by its caller. */
  async function lostStart(): Promise<TurnHandle> {
    const request = { instruction: '[script:answer] go', profile: 'tester', priority: 'normal' } as const;
    const accepted = await harness.store.accept({ agentId: newAgent(), request });
    if (accepted.kind !== 'accepted') throw new Error(accepted.message);
    await harness.store.makeDue([accepted.agentTurnId]);
    return harness.client.turn(accepted.agentTurnId);
  }
  /** The workflow of a turn that has ended, which nobody serves. */
  async function leftover() {
    const ended = await lostStart();
    const { agentId } = await ended.get();
    await harness.store.stopTurn(ended.id, 'test');
    const workflowId = turnWorkflowId(agentId, ended.id);
    const options = { workflowId, taskQueue: 'agentturn.nobody', args: [] };
    return harness.temporal.client.workflow.start('agentTurn', options);
  }
  /** Passes until nothing open is due and the server's list has caught up. */
  async function passesUntil(one: Supervisor, done: () => Promise<boolean>): Promise<void> {
    while (!(await done())) {
      await one.pass();
      await sleep(100);
    }
  }
  const isDue = async (turn: TurnHandle) =>
    (await harness.store.dueTurns(1_000)).some(({ agentTurnId }) => agentTurnId === turn.id);
  const hasEnded = async (turn: TurnHandle) => (await turn.get()).endedAt !== null;

  test('is active in one process at a time, and another takes over when it is released (T3)', async () => {
    const [first, second] = [supervisor(), supervisor()];
    expect(await first.pass()).toMatchObject({ active: true });
    expect(await second.pass()).toMatchObject({ active: false, checked: 0 });
    await first.release();
    expect(await second.pass()).toMatchObject({ active: true });
    expect(await first.pass()).toMatchObject({ active: false });
    await second.release();
  });

  test('checks what is due, and keeps its lease, while the list of workflows does not come, beside another one (T29)', async () => {
    const released = Promise.withResolvers<void>();
    const slow = await Promise.all([0, 1].map(() => connectFaulty(harness.address, harness.namespace)));
    for (const { faults } of slow) faults.held.set('ListWorkflowExecutions', released.promise);
    const turn = await lostStart();
    const both = slow.map(({ client }) => supervisor({ temporal: client, leaseMs: 1_500 }));
    await Promise.all(both.map((one) => passesUntil(one, () => hasEnded(turn))));
    expect(await turn.get()).toMatchObject({ status: 'success', turnEpoch: 1 });
    released.resolve();
    for (const one of both) await one.release();
    for (const { close } of slow) await close();
  });

  test('two at once start, end and wake nothing twice (T29)', async () => {
    const starts = await Promise.all(Array.from({ length: 8 }, lostStart));
    const terminated = await Promise.all(Array.from({ length: 4 }, () => waiting()));
    const answered = await Promise.all(Array.from({ length: 4 }, () => waiting()));
    const next = await Promise.all(terminated.map(({ agentId }) => enqueue('answer', agentId)));
    for (const { turn, callId } of answered)
      await harness.store.reportResult(turn.id, { callId, status: 'success', result: 1 });
    for (const { handle } of terminated) await handle.terminate('test');
    await sleep(5_500);
    await harness.store.makeDue(answered.map(({ turn }) => turn.id));
    // Leases that are over at once: both are active.
    const both = [supervisor({ leaseMs: 0 }), supervisor({ leaseMs: 0 })];
    const all = [...starts, ...next, ...[...terminated, ...answered].map(({ turn }) => turn)];
    const done = async () => (await Promise.all(all.map(hasEnded))).every(Boolean);
    await Promise.all(both.map((one) => passesUntil(one, done)));
    for (const turn of all) expect(await taskEvents(harness.store, turn)).toHaveLength(1);
    for (const { turn } of terminated)
      expect(await turn.get()).toMatchObject({ errorCode: 'terminated', turnEpoch: 1 });
    for (const turn of [...starts, ...next, ...answered.map((one) => one.turn)])
      expect(await turn.get()).toMatchObject({ status: 'success' });
    for (const { handle } of answered) {
      const { events } = await handle.fetchHistory();
      expect((events ?? []).filter(({ eventType }) => eventType === SIGNALED).length).toBeLessThanOrEqual(2);
    }
    expect(await harness.store.violations()).toEqual([]);
  });

  test('that was frozen in a pass and wakes when others have gone on does nothing any more (T5, T29)', async () => {
    const faulty = await connectFaulty(harness.address, harness.namespace);
    const held = Promise.withResolvers<void>();
    try {
      const { agentId, turn, handle } = await waiting();
      const next = await enqueue('ask', agentId);
      await handle.terminate('test');
      await harness.store.makeDue([turn.id]);
      faulty.faults.held.set('DescribeWorkflowExecution', held.promise);
      const frozen = supervisor({ temporal: faulty.client, leaseMs: 0 });
      const pass = frozen.pass();
      await passesUntil(supervisor({ leaseMs: 0 }), () => hasEnded(turn));
      await suspended(next);
      const before = await harness.store.readEvents({ agentId });
      held.resolve();
      await pass;
      expect(await harness.store.readEvents({ agentId })).toEqual(before);
      expect((await next.get()).status).toBe('suspended');
      await next.stop();
    } finally {
      held.resolve();
      await faulty.close();
    }
  });

  const outageTimeoutMs = 60_000 + LIST_OUTAGE_MS;
  test(
    'checks what is due while the list of workflows cannot be read, and makes up for it afterwards (T3, T7)',
    async () => {
      const faulty = await connectFaulty(harness.address, harness.namespace);
      const one = supervisor({ temporal: faulty.client });
      try {
        await one.pass();
        faulty.faults.failing.add('ListWorkflowExecutions').add('CountWorkflowExecutions');
        const { turn, handle } = await waiting();
        await handle.terminate('test');
        const until = performance.now() + LIST_OUTAGE_MS;
        do {
          const lost = await lostStart();
          await passesUntil(one, () => hasEnded(lost));
          expect(await lost.get()).toMatchObject({ status: 'success' });
        } while (performance.now() < until);
        expect((await turn.get()).endedAt).toBeNull();
        expect(errors.splice(0).map(String)).toContainEqual(expect.stringContaining('did not list workflows'));
        faulty.faults.failing.clear();
        await passesUntil(one, () => hasEnded(turn));
        expect(await turn.get()).toMatchObject({ status: 'failed', errorCode: 'terminated' });
      } finally {
        await one.release();
        await faulty.close();
      }
    },
    outageTimeoutMs,
  );

  test('finds what is gone although a leftover workflow cannot be closed (T7, T29)', async () => {
    const faulty = await connectFaulty(harness.address, harness.namespace);
    const { client, faults } = faulty;
    const leftovers: { terminate(reason: string): Promise<unknown> }[] = [];
    try {
      for (let count = 0; count < 3; count += 1) leftovers.push(await leftover());
      const gone = await waiting();
      const workflowExecution = { workflowId: gone.handle.workflowId };
      const { namespace } = harness;
      await client.workflowService.deleteWorkflowExecution({ namespace, workflowExecution });
      faults.failing.add('TerminateWorkflowExecution');
      const running = new RunningWorkflows(listing(client), 0, 0);
      while (!(await isDue(gone.turn))) {
        await running.compare().catch(() => {});
        await sleep(100);
      }
      await gone.turn.stop();
    } finally {
      faults.failing.clear();
      for (const leftover of leftovers) await leftover.terminate('test');
      await faulty.close();
    }
  });

  test('looks for leftovers no more often when one cannot be closed (T29)', async () => {
    const faulty = await connectFaulty(harness.address, harness.namespace);
    const leftovers = await Promise.all(Array.from({ length: 3 }, leftover));
    try {
      faulty.faults.failing.add('TerminateWorkflowExecution');
      const running = new RunningWorkflows(listing(faulty.client), 3_000, 0);
      const fails = () =>
        running.compare().then(
          () => false,
          () => true,
        );
      while (!(await fails())) await sleep(100);
      expect(await fails()).toBe(false);
    } finally {
      for (const one of leftovers) await one.terminate('test');
      await faulty.close();
    }
  });

  test('keeps nothing of the lists that it has read, however long it lives (T29)', async () => {
    const deps = listing();
    await new ClosedWorkflows(deps).list(null);
    await new RunningWorkflows(deps, 0, 0).compare();
    expect(getEventListeners(deps.ended, 'abort')).toEqual([]);
  });

  test('puts off what fails and goes on with the rest; every item has its turn again (T3)', async () => {
    const faulty = await connectFaulty(harness.address, harness.namespace);
    const one = supervisor({ temporal: faulty.client });
    try {
      const starts = await Promise.all(Array.from({ length: 3 }, lostStart));
      const parked = await waiting();
      await harness.store.makeDue([parked.turn.id]);
      faulty.faults.failing.add('DescribeTaskQueue');
      const pass = await one.pass();
      expect(pass).toMatchObject({ active: true, failed: 1 });
      for (const turn of starts) expect(await turn.result(WAIT)).toMatchObject({ status: 'success' });
      const due = await harness.store.dueTurns(100);
      expect(due.map(({ agentTurnId }) => agentTurnId)).not.toContain(parked.turn.id);
      await parked.turn.stop();
    } finally {
      errors.splice(0);
      await one.release();
      await faulty.close();
    }
  });

  test.each(['terminated', 'cancelled', 'deleted'] as const)(
    'a turn whose workflow is %s has its one end, and the next turn runs, a pass later (T7)',
    async (how) => {
      const one = supervisor();
      const { agentId, turn, handle } = await waiting();
      const next = await enqueue('answer', agentId);
      const { namespace } = harness;
      if (how === 'terminated') await handle.terminate('test');
      if (how === 'cancelled') await handle.cancel();
      if (how === 'deleted') {
        const workflowExecution = { workflowId: handle.workflowId };
        await harness.temporal.client.workflowService.deleteWorkflowExecution({ namespace, workflowExecution });
      }
      await passesUntil(one, () => hasEnded(turn));
      expect(await turn.get()).toMatchObject({
        status: 'failed',
        errorCode: how === 'deleted' ? 'worker_lost' : 'terminated',
      });
      expect(await next.result(WAIT)).toMatchObject({ status: 'success' });
      expect(await taskEvents(harness.store, turn)).toHaveLength(1);
      await one.release();
    },
  );

  test('the list of closed workflows makes a turn due whose workflow is terminated (T7)', async () => {
    const { turn, handle } = await waiting();
    expect(await isDue(turn)).toBe(false);
    await handle.terminate('test');
    const closed = new ClosedWorkflows(listing());
    for (let since: number | null = null; !(await isDue(turn)); await sleep(100)) since = await closed.list(since);
    await turn.stop();
  });

  test('a reset turn is left alone: the run that was reset is closed, the turn goes on in another (T29)', async () => {
    const one = supervisor();
    const { agentId, turn, callId, handle } = await waiting();
    const { events } = await handle.fetchHistory();
    const first = (events ?? []).find(({ eventType }) => eventType === 7)?.eventId;
    await harness.temporal.client.workflowService.resetWorkflowExecution({
      namespace: harness.namespace,
      workflowExecution: { workflowId: handle.workflowId },
      workflowTaskFinishEventId: first ?? null,
      requestId: v7(),
      reason: 'test',
    });
    const closed = `WorkflowId = '${turnWorkflowId(agentId, turn.id)}' AND ExecutionStatus = 'Terminated'`;
    while ((await harness.temporal.client.workflow.count(closed)).count === 0) await sleep(50);
    for (let passes = 0; passes < 3; passes += 1) await one.pass();
    expect((await turn.get()).endedAt).toBeNull();
    await turn.toolResult({ callId, status: 'success', result: 1 });
    expect(await turn.result(WAIT)).toMatchObject({ status: 'success', turnEpoch: 1 });
    await one.release();
  });
});
