/**
 * What anybody who reaches Temporal can send: every message is answered, refused by name or dropped with one event, and no workflow is
 * ever stuck in a task that fails (T4, T8, T14).
 */
import { setTimeout } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { Client, Connection } from '@temporalio/client';
import { v7 } from 'uuid';
import { defineAgent, defineApp } from '../../activities/app/app.ts';
import type { TurnHandle } from '../../client/api.ts';
import { type ScriptedServer, startScriptedModel } from '../../workers/model-server/scripted.ts';
import type { AgentEvent } from '../../workflows/contract/events.ts';
import { CONTROL_QUEUE, targetQueue, turnWorkflowId } from '../../workflows/protocol/ids.ts';
import { signalAcceptor } from '../support/acceptor.ts';
import { askScripts, askTool, suspended, taskEvents } from '../support/asking.ts';
import { type Harness, openHarness, scenarioStores } from '../support/harness.ts';
import { temporalCli } from '../support/processes.ts';
import { WAIT } from '../support/wait.ts';

/** In which the server's list learns what has happened. */
const LIST_MS = 20_000;
const MIB = 1024 * 1024;
const NUL = '\0';
const bytes = (text: string) => new TextEncoder().encode(text);
const nested = (depth: number): unknown => JSON.parse(`${'['.repeat(depth)}${']'.repeat(depth)}`);

const UNDECODABLE = [
  ['of an encoding nobody knows', { metadata: { encoding: bytes('binary/unknown') }, data: bytes('x') }],
  ['without an encoding', { metadata: {}, data: bytes('x') }],
  ['that is not the JSON it claims to be', { metadata: { encoding: bytes('json/plain') }, data: bytes('{not json') }],
  [
    'of a protobuf type',
    { metadata: { encoding: bytes('json/protobuf'), messageType: bytes('a.B') }, data: bytes('{}') },
  ],
] as const;
type RawPayload = (typeof UNDECODABLE)[number][1];

/** A waiting turn with everything about it. */
interface Asking {
  readonly agentId: string;
  readonly turn: TurnHandle;
  readonly callId: string;
  readonly turnWorkflow: string;
}

