/** Turns that delegate spend from one budget, on a real server: whatever they do, and however late they end (K9, K20). */
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { v7 } from 'uuid';
import { z } from 'zod';
import { defineAgent, defineApp, defineTool } from '../../../activities/app/app.ts';
import type { TurnHandle } from '../../../client/api.ts';
import { type ChatRequest, textOf } from '../../../workers/model-server/chat-request.ts';
import type { ModelAnswer } from '../../../workers/model-server/completion.ts';
import { type ModelServer, startModelServer } from '../../../workers/model-server/wire.ts';
import type { TurnView } from '../../../workflows/contract/views.ts';
import type { JsonObject } from '../../../workflows/protocol/json.ts';
import { type Harness, openHarness, scenarioStores } from '../../support/harness.ts';
import { WAIT } from '../../support/wait.ts';

/** Of each model call. */
const USAGE = { prompt_tokens: 900, completion_tokens: 100 };
const STEP = 1_000;
const LIMIT = 10_000;

const person = defineTool({
  name: 'person',
  description: 'a person answers',
  parameters: z.object({}),
  afterExecution: 'suspend',
  suspendTimeoutMs: 600_000,
});
const work = defineTool({
  name: 'work',
  description: 'works',
  parameters: z.object({ n: z.number() }),
  execute: () => 'done',
});

const delegationPolicy = { profiles: ['boss', 'worker'] };
const app = defineApp({
  tools: [person, work],
  agents: [
    defineAgent({ name: 'boss', budgets: { maxTokens: LIMIT }, delegationPolicy }),
    defineAgent({ name: 'late', budgets: { maxTokens: 5 * STEP }, delegationPolicy }),
    // Left to itself it would spend fifty thousand.
    defineAgent({ name: 'worker', delegationPolicy }),
  ],
});

const call = (name: string, args: JsonObject = {}) => ({ name, arguments: args });
const gives = (role: string, more: JsonObject = {}) =>
  call('delegate_async', { target_strategy: 'new', target_ref: 'worker', instruction: `[role:${role}]`, ...more });
const asks = (role: string, more: JsonObject = {}) =>
  call('ask_expert', { profile: 'worker', question: `[role:${role}]`, ...more });

/** What each says in its steps, counted from 0; without calls it ends. */
const ROLES: Readonly<Record<string, (step: number) => readonly ReturnType<typeof call>[]>> = {
  'gives for ever': () => [gives('works for ever')],
  'works for ever': (step) => [call('work', { n: step })],
  'asks two at once': (step) => (step === 0 ? [asks('asks another'), asks('asks another')] : []),
  'asks another': () => [asks('works for ever')],
  'gives all away': (step) => (step === 0 ? [gives('asks a person', { max_tokens: LIMIT })] : []),
  'gives all away and waits': (step) =>
    step === 0 ? [gives('ends at once', { max_tokens: LIMIT }), call('person')] : [],
  'asks in vain': (step) =>
    [[asks('asks a person', { timeout_seconds: 1, max_tokens: 2_500 })], [call('person')], [call('work', { n: 1 })]][
      step
    ] ?? [],
  'asks a person': (step) => (step === 0 ? [call('person')] : []),
  'ends at once': () => [],
};

function answer({ messages }: ChatRequest): ModelAnswer {
  const texts = messages.map(textOf);
  if (texts.slice(-2).some((text) => text.includes('no further tools can be run')))
    return { kind: 'message', content: 'this is what I have', usage: USAGE };
  const [, role = ''] = texts.map((text) => /\[role:([^\]]+)\]/.exec(text)).findLast((found) => found !== null) ?? [];
  const toolCalls = ROLES[role]?.(messages.filter((message) => message.role === 'assistant').length) ?? [];
  return toolCalls.length > 0
    ? { kind: 'message', toolCalls: [...toolCalls], usage: USAGE }
    : { kind: 'message', content: `${role}: done`, usage: USAGE };
}

