/** An agent's queue on a real server: order, repeated keys, lost starts, foreign clients, late workers. */
import { setTimeout } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { WorkflowNotFoundError } from '@temporalio/client';
import { v7 } from 'uuid';
import { type ScriptedServer, startScriptedModel } from '../../workers/model-server/scripted.ts';
import { RunningWorkflows } from '../../workers/supervision/listing.ts';
import type { TurnView } from '../../workflows/contract/views.ts';
import { AGENT_ID } from '../../workflows/messages/search-attributes.ts';
import type { EnqueueAck } from '../../workflows/protocol/enqueue.ts';
import { agentWorkflowId, CONTROL_QUEUE, turnWorkflowId } from '../../workflows/protocol/ids.ts';
import { signalAcceptor } from '../support/acceptor.ts';
import { testApp } from '../support/app.ts';
import { askScripts, askTool, suspended } from '../support/asking.ts';
import { type Harness, openHarness, scenarioStores } from '../support/harness.ts';
import { runScript } from '../support/processes.ts';
import { WAIT } from '../support/wait.ts';

const ANSWER = { instruction: '[script:answer] go', profile: 'tester' };

const WORKFLOW_TASK_COMPLETED = 7;

describe.each(scenarioStores(import.meta.url))('the queue of an agent on %s', (backend) => {
  let harness: Harness;
  let model: ScriptedServer;

  beforeAll(async () => {
    harness = await openHarness(backend);
    model = await startScriptedModel({ scripts: askScripts });
    await harness.startWorker(testApp([askTool]), model, {
      acceptor: true,
      supervisor: { everyMs: 200, orphansEveryMs: 1_000 },
    });
  });
  afterAll(async () => {
    await harness?.close();
    await model?.close();
  });

  const newAgent = () => `agent-${v7()}`;

  test('runs 20 enqueues of 4 client processes as 20 turns, one after the other (T1, T2, T6)', async () => {
    const agentId = newAgent();
    const args = [harness.address, harness.namespace, harness.storeUrl, agentId, '5'];
    const outputs = await Promise.all(
      Array.from({ length: 4 }, () => runScript('test/support/client-process.ts', args)),
    );
    const acks = outputs.flatMap((output) => JSON.parse(output) as EnqueueAck[]);
    await Promise.all(acks.map((ack) => harness.client.turn(ack.agentTurnId).result(WAIT)));
    const turns = await harness.client.agent(agentId).turns();
    expect(turns.map((turn) => turn.status)).toEqual(Array(20).fill('success'));
    expect(turns.map((turn) => turn.turnEpoch)).toEqual(Array.from({ length: 20 }, (_, i) => i + 1));
    expect(overlaps(turns)).toEqual([]);
    const tasks = (await harness.store.readEvents({ agentId })).filter((event) => event.type === 'task');
    expect(tasks.map((event) => event.agentTurnId)).toEqual(turns.map((turn) => turn.agentTurnId));
    const [boxId] = new Set(turns.map((turn) => turn.outputBoxId));
    const boxed = (await harness.store.readBox(boxId ?? '')).map(({ card }) => card.cardId);
    expect(boxed).toEqual(expect.arrayContaining(turns.map((turn) => turn.deliverableCardId)));
  });

  test('the same key is one turn, also after it ended, and another body is a conflict (T2, T10)', async () => {
    const agent = harness.client.agent(newAgent());
    const first = await agent.enqueue({ ...ANSWER, idempotencyKey: 'once' });
    await first.result(WAIT);
    const again = await agent.enqueue({ ...ANSWER, idempotencyKey: 'once' });
    expect(again.ack).toMatchObject({ agentTurnId: first.id, duplicate: true, status: 'success' });
    await expect(agent.enqueue({ ...ANSWER, instruction: 'other', idempotencyKey: 'once' })).rejects.toMatchObject({
      code: 'idempotency_conflict',
    });
    expect(await agent.turns()).toHaveLength(1);
  });

  test('a turn whose start was lost runs all the same: its caller asks again, or the supervisor starts it (T3, T29)', async () => {
    const [retried, left] = [newAgent(), newAgent()];
    const request = { ...ANSWER, priority: 'normal' as const, idempotencyKey: 'k' };
    for (const agentId of [retried, left])
      expect(await harness.store.accept({ agentId, request })).toMatchObject({ status: 'dispatched' });
    const again = await harness.client.agent(retried).enqueue(request);
    expect(again.ack).toMatchObject({ duplicate: true, status: 'dispatched' });
    expect(await again.result(WAIT)).toMatchObject({ status: 'success', turnEpoch: 1 });
    const [turn] = await harness.client.agent(left).turns();
    const view = await harness.client.turn(turn?.agentTurnId ?? '').result(WAIT);
    expect(view).toMatchObject({ status: 'success', turnEpoch: 1 });
  });

  test('a workflow that is not the turn of any head is closed; one of another store is left alone (T29)', async () => {
    const agentId = newAgent();
    const request = { ...ANSWER, priority: 'normal' as const, idempotencyKey: 'k' };
    const accepted = await harness.store.accept({ agentId, request });
    if (accepted.kind !== 'accepted') throw new Error(accepted.message);
    await harness.store.stopTurn(accepted.agentTurnId, 'test');
    // Nobody serves their queue: they would wait for ever.
    const start = (agentTurnId: string) =>
      harness.temporal.client.workflow.start('agentTurn', {
        workflowId: turnWorkflowId(agentId, agentTurnId),
        taskQueue: 'agentturn.nobody',
        args: [{}],
        typedSearchAttributes: [{ key: AGENT_ID, value: agentId }],
      });
    const unknown = await start(v7());
    const leftover = await start(accepted.agentTurnId);
    const { store, temporal } = harness;
    const ended = new AbortController().signal;
    const surplus = new RunningWorkflows({ store, temporal: temporal.client, ended }, 0, 0);
    while ((await leftover.describe()).status.name === 'RUNNING') {
      await surplus.compare();
      await setTimeout(100);
    }
    expect((await leftover.describe()).status.name).toBe('TERMINATED');
    expect((await unknown.describe()).status.name).toBe('RUNNING');
    await unknown.terminate('test');
  });

  test('a turn that cannot start ends with its code, and the queue goes on (T8)', async () => {
    const agent = harness.client.agent(newAgent());
    const poisoned = await agent.enqueue({ ...ANSWER, contextBoxId: v7() });
    const healthy = await agent.enqueue(ANSWER);
    expect(await poisoned.result(WAIT)).toMatchObject({
      status: 'failed',
      errorCode: 'box_unavailable',
    });
    expect(await healthy.result(WAIT)).toMatchObject({ status: 'success' });
  });

  test('a running turn that the server has lost is closed worker_lost, and the queue goes on (T29)', async () => {
    const agentId = newAgent();
    const request = { ...ANSWER, priority: 'normal' as const };
    const lost = await harness.store.accept({ agentId, request });
    if (lost.kind !== 'accepted' || !lost.lease) throw new Error('no lease');
    const { agentTurnId, turnEpoch, profileHash } = lost.lease;
    await harness.store.openStep({ agentId, agentTurnId, turnEpoch }, { stepIndex: 1, profileHash });
    const next = await harness.client.agent(agentId).enqueue(ANSWER);
    expect(await next.result(WAIT)).toMatchObject({ status: 'success', turnEpoch: 3 });
    expect(await harness.client.turn(agentTurnId).get()).toMatchObject({ status: 'failed', errorCode: 'worker_lost' });
  });

  test('no workflow runs for an idle agent (T10)', async () => {
    const agentId = newAgent();
    await (await harness.client.agent(agentId).enqueue(ANSWER)).result(WAIT);
    const { workflow } = harness.temporal.client;
    await expect(workflow.getHandle(agentWorkflowId(agentId)).describe()).rejects.toThrow(WorkflowNotFoundError);
    const running = `AgentId = '${agentId}' AND ExecutionStatus = 'Running'`;
    while ((await workflow.count(running)).count > 0) await setTimeout(50);
  });

  describe('a foreign client', () => {
    const signalWithStart = (agentId: string, body: unknown) => signalAcceptor(harness.temporal.client, agentId, body);
    const turnsOf = async (agentId: string, count: number) => {
      for (;;) {
        const turns = await harness.client.agent(agentId).turns();
        if (turns.length >= count && turns.every((turn) => turn.endedAt !== null)) return turns;
        await harness.store.changed(500);
      }
    };

    test('has its request accepted and run; the acceptor completes, and takes the next one anew (T3)', async () => {
      const agentId = newAgent();
      for (let count = 1; count <= 2; count += 1) {
        const acceptor = await signalWithStart(agentId, { ...ANSWER, idempotencyKey: `k${count}` });
        await acceptor.result();
        expect((await turnsOf(agentId, count)).map((turn) => turn.status)).toEqual(Array(count).fill('success'));
      }
    });

    test('loses none of many requests at once, and a repeated key is one turn (T2, T3)', async () => {
      const agentId = newAgent();
      const keys = Array.from({ length: 40 }, (_, index) => `k${index % 20}`);
      await Promise.all(keys.map((idempotencyKey) => signalWithStart(agentId, { ...ANSWER, idempotencyKey })));
      const turns = await turnsOf(agentId, 20);
      expect(turns.map((turn) => turn.status)).toEqual(Array(20).fill('success'));
      expect(overlaps(turns)).toEqual([]);
    });

    test('may repeat a request: refused, it is tried again; accepted, it changes nothing any more (T2, T10)', async () => {
      const agentId = newAgent();
      const agent = harness.client.agent(agentId);
      await agent.enqueue(ANSWER);
      await agent.stop('closed for a moment');
      const repeat = { ...ANSWER, idempotencyKey: 'again' };
      const acceptors = new Set<string>();
      const send = async () => void acceptors.add((await signalWithStart(agentId, repeat)).signaledRunId);
      const drops = async () => (await harness.store.readEvents({ agentId })).filter(({ type }) => type === 'dropped');
      await Promise.all([send(), send()]);
      while ((await drops()).length < 2) await harness.store.changed(500);
      await agent.start();
      await Promise.all(Array.from({ length: 100 }, send));
      expect(await turnsOf(agentId, 2)).toHaveLength(2);
      expect(await drops()).toHaveLength(2);
      let markers = 0;
      for (const runId of acceptors) {
        const acceptor = harness.temporal.client.workflow.getHandle(agentWorkflowId(agentId), runId);
        await acceptor.result();
        const { events } = await acceptor.fetchHistory();
        markers += events?.filter((event) => event.markerRecordedEventAttributes).length ?? 0;
      }
      expect(markers).toBeLessThan(50);
    });

    test('may signal a running turn of the agent: the request is queued behind it, at once (T3)', async () => {
      const agentId = newAgent();
      const turn = await harness.client.agent(agentId).enqueue({ ...ANSWER, instruction: '[script:ask] go' });
      const [callId = ''] = await suspended(turn);
      const handle = harness.temporal.client.workflow.getHandle(turnWorkflowId(agentId, turn.id));
      const queued = async (count: number) => {
        while (((await harness.client.agent(agentId).get())?.agent.pending ?? 0) < count)
          await harness.store.changed(500);
      };
      await handle.signal('enqueue', { ...ANSWER, idempotencyKey: 'behind' });
      await handle.signal('enqueue', 'not a request');
      await queued(1);
      expect((await turn.get()).status).toBe('suspended');
      // A repeated one is passed over, and does not stand in the way of the next.
      await handle.signal('enqueue', { ...ANSWER, idempotencyKey: 'behind' });
      await handle.query('turn_state');
      await handle.signal('enqueue', { ...ANSWER, idempotencyKey: 'last' });
      await queued(2);
      await turn.toolResult({ callId, status: 'success', result: 1 });
      expect((await turnsOf(agentId, 3)).map((one) => one.status)).toEqual(Array(3).fill('success'));
      const dropped = (await harness.store.readEvents({ agentId })).filter(({ type }) => type === 'dropped');
      expect(dropped).toHaveLength(1);
    });

    test('that starts the acceptor with an id of nobody fails at once and touches nothing', async () => {
      const handle = await harness.temporal.client.workflow.start('agent', {
        workflowId: `agents/${newAgent()}/etc`,
        taskQueue: CONTROL_QUEUE,
      });
      await expect(handle.result()).rejects.toMatchObject({ cause: { type: 'invalid_request' } });
    });

    test('that starts the acceptor with nonsense does not spoil it for others (T3)', async () => {
      const agentId = newAgent();
      const nonsense = [{ agentId: '../etc' }];
      await signalAcceptor(harness.temporal.client, agentId, { ...ANSWER, idempotencyKey: 'k0' }, nonsense);
      await Promise.all([1, 2, 3].map((n) => signalWithStart(agentId, { ...ANSWER, idempotencyKey: `k${n}` })));
      expect((await turnsOf(agentId, 4)).map((one) => one.status)).toEqual(Array(4).fill('success'));
    });

    test('loses no request to a turn that was stopped over its head (T3, T21)', async () => {
      const agentId = newAgent();
      const turn = await harness.client.agent(agentId).enqueue({ ...ANSWER, instruction: '[script:ask] go' });
      await suspended(turn);
      const handle = harness.temporal.client.workflow.getHandle(turnWorkflowId(agentId, turn.id));
      await harness.store.stopTurn(turn.id, 'test');
      const keys = Array.from({ length: 10 }, (_, index) => `k${index}`);
      await Promise.all([
        ...keys.map((idempotencyKey) => handle.signal('enqueue', { ...ANSWER, idempotencyKey })),
        handle.signal('wake'),
      ]);
      expect(await turnsOf(agentId, 11)).toHaveLength(11);
    });

    test('sent one request without a key to a turn that is reset afterwards: it is one turn (T2)', async () => {
      const agentId = newAgent();
      const turn = await harness.client.agent(agentId).enqueue({ ...ANSWER, instruction: '[script:ask] go' });
      const [callId = ''] = await suspended(turn);
      const { workflow, workflowService } = harness.temporal.client;
      const handle = workflow.getHandle(turnWorkflowId(agentId, turn.id));
      const { events } = await handle.fetchHistory();
      const first = (events ?? []).find((event) => event.eventType === WORKFLOW_TASK_COMPLETED)?.eventId;
      await handle.signal('enqueue', ANSWER);
      while (((await harness.client.agent(agentId).get())?.agent.pending ?? 0) === 0) await harness.store.changed(500);
      await workflowService.resetWorkflowExecution({
        namespace: harness.namespace,
        workflowExecution: { workflowId: handle.workflowId },
        workflowTaskFinishEventId: first ?? null,
        requestId: v7(),
        reason: 'test',
      });
      await turn.toolResult({ callId, status: 'success', result: 1 });
      expect(await turn.result(WAIT)).toMatchObject({ status: 'success', turnEpoch: 1 });
      expect((await turnsOf(agentId, 2)).map((one) => one.status)).toEqual(['success', 'success']);
    });

    test('that copies the input of an open turn into a second workflow is refused before it writes anything (T1, T5)', async () => {
      const agentId = newAgent();
      const turn = await harness.client.agent(agentId).enqueue({ ...ANSWER, instruction: '[script:ask] go' });
      const [callId = ''] = await suspended(turn);
      const lease = (await harness.store.leaseNext(agentId)).next;
      expect(lease).toBeNull();
      const { workflow } = harness.temporal.client;
      const history = await workflow.getHandle(turnWorkflowId(agentId, turn.id)).fetchHistory();
      const input = history.events?.[0]?.workflowExecutionStartedEventAttributes?.input?.payloads?.[0]?.data;
      const copied = JSON.parse(Buffer.from(input ?? []).toString());
      const seqs = async () => (await harness.store.readEvents({ agentId })).length;
      const before = await seqs();
      const copy = await workflow.start('agentTurn', {
        workflowId: `copy-of/${turn.id}`,
        taskQueue: 'agentturn.worker_generic',
        args: [copied],
      });
      await expect(copy.result()).rejects.toMatchObject({ cause: { type: 'protocol_violation' } });
      expect(await seqs()).toBe(before);
      await turn.toolResult({ callId, status: 'success', result: 1 });
      expect(await turn.result(WAIT)).toMatchObject({ status: 'success', turnEpoch: 1 });
    });
  });
});

