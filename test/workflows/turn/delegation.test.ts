/** Agents that ask agents, on a real server: the answer comes back exactly once, whatever becomes of the one who gives it (T27, T30). */
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import pg from 'pg';
import { v7 } from 'uuid';
import { z } from 'zod';
import { defineAgent, defineApp, defineTool } from '../../../activities/app/app.ts';
import type { TurnHandle } from '../../../client/api.ts';
import { callTree } from '../../../client/call-tree.ts';
import { treeLines } from '../../../client/cli/call-tree.ts';
import { type ScriptedServer, startScriptedModel } from '../../../workers/model-server/scripted.ts';
import { turnWorkflowId } from '../../../workflows/protocol/ids.ts';
import type { JsonObject } from '../../../workflows/protocol/json.ts';
import { type Harness, openHarness, scenarioStores } from '../../support/harness.ts';
import { WAIT } from '../../support/wait.ts';

const calls = (name: string, args: JsonObject) =>
  ({ kind: 'message', toolCalls: [{ name, arguments: args }] }) as const;
const say = (content: string) => ({ kind: 'message', content }) as const;
const expert = (script: string, more: JsonObject = {}) =>
  calls('ask_expert', { profile: 'expert', question: `[script:${script}] what do you think?`, ...more });

const app = defineApp({
  agents: [
    defineAgent({ name: 'asker', allowedTools: [], delegationPolicy: { profiles: ['expert', 'asker'] } }),
    defineAgent({ name: 'expert', allowedTools: ['person'], delegationPolicy: { profiles: ['asker', 'expert'] } }),
  ],
  tools: [
    defineTool({
      name: 'person',
      description: 'a person answers',
      parameters: z.object({}),
      afterExecution: 'suspend',
      suspendTimeoutMs: 600_000,
    }),
  ],
});