describe.each(scenarioStores(import.meta.url))('foreign input on %s', (backend) => {
  let harness: Harness;
  let model: ScriptedServer;

  beforeAll(async () => {
    harness = await openHarness(backend);
    model = await startScriptedModel({ scripts: askScripts });
    const agents = [defineAgent({ name: 'tester' }), defineAgent({ name: 'brief', maxHistoryEvents: 40 })];
    await harness.startWorker(defineApp({ agents, tools: [askTool] }), model, { acceptor: true });
  });
  afterAll(async () => {
    await harness?.close();
    await model?.close();
  });

  const newAgent = () => `agent-${v7()}`;
  const enqueue = (script: string, agentId: string) =>
    harness.client.agent(agentId).enqueue({ instruction: `[script:${script}] go`, profile: 'tester' });
  const signal = (workflowId: string, name: string, ...args: unknown[]) =>
    harness.temporal.client.workflow.getHandle(workflowId).signal(name, ...args);
  const toAcceptor = (agentId: string, body: unknown) => signalAcceptor(harness.temporal.client, agentId, body);
  const rawSignal = (workflowId: string, signalName: string, payload: RawPayload) =>
    harness.temporal.client.workflowService.signalWorkflowExecution({
      namespace: harness.namespace,
      workflowExecution: { workflowId },
      signalName,
      input: { payloads: [payload] },
      requestId: v7(),
    });

  async function asking(): Promise<Asking> {
    const agentId = newAgent();
    const turn = await enqueue('ask', agentId);
    const [callId = ''] = await suspended(turn);
    return { agentId, turn, callId, turnWorkflow: turnWorkflowId(agentId, turn.id) };
  }

  /** The turn takes its answer, and the agent its next request. */
  async function goesOn({ agentId, turn, callId }: Asking): Promise<void> {
    expect((await turn.toolResult({ callId, status: 'success', result: 1 })).ack).toBe('applied');
    expect(await turn.result(WAIT)).toMatchObject({ status: 'success' });
    expect(await (await enqueue('answer', agentId)).result(WAIT)).toMatchObject({ status: 'success' });
    expect(await taskEvents(harness.store, turn)).toHaveLength(1);
    expect(await harness.client.agent(agentId).turns()).toHaveLength(2);
  }

  /** Whatever was dropped of an agent, as `what: reason`. */
  async function drops(agentId: string): Promise<readonly string[]> {
    const events = await harness.store.readEvents({ agentId, limit: 1_000 });
    return events.flatMap(dropOf);
  }

  /** The acceptor may need a moment for the last of them, and a turn writes down what came too late after its end. */
  async function dropsUpTo(agentId: string, count: number): Promise<readonly string[]> {
    for (;;) {
      const dropped = await drops(agentId);
      if (dropped.length >= count) return dropped;
      await harness.store.changed(500);
    }
  }

  test.each(UNDECODABLE)('a payload %s is dropped by name; turn and agent go on', async (_, payload) => {
    const one = await asking();
    for (const name of ['tool_result', 'enqueue', 'nobody_knows']) await rawSignal(one.turnWorkflow, name, payload);
    await goesOn(one);
    const dropped = await dropsUpTo(one.agentId, 2);
    expect(dropped.toSorted()).toEqual([
      expect.stringMatching(/^enqueue: .*cannot be decoded/s),
      expect.stringMatching(/^tool_result: .*cannot be decoded/s),
    ]);
  });

  test('every tool_result that is none is dropped with one event, and other turns’ calls are not touched', async () => {
    const [one, other] = await Promise.all([asking(), asking()]);
    const { callId } = one;
    const result = { status: 'success', result: 1 };
    const bodies: readonly [unknown, RegExp][] = [
      [7, /^tool_result: .*expected object/s],
      ['text', /^tool_result: .*it says: text/s],
      [[], /^tool_result: /],
      [{}, /^tool_result: .*callId/s],
      [{ callId }, /^tool_result: .*status/s],
      [{ callId, ...result, agentTurnId: other.turn.id }, /^tool_result: .*agentTurnId/s],
      [{ callId, status: 'running', unknown: 1 }, /^tool_result: .*unknown/s],
      [{ callId: '', ...result }, /^tool_result: .*callId/s],
      [{ callId: 'x'.repeat(129), ...result }, /^tool_result: .*callId/s],
      [{ callId, status: 'success', result: nested(3_000) }, /^tool_result: .*nested more than/s],
      [{ callId, ...result, turnEpoch: 99 }, /^call: stale/],
      [{ callId: other.callId, ...result }, /^call: unknown/],
      [{ callId: `../${NUL}\u{1F600}`, ...result }, /^call: unknown/],
    ];
    for (const [body] of bodies) await signal(one.turnWorkflow, 'tool_result', body);
    expect((await one.turn.toolResult({ callId: other.callId, status: 'success', result: 1 })).ack).toBe('unknown');
    await goesOn(one);
    const dropped = await dropsUpTo(one.agentId, bodies.length + 1);
    expect(dropped).toHaveLength(bodies.length + 1);
    for (const [, expected] of bodies) expect(dropped).toContainEqual(expect.stringMatching(expected));
    expect((await other.turn.get()).waiting.map((waiting) => waiting.callId)).toEqual([other.callId]);
    await goesOn(other);
    expect(await drops(other.agentId)).toEqual([]);
  });

  test.each([
    [{ status: 5 }, 'status'],
    [{ status: 'great', result: 1 }, 'status'],
    [{ status: 'success', result: 1, error: { code: 'x', message: 'y' } }, 'a success has no error'],
  ])('a tool_result with %j is a failed result of its call, and the turn goes on (T20)', async (body, problem) => {
    const one = await asking();
    await signal(one.turnWorkflow, 'tool_result', { callId: one.callId, ...body });
    expect(await one.turn.result(WAIT)).toMatchObject({ status: 'success' });
    const [call] = (await one.turn.get()).steps.flatMap((step) => step.calls);
    expect(call).toMatchObject({ status: 'failed', error: { code: 'invalid_result' } });
    expect(call?.error?.message).toContain(problem);
  });

  test('every enqueue that is none is dropped with one event, by a turn and by the acceptor, and makes no turn', async () => {
    const [one, other] = await Promise.all([asking(), asking()]);
    const request = { instruction: '[script:answer] go', profile: 'tester' };
    const bodies: readonly unknown[] = [
      7,
      'text',
      [],
      {},
      null,
      { agentTurnId: 7 },
      { agentTurnId: '../etc' },
      { instruction: 7 },
      { ...request, unknown: 1 },
      { ...request, profile: '../etc' },
      { ...request, priority: 'urgent' },
      { ...request, idempotencyKey: `key ${NUL}` },
      { ...request, idempotencyKey: 'key \ud800' },
      { ...request, instruction: 'x'.repeat(33 * 1024) },
      { ...request, contextBoxId: 'no uuid' },
      { ...request, metadata: Object.fromEntries(Array.from({ length: 70 }, (_, i) => [`k${i}`, 'x'.repeat(1024)])) },
      { ...request, resultFields: nested(3_000) },
    ];
    for (const body of bodies) {
      await signal(one.turnWorkflow, 'enqueue', body);
      await toAcceptor(other.agentId, body);
    }
    for (const each of [one, other]) {
      await goesOn(each);
      const dropped = await dropsUpTo(each.agentId, bodies.length);
      expect(dropped).toHaveLength(bodies.length);
      expect(dropped.filter((drop) => !drop.startsWith('enqueue: '))).toEqual([]);
    }
  });

  test('values with NUL are kept or refused, on any store, and stop nobody', async () => {
    const request = {
      instruction: `[script:answer] a${NUL}b`,
      profile: 'tester',
      correlationId: NUL,
      traceparent: NUL,
    };
    const agentId = newAgent();
    const agent = harness.client.agent(agentId);
    await expect(agent.enqueue({ ...request, idempotencyKey: NUL })).rejects.toMatchObject({ code: 'invalid_request' });
    const turn = await agent.enqueue({ ...request, metadata: { [NUL]: NUL } });
    await toAcceptor(agentId, request);
    expect(await turn.result(WAIT)).toMatchObject({ status: 'success' });
    const nowhere = harness.client.turn(`turn ${NUL}`);
    await expect(nowhere.get()).rejects.toMatchObject({ code: 'turn_not_found' });
    expect((await nowhere.toolResult({ callId: NUL, status: 'success', result: 1 })).ack).toBe('unknown');
    const [one, stopped] = await Promise.all([asking(), asking()]);
    await signal(one.turnWorkflow, 'tool_result', {
      callId: one.callId,
      status: 'failed',
      error: { code: NUL, message: NUL },
      afterExecution: 'terminate',
    });
    expect(await one.turn.result(WAIT)).toMatchObject({ status: 'failed' });
    expect((await stopped.turn.stop(`why ${NUL}`)).ack).toBe('stopped');
    expect(await (await enqueue('answer', agentId)).result(WAIT)).toMatchObject({ status: 'success' });
    while ((await agent.turns()).filter(({ endedAt }) => endedAt !== null).length < 3) await harness.store.changed(500);
  });

  test('what is too large is refused by the server or by name; what just fits is dropped or a failed result', async () => {
    const one = await asking();
    const report = (size: number) => ({ callId: 'nobody', status: 'success', result: 'x'.repeat(size) });
    // The server's limit of one payload is 2 MiB, that of one message 4 MiB.
    await expect(signal(one.turnWorkflow, 'tool_result', report(3 * MIB))).rejects.toMatchObject({
      cause: { code: 3, details: 'Blob data size exceeds limit.' },
    });
    const connection = await Connection.connect({ address: harness.address, interceptors: [] });
    // The SDK's own interceptor would repeat this one for a minute.
    const impatient = new Client({ connection, namespace: harness.namespace }).workflow.getHandle(one.turnWorkflow);
    await expect(impatient.signal('tool_result', report(5 * MIB))).rejects.toMatchObject({ cause: { code: 8 } });
    await connection.close();
    const large = { instruction: 'x'.repeat(3 * MIB), profile: 'tester' };
    await expect(harness.client.agent(one.agentId).enqueue(large)).rejects.toMatchObject({ code: 'invalid_request' });
    // One after the other: more than 2 MiB while a task is open make the server give the task up, which is another matter.
    for (let sent = 1; sent <= 6; sent += 1) {
      if (sent % 2 === 1) await signal(one.turnWorkflow, 'tool_result', report(1.9 * MIB));
      else await signal(one.turnWorkflow, 'enqueue', { instruction: 'x'.repeat(1.9 * MIB), profile: 'tester' });
      await dropsUpTo(one.agentId, sent);
    }
    const { callId } = one;
    const ack = await one.turn.toolResult({ callId, status: 'success', result: 'x'.repeat(3 * MIB) });
    expect(ack.ack).toBe('applied');
    const view = await one.turn.result(WAIT);
    expect(view).toMatchObject({
      status: 'success',
      steps: [{ calls: [{ error: { code: 'result_too_large' } }] }, {}],
    });
    expect(await (await enqueue('answer', one.agentId)).result(WAIT)).toMatchObject({ status: 'success' });
    const dropped = await drops(one.agentId);
    // A worker that is slow over so much data may do a local activity twice, and then drops twice.
    expect(dropped.filter((drop) => drop === 'call: unknown').length).toBeGreaterThanOrEqual(3);
    expect(dropped.filter((drop) => /^enqueue: .*at most/s.test(drop)).length).toBeGreaterThanOrEqual(3);
  });

  test('a workflow that is started by hand with anything fails at once, and the store hears nothing of it', async () => {
    const agentIds = async () => (await harness.store.listAgents()).map(({ agentId }) => agentId);
    const before = await agentIds();
    const inputs = [
      [],
      [null],
      [7],
      ['text'],
      [[1]],
      [{}],
      [{ agentId: 'x', agentTurnId: 'y', turnEpoch: 1 }],
      [{ agentId: '../x' }],
    ];
    const started = ['agentTurn', 'nobody_knows', '__proto__'].flatMap((type) =>
      inputs.map((args) =>
        harness.temporal.client.workflow.start(type, {
          workflowId: `agents/by-hand-${v7()}`,
          taskQueue: CONTROL_QUEUE,
          args,
        }),
      ),
    );
    const undecodable = ['agentTurn', 'nobody_knows'].flatMap((type) =>
      UNDECODABLE.map(async ([, payload]) => {
        const workflowId = `agents/by-hand-${v7()}`;
        await harness.temporal.client.workflowService.startWorkflowExecution({
          namespace: harness.namespace,
          workflowId,
          workflowType: { name: type },
          taskQueue: { name: targetQueue('worker_generic') },
          input: { payloads: [payload] },
          requestId: v7(),
        });
        return harness.temporal.client.workflow.getHandle(workflowId);
      }),
    );
    for (const handle of await Promise.all([...started, ...undecodable])) {
      await expect(handle.result()).rejects.toMatchObject({ cause: { type: 'invalid_request' } });
    }
    expect(await agentIds()).toEqual(before);
  });

  test('signals that nobody handles do not pile up in the history of a waiting turn: it continues as new (K22)', async () => {
    const agentId = newAgent();
    const turn = await harness.client.agent(agentId).enqueue({ instruction: '[script:ask] go', profile: 'brief' });
    const [callId = ''] = await suspended(turn);
    const workflow = harness.temporal.client.workflow.getHandle(turnWorkflowId(agentId, turn.id));
    const { runId } = await workflow.describe();
    while ((await workflow.describe()).runId === runId) {
      await Promise.all(Array.from({ length: 10 }, () => workflow.signal('nobody_knows', 1)));
    }
    await goesOn({ agentId, turn, callId, turnWorkflow: '' });
  });

  test('and after all of it the Temporal CLI finds no workflow with a problem', async () => {
    const list = ['workflow', 'list', '--output', 'json', '--query'];
    // The list learns a moment later that a problem is over.
    const withProblems = async (): Promise<unknown[]> =>
      JSON.parse(await temporalCli(harness, [...list, 'TemporalReportedProblems IS NOT NULL']));
    const deadline = performance.now() + LIST_MS;
    while ((await withProblems()).length > 0 && performance.now() < deadline) await setTimeout(100);
    expect(await withProblems()).toEqual([]);
    for await (const { workflowId } of harness.temporal.client.workflow.list({
      query: `ExecutionStatus = 'Running'`,
    })) {
      const { raw } = await harness.temporal.client.workflow.getHandle(workflowId).describe();
      expect([workflowId, raw.pendingWorkflowTask?.attempt ?? 0]).toEqual([workflowId, expect.any(Number)]);
      expect(raw.pendingWorkflowTask?.attempt ?? 0).toBeLessThan(2);
    }
    expect(await harness.store.violations()).toEqual([]);
  });
});

function dropOf({ type, payload }: AgentEvent): string[] {
  if (type === 'dropped') return [`${payload.what}: ${payload.reason}`];
  return type === 'call' && payload.phase === 'dropped' ? [`call: ${payload.reason}`] : [];
}
