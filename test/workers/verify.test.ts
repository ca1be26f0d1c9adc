/** Each check that needs Temporal, proven on a situation made for it on a real server; and that a healthy installation has none. */
import { setTimeout } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import type { Client } from '@temporalio/client';
import { v7 } from 'uuid';
import { z } from 'zod';
import { defineTool } from '../../activities/app/app.ts';
import type { TurnHandle } from '../../client/api.ts';
import { connectClient } from '../../client/connect.ts';
import { type ScriptedServer, startScriptedModel } from '../../workers/model-server/scripted.ts';
import { startSupervisor } from '../../workers/supervision/supervisor.ts';
import { type VerifyDeps, verifyInstallation } from '../../workers/verify.ts';
import type { RunningWorker } from '../../workers/worker.ts';
import type { Violation } from '../../workflows/contract/views.ts';
import { agentWorkflowId, CONTROL_QUEUE, targetQueue, turnWorkflowId } from '../../workflows/protocol/ids.ts';
import { signalAcceptor } from '../support/acceptor.ts';
import { testApp } from '../support/app.ts';
import { type Harness, openHarness, scenarioStores } from '../support/harness.ts';
import { WAIT } from '../support/wait.ts';

const ask = { kind: 'message', toolCalls: [{ name: 'ask', arguments: {} }] } as const;
const say = (content: string) => ({ kind: 'message', content }) as const;
/** So many that the server marks the workflow, and so few that it tries again at once. */
const FAILURES = 6;
/** When everything that is wrong now is more than a minute old. */
const later = () => Date.now() + 61_000;

const app = testApp([
  defineTool({
    name: 'ask',
    description: 'a person answers',
    parameters: z.object({}),
    afterExecution: 'suspend',
    suspendTimeoutMs: 600_000,
  }),
]);