describe.each(scenarioStores(import.meta.url))('delegation on %s', (backend) => {
  let harness: Harness;
  let model: ScriptedServer;

  beforeAll(async () => {
    harness = await openHarness(backend);
    model = await startScriptedModel({
      scripts: {
        asks: [expert('knows'), say('the expert knows')],
        'asks-a-person': [expert('person'), say('the expert was heard')],
        'asks-in-vain': [expert('person', { timeout_seconds: 1 }), say('nobody knows')],
        'asks-two': [
          { kind: 'message', toolCalls: [expert('knows').toolCalls[0], expert('person').toolCalls[0]] },
          say('both were heard'),
        ],
        'asks-deep': [expert('asks'), say('deep')],
        gives: [
          calls('delegate_async', {
            target_strategy: 'new',
            target_ref: 'expert',
            instruction: '[script:knows] do it',
          }),
          say('given'),
        ],
        circle: [calls('ask_expert', { agent_id: 'standing-b', question: '[script:back] you?' }), say('round')],
        back: [calls('ask_expert', { agent_id: 'standing-a', question: '[script:knows] no, you?' }), say('it refused')],
        'asks-to-go-on': [expert('person', { on_parent_end: 'continue' }), say('the expert was heard')],
        knows: [say('42')],
        person: [calls('person', {}), say('a person knows')],
      },
    });
    await harness.startWorker(app, model, { supervisor: { everyMs: 300 } });
  });
  afterAll(async () => {
    await harness?.close();
    await model?.close();
  });

  const enqueue = (script: string, agentId = `asker-${v7()}`): Promise<TurnHandle> =>
    harness.client.agent(agentId).enqueue({ instruction: `[script:${script}] go`, profile: 'asker' });

  /** The turns that a turn delegated, as its edges tell. */
  async function childrenOf(turn: TurnHandle): Promise<TurnHandle[]> {
    const edges = await harness.store.listEdges(turn.id);
    const made = edges.filter((edge) => edge.primitive === 'enqueue' && edge.sourceAgentTurnId === turn.id);
    return made.map((edge) => harness.client.turn(edge.targetAgentTurnId ?? ''));
  }
  /** The child, waiting for a person. */
  async function waitingChild(turn: TurnHandle): Promise<{ child: TurnHandle; agentId: string; callId: string }> {
    for await (const event of turn.events()) {
      if (event.type === 'call' && event.payload.phase === 'suspended') break;
    }
    const [child] = await childrenOf(turn);
    if (!child) throw new Error('nothing was delegated');
    for await (const event of child.events()) {
      if (event.type !== 'call' || event.payload.phase !== 'suspended') continue;
      return { child, agentId: event.agentId, callId: event.payload.callId };
    }
    throw new Error('the child ended');
  }
  const tasksOf = async (turn: TurnHandle) => {
    const { agentId } = await turn.get();
    const events = await harness.store.readEvents({ agentId, agentTurnId: turn.id });
    return events.filter((event) => event.type === 'task');
  };
  const callsOf = async (turn: TurnHandle) => (await turn.get()).steps.flatMap((step) => step.calls);
  const resultsOf = async (turn: TurnHandle) => {
    const { outputBoxId } = await turn.get();
    return (await harness.store.readBox(outputBoxId ?? '')).flatMap(({ card }) =>
      card.type === 'tool.result' ? [card.content] : [],
    );
  };

  test('an expert is asked and answers; the tree shows both turns (T26, T30)', async () => {
    const turn = await enqueue('asks');
    expect(await turn.result(WAIT)).toMatchObject({
      status: 'success',
      deliverable: { text: 'the expert knows' },
      depth: 0,
    });
    const [child] = await childrenOf(turn);
    expect(await child?.get()).toMatchObject({ status: 'success', depth: 1, profile: 'expert' });
    expect(await resultsOf(turn)).toMatchObject([
      { status: 'success', result: { status: 'success', deliverable: { text: '42' } } },
    ]);
    const tree = callTree(turn.id, await harness.store.listEdges(turn.id));
    const lines = tree ? treeLines(tree) : [];
    expect(lines.filter((line) => line.includes('without a partner'))).toEqual([]);
    expect(lines.filter((line) => /turn .*: success/.test(line))).toHaveLength(2);
    expect(lines.filter((line) => /ask_expert: answered/.test(line))).toHaveLength(1);
  });

  test('an agent that was made for a question remembers it when it is asked again (T3)', async () => {
    const turn = await enqueue('asks');
    await turn.result(WAIT);
    const agentId = (await (await childrenOf(turn))[0]?.get())?.agentId ?? '';
    const again = await harness.client.agent(agentId).enqueue({ instruction: '[script:knows] again' });
    expect(await again.result(WAIT)).toMatchObject({ status: 'success', turnEpoch: 2, profile: 'expert' });
  });

  test.each([
    ['is stopped with it', 'asks-a-person', 'failed'],
    ['goes on where its call says so', 'asks-to-go-on', 'suspended'],
  ] as const)('a delegated turn whose parent is stopped %s (T21, T30)', async (_how, script, status) => {
    const turn = await enqueue(script);
    const { child } = await waitingChild(turn);
    await turn.stop('test');
    if (status === 'failed') {
      expect(await child.result(WAIT)).toMatchObject({ status, errorCode: 'stopped' });
    } else {
      await sleep(2_000);
      expect(await child.get()).toMatchObject({ status });
      await child.stop();
    }
    expect(await tasksOf(child)).toHaveLength(1);
  });

  test('work that is given away runs by itself (W12)', async () => {
    const turn = await enqueue('gives');
    expect(await turn.result(WAIT)).toMatchObject({ status: 'success', deliverable: { text: 'given' } });
    const [child] = await childrenOf(turn);
    expect(await child?.result(WAIT)).toMatchObject({ status: 'success', deliverable: { text: '42' } });
  });

  test('two experts are asked at once, three generations deep (T26, T27)', async () => {
    const two = await enqueue('asks-two');
    const deep = await enqueue('asks-deep');
    expect(await deep.result(WAIT)).toMatchObject({ status: 'success', deliverable: { text: 'deep' } });
    const { child, callId } = await waitingSecond(two);
    await child.toolResult({ callId, status: 'success', result: 'yes' });
    expect(await two.result(WAIT)).toMatchObject({ status: 'success', deliverable: { text: 'both were heard' } });
    expect((await callsOf(two)).map((call) => call.status)).toEqual(['success', 'success']);
  });
  async function waitingSecond(turn: TurnHandle) {
    for await (const event of turn.events()) {
      if (event.type !== 'state' || event.payload.waitingToolCount !== 1) continue;
      for (const child of await childrenOf(turn)) {
        const [waiting] = (await child.get()).waiting;
        if (waiting) return { child, callId: waiting.callId };
      }
    }
    throw new Error('no child waits');
  }

  test.each([
    ['stopped', 'failed', 'stopped'],
    ['terminated', 'failed', 'terminated'],
  ] as const)('an expert that is %s is reported once, and the asker goes on (T30)', async (how, status, errorCode) => {
    const turn = await enqueue('asks-a-person');
    const { child, agentId } = await waitingChild(turn);
    const workflow = (id: string) => harness.temporal.client.workflow.getHandle(id);
    if (how === 'stopped') await child.stop('test');
    if (how === 'terminated') await workflow(turnWorkflowId(agentId, child.id)).terminate('test');
    expect(await turn.result(WAIT)).toMatchObject({ status: 'success', deliverable: { text: 'the expert was heard' } });
    expect(await callsOf(turn)).toMatchObject([{ status, ...(errorCode ? { error: { code: errorCode } } : {}) }]);
    expect(await tasksOf(child)).toHaveLength(1);
    expect(await resultsOf(turn)).toHaveLength(1);
  });

  test('an expert whose turn was still queued and cancelled is reported at once (T8, T30)', async () => {
    const busy = `expert-${v7()}`;
    const first = await harness.client.agent(busy).enqueue({ instruction: '[script:person] go', profile: 'expert' });
    model.add(`asks-${busy}`, [
      calls('ask_expert', { agent_id: busy, question: '[script:knows] and you?' }),
      say('it was cancelled'),
    ]);
    const turn = await enqueue(`asks-${busy}`);
    for await (const event of turn.events()) {
      if (event.type === 'call' && event.payload.phase === 'suspended') break;
    }
    const [child] = await childrenOf(turn);
    expect(await child?.get()).toMatchObject({ status: 'queued' });
    expect(await child?.stop('not needed')).toMatchObject({ ack: 'canceled' });
    expect(await turn.result(WAIT)).toMatchObject({ status: 'success' });
    expect(await callsOf(turn)).toMatchObject([{ status: 'canceled' }]);
    await first.stop();
  });

  test('an expert that takes too long costs a timeout; its late answer changes nothing (T17, T30)', async () => {
    const turn = await enqueue('asks-in-vain');
    const { child, callId } = await waitingChild(turn);
    expect(await turn.result(WAIT)).toMatchObject({ status: 'success', deliverable: { text: 'nobody knows' } });
    await child.toolResult({ callId, status: 'success', result: 'late' });
    expect(await child.result(WAIT)).toMatchObject({ status: 'success' });
    expect(await resultsOf(turn)).toMatchObject([{ status: 'timeout' }]);
  });

  test('agents that ask each other in a circle are told, and nobody waits for ever (T27)', async () => {
    for (const agentId of ['standing-a', 'standing-b']) await (await enqueue('knows', agentId)).result(WAIT);
    const turn = await enqueue('circle', 'standing-a');
    expect(await turn.result(WAIT)).toMatchObject({ status: 'success', deliverable: { text: 'round' } });
    const [child] = await childrenOf(turn);
    expect(child && (await callsOf(child))).toMatchObject([{ status: 'failed', error: { code: 'delegation_cycle' } }]);
  });

  test('nothing of all this breaks the promise (T26, T30)', async () => {
    expect(await harness.store.violations()).toEqual([]);
  });

  // Nobody can hold a part of SQLite's one lock.
  if (backend === 'postgres')
    test('a parent that cannot be told now does not hold up the queue of the agent that was asked (T30)', async () => {
      const turn = await enqueue('asks-a-person');
      const { child, agentId, callId } = await waitingChild(turn);
      const next = await harness.client.agent(agentId).enqueue({ instruction: '[script:knows] go', profile: 'expert' });
      const parentId = (await turn.get()).agentId;
      const other = new pg.Client({ connectionString: harness.storeUrl });
      await other.connect();
      try {
        await other.query('begin');
        await other.query('select 1 from agent_state_head where agent_id = $1 for update', [parentId]);
        await child.toolResult({ callId, status: 'success', result: 'yes' });
        expect(await next.result(WAIT)).toMatchObject({ status: 'success' });
        expect((await turn.get()).status).toBe('suspended');
        await other.query('commit');
      } finally {
        await other.end();
      }
      expect(await turn.result(WAIT)).toMatchObject({
        status: 'success',
        deliverable: { text: 'the expert was heard' },
      });
    });
});