describe.each(scenarioStores(import.meta.url))('a tree of turns on %s', (backend) => {
  let harness: Harness;
  let model: ModelServer;

  beforeAll(async () => {
    harness = await openHarness(backend);
    model = await startModelServer({ answer });
    await harness.startWorker(app, model);
  });
  afterAll(async () => {
    await harness?.close();
    await model?.close();
  });

  const begun = (role: string, profile = 'boss'): Promise<TurnHandle> =>
    harness.client.agent(`${profile}-${v7()}`).enqueue({ instruction: `[role:${role}]`, profile });
  /** All turns of the tree, the root first, once they have ended. */
  async function treeOf(root: TurnHandle): Promise<TurnView[]> {
    const views = [await root.result(WAIT)];
    for (;;) {
      const made = (await harness.store.listEdges(root.id)).filter((edge) => edge.primitive === 'enqueue');
      if (made.length === views.length) return views;
      for (const { targetAgentTurnId } of made.slice(views.length))
        views.push(await harness.client.turn(targetAgentTurnId ?? '').result(WAIT));
    }
  }
  const spentBy = (views: readonly TurnView[]) => views.reduce((sum, { usage }) => sum + usage.input + usage.output, 0);
  /** The call of the turn that a person is to answer. */
  async function waiting(turn: TurnHandle): Promise<string> {
    for await (const event of turn.events())
      if (event.type === 'call' && event.payload.phase === 'suspended' && event.payload.tool === 'person')
        return event.payload.callId;
    throw new Error('the turn ended');
  }
  const answered = async (turn: TurnHandle) =>
    turn.toolResult({ callId: await waiting(turn), status: 'success', result: 'yes' });
  async function childOf(turn: TurnHandle): Promise<TurnHandle> {
    for (;;) {
      const edges = await harness.store.listEdges(turn.id);
      const made = edges.find((edge) => edge.primitive === 'enqueue' && edge.sourceAgentTurnId === turn.id);
      if (made) return harness.client.turn(made.targetAgentTurnId ?? '');
      await harness.store.changed(1_000);
    }
  }
  const hitsOf = async ({ agentId, agentTurnId }: TurnView) =>
    (await harness.store.readEvents({ agentId, agentTurnId })).flatMap((event) =>
      event.type === 'notice' ? [event.payload] : [],
    );

  test.each([
    ['that go on by themselves', 'gives for ever', 'partial'],
    ['asked side by side, each of which asks another', 'asks two at once', 'success'],
  ])(
    'with delegated turns %s spends its budget, and one step and one report of each (K9, K20)',
    async (__, role, status) => {
      const views = await treeOf(await begun(role));
      expect(views.length).toBeGreaterThanOrEqual(3);
      expect(spentBy(views)).toBeGreaterThan(LIMIT / 2);
      expect(spentBy(views)).toBeLessThanOrEqual(LIMIT + views.length * 2 * STEP);
      const [root, ...delegated] = views;
      expect(root).toMatchObject({ status });
      for (const view of delegated) expect(view).toMatchObject({ status: 'partial', errorCode: 'budget_tokens' });
    },
  );

  test('in which a turn has given all it had away reports at once (K9)', async () => {
    const turn = await begun('gives all away');
    expect(await turn.result(WAIT)).toMatchObject({ status: 'partial', errorCode: 'budget_tokens', stepCount: 2 });
    await answered(await childOf(turn));
    expect(spentBy(await treeOf(turn))).toBe(4 * STEP);
  });

  test('in which the one that got it has ended has the rest back (K9)', async () => {
    const turn = await begun('gives all away and waits');
    await (await childOf(turn)).result(WAIT);
    await answered(turn);
    expect(await turn.result(WAIT)).toMatchObject({ status: 'success', stepCount: 2 });
  });

  test('pays for an expert whose answer came too late (K9)', async () => {
    const turn = await begun('asks in vain', 'late');
    await waiting(turn);
    const expert = await childOf(turn);
    await answered(expert);
    expect(await expert.result(WAIT)).toMatchObject({ status: 'success', stepCount: 2 });
    await answered(turn);
    const view = await turn.result(WAIT);
    expect(view).toMatchObject({ status: 'partial', errorCode: 'budget_tokens', stepCount: 4 });
    // Three steps of its own and two of the expert: not the share that was held for it.
    expect(await hitsOf(view)).toMatchObject([{ type: 'budget_hit', used: 5 * STEP, limit: 5 * STEP }]);
  });

  test('leaves nothing that breaks the promise (K9)', async () => {
    expect(await harness.store.violations()).toEqual([]);
  });
});