describe.each(scenarioStores(import.meta.url))('verify on %s', (backend) => {
  let harness: Harness;
  let model: ScriptedServer;
  let stopSupervisor: (() => Promise<void>) | undefined;

  beforeEach(async () => {
    harness = await openHarness(backend);
    model = await startScriptedModel({ scripts: { answer: [say('done')], ask: [ask, say('thanks')] } });
  });
  afterEach(async () => {
    await stopSupervisor?.();
    stopSupervisor = undefined;
    await harness?.close();
    await model?.close();
  });

  /** Nobody heals what a test plants, unless told. */
  const startWorker = (acceptor = false): Promise<RunningWorker> =>
    harness.startWorker(app, model, { acceptor, supervisor: null });
  /** From now on somebody heals it. */
  function supervise(): void {
    const { store, temporal } = harness;
    stopSupervisor = startSupervisor({ store, temporal: temporal.client, everyMs: 200, onError: () => {} });
  }
  /** What the start of a worker does for its store. */
  const registerApp = () => harness.store.registerProfiles([...app.agents.values()]);
  const enqueue = (agentId: string, script: string): Promise<TurnHandle> =>
    harness.client.agent(agentId).enqueue({ instruction: `[script:${script}] go`, profile: 'tester' });
  const workflow = (id: string) => harness.temporal.client.workflow.getHandle(id);
  const closed = async (agentId: string, turn: TurnHandle): Promise<void> => {
    await workflow(turnWorkflowId(agentId, turn.id))
      .result()
      .catch(() => {});
  };

  async function suspended(turn: TurnHandle): Promise<string> {
    for await (const event of turn.events()) {
      if (event.type === 'call' && event.payload.phase === 'suspended') return event.payload.callId;
    }
    throw new Error('it did not wait');
  }
  /** The server's lists lag behind its workflows, and say nothing when they have caught up. */
  async function listed(turns: number): Promise<void> {
    const query = "WorkflowType = 'agentTurn'";
    while ((await harness.temporal.client.workflow.count(query)).count < turns) await setTimeout(20);
  }
  /** A waiting turn whose workers are gone. */
  async function abandoned(agentId: string): Promise<TurnHandle> {
    const worker = await startWorker();
    const turn = await enqueue(agentId, 'ask');
    await suspended(turn);
    await worker.stop();
    return turn;
  }

  const verify = async (more: Partial<VerifyDeps> = {}) => {
    const violations: Violation[] = [];
    const deps = { store: harness.store, temporal: harness.temporal.client, ...more };
    const looked = await verifyInstallation(deps, (page) => violations.push(...page));
    return { violations, ...looked };
  };
  const found = async (more: Partial<VerifyDeps> = {}) => (await verify(more)).violations;

  test('a healthy installation has no violation: busy, waiting, stopped, at rest', async () => {
    await startWorker();
    const waiting = await enqueue('waiting', 'ask');
    await suspended(waiting);
    await enqueue('waiting', 'answer');
    const busy = Array.from({ length: 24 }, async (_, index) => {
      const agentId = `busy-${index % 6}`;
      const turn = await enqueue(agentId, 'answer');
      await turn.result(WAIT);
      await closed(agentId, turn);
    });
    const looks = await Promise.all([1, 2, 3].map(() => found()));
    await Promise.all(busy);
    expect(looks).toEqual([[], [], []]);

    const stopping = await enqueue('stopped', 'ask');
    await suspended(stopping);
    await enqueue('stopped', 'answer');
    await harness.client.agent('stopped').stop();
    await closed('stopped', stopping);
    const none = { violations: [], unchecked: [], stalled: 0, stalls: [] };
    expect(await verify({ now: later })).toEqual({ ...none, turns: 28, agents: 8 });
  });

  test('stranded_turn: accepted, and its idle agent does not run it', async () => {
    const request = { instruction: '[script:answer] go', profile: 'tester', priority: 'normal' } as const;
    const agentTurnId = v7();
    // No worker has registered a profile in this store yet.
    await harness.store.accept({ agentId: 'alice', agentTurnId, request });
    expect(await found()).toEqual([]);
    const detail = expect.stringMatching(/^queued for 6\d s, and its agent is idle$/);
    const stranded = [{ check: 'stranded_turn', agentId: 'alice', agentTurnId, detail }];
    expect(await found({ now: later })).toEqual(stranded);
    expect(await found({ graceMs: -1 })).toMatchObject([{ check: 'stranded_turn' }]);

    await harness.store.setLifecycle('alice', 'stopped', 'test');
    expect(await found({ now: later })).toEqual([]);
    await harness.store.setLifecycle('alice', 'started', '');
    expect(await found({ now: later })).toEqual(stranded);
    await startWorker();
    expect(await found({ now: later })).toEqual(stranded);
    supervise();
    expect(await harness.client.turn(agentTurnId).result(WAIT)).toMatchObject({ status: 'success' });
    await closed('alice', harness.client.turn(agentTurnId));
    expect(await found({ now: later })).toEqual([]);
  });

  test('a turn that waits in the queue of an agent at work is late, not stranded', async () => {
    await startWorker();
    const open = await enqueue('alice', 'ask');
    await suspended(open);
    await enqueue('alice', 'answer');
    expect(await found({ now: later })).toEqual([]);
  });

  test('orphan_workflow: a turn started by hand, that the store does not know or has not leased', async () => {
    const start = (workflowId: string) =>
      harness.temporal.client.workflow.start('agentTurn', { workflowId, taskQueue: 'agentturn.nobody', args: [{}] });
    const unknown = v7();
    await start(turnWorkflowId('alice', unknown));
    const queued = await enqueue('bob', 'answer');
    await start(turnWorkflowId('bob', queued.id));
    await start(turnWorkflowId('carol', queued.id));
    await start('just-a-name');
    await listed(4);
    const orphans = [...(await found())].sort((a, b) => (a.agentId ?? '').localeCompare(b.agentId ?? ''));
    const check = 'orphan_workflow';
    expect(orphans).toEqual([
      { check, agentId: null, agentTurnId: null, detail: 'workflow just-a-name runs: its id names no turn' },
      {
        check,
        agentId: 'alice',
        agentTurnId: unknown,
        detail: `workflow agents/alice/turns/${unknown} runs: the store has no such turn`,
      },
      {
        check,
        agentId: 'bob',
        agentTurnId: queued.id,
        detail: expect.stringMatching(/runs: the turn is queued and not what the head points at$/),
      },
      {
        check,
        agentId: 'carol',
        agentTurnId: queued.id,
        detail: expect.stringMatching(/runs: the turn belongs to agent bob$/),
      },
    ]);
  });

  test('orphan_workflow: a turn that was ended in the store, and no worker lets its workflow go', async () => {
    const turn = await abandoned('alice');
    expect(await found({ now: later })).toEqual([]);
    await turn.stop();
    expect(await found()).toEqual([]);
    const detail = `workflow agents/alice/turns/${turn.id} runs: the turn has ended failed`;
    const orphan = [{ check: 'orphan_workflow', agentId: 'alice', agentTurnId: turn.id, detail }];
    await listed(1);
    expect(await found({ now: later })).toEqual(orphan);
    await startWorker();
    await closed('alice', turn);
    expect(await found({ now: later })).toEqual([]);
  });

  test.each([['terminated'], ['deleted']])('lost_turn: its workflow was %s, and nobody has noticed', async (how) => {
    const turn = await abandoned('alice');
    const queued = await enqueue('alice', 'answer');
    expect(await found({ now: later })).toEqual([]);
    const workflowId = turnWorkflowId('alice', turn.id);
    if (how === 'terminated') await workflow(workflowId).terminate('test');
    else await deleted(workflowId);
    await unlisted(workflowId);
    expect(await found()).toEqual([]);
    const detail = `the head is suspended, the turn's workflow is ${how === 'deleted' ? 'unknown' : 'TERMINATED'}`;
    const lost = [{ check: 'lost_turn', agentId: 'alice', agentTurnId: turn.id, detail }];
    expect(await found({ now: later })).toEqual(lost);
    await startWorker();
    expect(await found({ now: later })).toEqual(lost);
    supervise();
    const errorCode = how === 'terminated' ? 'terminated' : 'worker_lost';
    expect(await turn.result(WAIT)).toMatchObject({ status: 'failed', errorCode });
    expect(await queued.result(WAIT)).toMatchObject({ status: 'success' });
    await closed('alice', queued);
    expect(await found({ now: later })).toEqual([]);
  });

  test('lost_turn: it was leased, and whoever leased it was gone before its workflow was started', async () => {
    await registerApp();
    const request = { instruction: '[script:answer] go', profile: 'tester', priority: 'normal' } as const;
    const agentTurnId = v7();
    await harness.store.accept({ agentId: 'alice', agentTurnId, request });
    expect(await found()).toEqual([]);
    const detail = "the head is dispatched, the turn's workflow is unknown";
    const lost = [{ check: 'lost_turn', agentId: 'alice', agentTurnId, detail }];
    expect(await found({ now: later })).toEqual(lost);
    await startWorker();
    supervise();
    const turn = harness.client.turn(agentTurnId);
    expect(await turn.result(WAIT)).toMatchObject({ status: 'success' });
    await closed('alice', turn);
    expect(await found({ now: later })).toEqual([]);
  });

  /** The list of running workflows learns of an end a moment later. */
  async function unlisted(workflowId: string): Promise<void> {
    const query = `WorkflowId = '${workflowId}' AND ExecutionStatus = 'Running'`;
    while ((await harness.temporal.client.workflow.count(query)).count > 0) await setTimeout(100);
  }

  async function deleted(workflowId: string): Promise<void> {
    const { namespace, temporal } = harness;
    const workflowExecution = { workflowId };
    await temporal.connection.workflowService.deleteWorkflowExecution({ namespace, workflowExecution });
    const gone = async () =>
      workflow(workflowId)
        .describe()
        .then(
          () => false,
          () => true,
        );
    while (!(await gone())) await setTimeout(100);
  }

  test.each([
    ['a turn', targetQueue('worker_generic')],
    ['an acceptor', CONTROL_QUEUE],
  ])('failing_workflow_task: %s whose every task fails, until a worker that can run it comes', async (of, queue) => {
    await registerApp();
    const agentTurnId = of === 'a turn' ? (await enqueue('alice', 'answer')).id : null;
    const workflowId = agentTurnId === null ? agentWorkflowId('alice') : turnWorkflowId('alice', agentTurnId);
    if (agentTurnId === null) await signalWithStart('alice', '[script:answer] go');
    const broken = await startBrokenWorker(queue);
    try {
      while ((await found()).length === 0) await setTimeout(200);
    } finally {
      await broken.stop();
    }
    const cause = 'cause=WorkflowTaskFailedCauseNonDeterministicError';
    const detail = `the tasks of workflow ${workflowId} fail again and again: category=WorkflowTaskFailed, ${cause}`;
    expect(await found()).toEqual([{ check: 'failing_workflow_task', agentId: 'alice', agentTurnId, detail }]);
    const stalls = agentTurnId === null ? [] : [{ agentTurnId, stall: { kind: 'workflow_task' } }];
    expect(await verify({ now: later })).toMatchObject({ stalled: stalls.length, stalls });
    await startWorker(agentTurnId === null);
    // The server tries it again by itself, soon after so few failures.
    await workflow(workflowId).result();
    for (const turn of await harness.client.agent('alice').turns()) {
      await harness.client.turn(turn.agentTurnId).result(WAIT);
      await closed('alice', harness.client.turn(turn.agentTurnId));
    }
    const turns = await harness.client.agent('alice').turns();
    expect(turns.map(({ status }) => status)).toEqual(['success']);
    expect(await found({ now: later })).toEqual([]);
  });

  const signalWithStart = (agentId: string, instruction: string) =>
    signalAcceptor(harness.temporal.client, agentId, { instruction, profile: 'tester' });

  /** Takes workflow tasks and fails each, as a worker with incompatible code does. */
  async function startBrokenWorker(queue: string): Promise<{ stop(): Promise<void> }> {
    // Of its own: closing it ends the poll under way.
    const { connection } = await connectClient(harness);
    const { workflowService } = connection;
    const { namespace } = harness;
    let stopped = false;
    const failTasks = async () => {
      for (let failures = 0; !stopped && failures < FAILURES; ) {
        const { taskToken } = await connection.withDeadline(Date.now() + 60_000, () =>
          workflowService.pollWorkflowTaskQueue({ namespace, taskQueue: { name: queue }, identity: 'broken' }),
        );
        const nonDeterministic = 24;
        if (taskToken && taskToken.length > 0) {
          await workflowService.respondWorkflowTaskFailed({ namespace, taskToken, cause: nonDeterministic });
          failures += 1;
        }
      }
    };
    const failing = failTasks().catch(() => {});
    return {
      async stop() {
        stopped = true;
        await connection.close();
        await failing;
      },
    };
  }

  test('a server that marks no failing workflows is told of, not taken for a clean one', async () => {
    const workflowService = { describeNamespace: async () => ({ namespaceInfo: { capabilities: {} } }) };
    const temporal: Client = Object.create(harness.temporal.client, { connection: { value: { workflowService } } });
    const { violations, unchecked } = await verify({ temporal });
    expect({ violations, unchecked }).toEqual({
      violations: [],
      unchecked: ['failing_workflow_task: this server does not mark workflows whose tasks fail'],
    });
  });

  test('a namespace that is not there is namespace_not_found, by name', async () => {
    const { client, connection } = await connectClient({ address: harness.address, namespace: 'no-such-namespace' });
    await expect(verify({ temporal: client })).rejects.toMatchObject({
      code: 'namespace_not_found',
      message: expect.stringContaining('no-such-namespace'),
    });
    await connection.close();
  });
});