describe('with no worker running', () => {
  test('enqueue acks, and the turns run when one starts (T3)', async () => {
    const harness = await openHarness();
    const model = await startScriptedModel({ scripts: { answer: [{ kind: 'message', content: 'done' }] } });
    try {
      const agent = harness.client.agent(newAgentId());
      const handles = await Promise.all([agent.enqueue(ANSWER), agent.enqueue(ANSWER)]);
      await expect(handles[0]?.result({ timeoutMs: 50 })).rejects.toMatchObject({ code: 'result_wait_timeout' });
      await harness.startWorker(testApp([]), model);
      const views = await Promise.all(handles.map((handle) => handle.result(WAIT)));
      expect(views.map((view) => view.status)).toEqual(['success', 'success']);
    } finally {
      await harness.close();
      await model.close();
    }
  });
});

const newAgentId = () => `agent-${v7()}`;

/** Pairs of turns that ran at the same time. */
function overlaps(turns: readonly TurnView[]): string[] {
  const ordered = [...turns].sort((a, b) => (a.leasedAt ?? 0) - (b.leasedAt ?? 0));
  return ordered.flatMap((turn, index) => {
    const next = ordered[index + 1];
    return next && (next.leasedAt ?? 0) < (turn.endedAt ?? Number.POSITIVE_INFINITY)
      ? [`${turn.agentTurnId} ${next.agentTurnId}`]
      : [];
  });
}
