/** The mailbox on a real server: order, dedupe, lost doorbells, late workers. */
import { setTimeout } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { v7 } from 'uuid';
import { type ScriptedServer, startScriptedModel } from '../../workers/model-server/scripted.ts';
import type { EnqueueAck } from '../../workflows/protocol/enqueue.ts';
import { agentWorkflowId, turnWorkflowId } from '../../workflows/protocol/ids.ts';
import type { TurnView } from '../../workflows/protocol/views.ts';
import { AGENT_ID } from '../../workflows/search-attributes.ts';
import { testApp } from '../support/app.ts';
import { BACKENDS, type Harness, openHarness } from '../support/harness.ts';
import { runScript } from '../support/processes.ts';

const ANSWER = { instruction: '[script:answer] go', profile: 'tester' };

describe.each(BACKENDS)('a mailbox on %s', (backend) => {
  let harness: Harness;
  let model: ScriptedServer;

  beforeAll(async () => {
    harness = await openHarness(backend);
    model = await startScriptedModel({ scripts: { answer: [{ kind: 'message', content: 'done' }] } });
    await harness.startWorker(testApp([]), model, { sweeper: { everyMs: 200, olderThanMs: 300 } });
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
    await Promise.all(acks.map((ack) => harness.client.turn(ack.agentTurnId).result({ timeoutMs: 50_000 })));
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

  test('the same key is one turn, also after the mailbox continued as new (T2, T10)', async () => {
    const agentId = newAgent();
    const handle = await harness.temporal.client.workflow.start('agent', {
      workflowId: agentWorkflowId(agentId),
      taskQueue: 'agentturn',
      args: [{ agentId, maxHistoryEvents: 20 }],
    });
    const agent = harness.client.agent(agentId);
    const first = await agent.enqueue({ ...ANSWER, idempotencyKey: 'once' });
    await first.result({ timeoutMs: 20_000 });
    for (let i = 0; i < 3; i += 1) await (await agent.enqueue(ANSWER)).result({ timeoutMs: 20_000 });
    const current = await harness.temporal.client.workflow.getHandle(agentWorkflowId(agentId)).describe();
    expect(current.runId).not.toBe(handle.firstExecutionRunId);
    const again = await agent.enqueue({ ...ANSWER, idempotencyKey: 'once' });
    expect(again.ack).toMatchObject({ agentTurnId: first.id, duplicate: true, status: 'success' });
    await expect(agent.enqueue({ ...ANSWER, instruction: 'other', idempotencyKey: 'once' })).rejects.toMatchObject({
      code: 'idempotency_conflict',
    });
    expect(await agent.turns()).toHaveLength(4);
  });

  test('that follows another closes what still runs and is not the turn of its head (T29)', async () => {
    const agentId = newAgent();
    const agent = harness.client.agent(agentId);
    const first = await agent.enqueue(ANSWER);
    await first.result({ timeoutMs: 20_000 });
    const { workflow } = harness.temporal.client;
    // Nobody serves its queue: it would wait for ever.
    const leftover = await workflow.start('agentTurn', {
      workflowId: turnWorkflowId(agentId, v7()),
      taskQueue: 'agentturn.nobody',
      args: [{}],
      typedSearchAttributes: [{ key: AGENT_ID, value: agentId }],
    });
    const query = `WorkflowId = '${leftover.workflowId}'`;
    while ((await workflow.count(query)).count === 0) await setTimeout(20);
    await workflow.getHandle(agentWorkflowId(agentId)).terminate('test');
    const second = await agent.enqueue(ANSWER);
    expect(await second.result({ timeoutMs: 30_000 })).toMatchObject({ status: 'success', turnEpoch: 2 });
    expect((await leftover.describe()).status.name).toBe('TERMINATED');
  });

  test('a turn whose doorbell was swallowed runs all the same (T3)', async () => {
    const agentId = newAgent();
    const request = { ...ANSWER, priority: 'normal' as const };
    const outcome = await harness.store.accept({ agentId, request });
    if (outcome.kind !== 'accepted') throw new Error(outcome.message);
    const view = await harness.client.turn(outcome.agentTurnId).result({ timeoutMs: 20_000 });
    expect(view.status).toBe('success');
  });

  test('an unknown profile ends the turn with its code and the mailbox goes on (T8)', async () => {
    const agent = harness.client.agent(newAgent());
    const poisoned = await agent.enqueue({ ...ANSWER, profile: 'nobody' });
    const healthy = await agent.enqueue(ANSWER);
    expect(await poisoned.result({ timeoutMs: 20_000 })).toMatchObject({
      status: 'failed',
      errorCode: 'profile_not_found',
    });
    expect(await healthy.result({ timeoutMs: 20_000 })).toMatchObject({ status: 'success' });
  });

  test('terminating the mailbox loses nothing: its turn is closed, the next enqueue starts a new one (T29)', async () => {
    const agentId = newAgent();
    const agent = harness.client.agent(agentId);
    await (await agent.enqueue(ANSWER)).result({ timeoutMs: 20_000 });
    await harness.temporal.client.workflow.getHandle(agentWorkflowId(agentId)).terminate('test');
    const next = await agent.enqueue(ANSWER);
    expect(await next.result({ timeoutMs: 20_000 })).toMatchObject({ status: 'success', turnEpoch: 2 });
  });

  test('a running turn that the server has lost is closed worker_lost, and the queue goes on (T29)', async () => {
    const agentId = newAgent();
    const request = { ...ANSWER, priority: 'normal' as const };
    const lost = await harness.store.accept({ agentId, request });
    const outcome = await harness.store.leaseNext(agentId);
    if (lost.kind !== 'accepted' || outcome.kind !== 'leased') throw new Error('no lease');
    const { agentTurnId, turnEpoch, profileHash } = outcome.lease;
    await harness.store.openStep({ agentId, agentTurnId, turnEpoch }, 1, profileHash);
    const next = await harness.client.agent(agentId).enqueue(ANSWER);
    expect(await next.result({ timeoutMs: 20_000 })).toMatchObject({ status: 'success', turnEpoch: 3 });
    expect(await harness.client.turn(agentTurnId).get()).toMatchObject({ status: 'failed', errorCode: 'worker_lost' });
  });

  test('a mailbox started by hand with another id or input fails at once and touches nothing', async () => {
    const handle = await harness.temporal.client.workflow.start('agent', {
      workflowId: `agents/${newAgent()}`,
      taskQueue: 'agentturn',
      args: [{ agentId: '../etc' }],
    });
    await expect(handle.result()).rejects.toMatchObject({ cause: { type: 'invalid_request' } });
  });
});

describe('with no worker running', () => {
  test('enqueue still acks at once, and the turns run when one starts (T3)', async () => {
    const harness = await openHarness();
    const model = await startScriptedModel({ scripts: { answer: [{ kind: 'message', content: 'done' }] } });
    try {
      const agent = harness.client.agent(newAgentId());
      const startedAt = performance.now();
      const handles = await Promise.all([agent.enqueue(ANSWER), agent.enqueue(ANSWER)]);
      expect(performance.now() - startedAt).toBeLessThan(2_000);
      await expect(handles[0]?.result({ timeoutMs: 50 })).rejects.toMatchObject({ code: 'result_wait_timeout' });
      await harness.startWorker(testApp([]), model);
      const views = await Promise.all(handles.map((handle) => handle.result({ timeoutMs: 30_000 })));
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
