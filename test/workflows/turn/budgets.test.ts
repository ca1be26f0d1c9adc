/** Each budget, hit exactly, on a real server: nothing but the report comes after it (K9). */
import { afterAll, beforeAll, beforeEach, describe, expect, test } from '@jest/globals';
import { v7 } from 'uuid';
import { z } from 'zod';
import { defineAgent, defineApp, defineTool } from '../../../activities/app/app.ts';
import { type ChatRequest, textOf, toolNames } from '../../../workers/model-server/chat-request.ts';
import { type ModelServer, startModelServer } from '../../../workers/model-server/wire.ts';
import type { TurnView } from '../../../workflows/contract/views.ts';
import { turnWorkflowId } from '../../../workflows/protocol/ids.ts';
import { type Harness, openHarness } from '../../support/harness.ts';
import { WAIT } from '../../support/wait.ts';

/** Of each model call; at these prices it costs a quarter. */
const USAGE = { prompt_tokens: 100, completion_tokens: 10 };
const TOKENS_OF_A_CALL = 110;
const COST_OF_A_CALL = 0.25;
const PRICE = { input: 2_000, output: 5_000 };

const CALLS_OF_A_STEP = 2;
const SLOW_MS = 400;

const ran: string[] = [];

const work = defineTool({
  name: 'work',
  description: 'works',
  parameters: z.object({ n: z.number() }),
  execute: (_, { callId }) => {
    ran.push(callId);
    return 'done';
  },
});
const slow = defineTool({
  name: 'slow',
  description: 'takes its time',
  parameters: z.object({ n: z.number() }),
  execute: () => new Promise((resolve) => void setTimeout(resolve, SLOW_MS, 'done')),
});

const app = defineApp({
  tools: [work, slow],
  models: { scripted: PRICE },
  agents: [
    defineAgent({ name: 'steps', budgets: { maxSteps: 3 } }),
    defineAgent({ name: 'calls', budgets: { maxToolCalls: 3 } }),
    defineAgent({ name: 'tokens', budgets: { maxTokens: 3 * TOKENS_OF_A_CALL } }),
    defineAgent({ name: 'wall', allowedTools: ['slow'], budgets: { maxWallTimeMs: SLOW_MS } }),
    defineAgent({ name: 'free' }),
    defineAgent({ name: 'cost', budgets: { maxCost: 3 * COST_OF_A_CALL } }),
  ],
});

/** An earlier turn's may be remembered. */
const isReport = ({ messages }: ChatRequest): boolean =>
  messages
    .slice(-2)
    .map(textOf)
    .some((text) => text.includes('no further tools can be run'));

describe('a budget', () => {
  let harness: Harness;
  let model: ModelServer;
  const reports: ChatRequest[] = [];
  let asked = 0;

  beforeAll(async () => {
    harness = await openHarness();
    model = await startModelServer({
      answer: (request) => {
        if (isReport(request)) reports.push(request);
        if (isReport(request)) return { kind: 'message', content: 'this is what I have', usage: USAGE };
        const name = toolNames(request).has('work') ? 'work' : 'slow';
        const toolCalls = Array.from({ length: CALLS_OF_A_STEP }, () => {
          asked += 1;
          return { name, arguments: { n: asked } };
        });
        return { kind: 'message', toolCalls, usage: USAGE };
      },
    });
    await harness.startWorker(app, model);
  });
  beforeEach(() => {
    ran.length = 0;
    reports.length = 0;
  });
  afterAll(async () => {
    await harness?.close();
    await model?.close();
  });

  const exhausted = async (profile: string): Promise<TurnView> => {
    const agent = harness.client.agent(`${profile}-${v7()}`);
    const view = await (await agent.enqueue({ instruction: 'work on', profile })).result(WAIT);
    expect(view).toMatchObject({ status: 'partial', deliverable: { text: 'this is what I have' } });
    expect(reports.map((request) => [...toolNames(request)])).toEqual([['submit_result']]);
    expect(await harness.store.violations()).toEqual([]);
    return view;
  };
  const callsOf = ({ steps }: TurnView) => steps.flatMap((step) => step.calls);

  test.each([
    ['steps', 'max_steps_reached'],
    ['tokens', 'budget_tokens'],
    ['cost', 'budget_cost'],
  ])('of %s allows what it says, and one report (K9)', async (profile, errorCode) => {
    const view = await exhausted(profile);
    expect(view).toMatchObject({ errorCode, stepCount: 4 });
    expect(view.usage).toMatchObject({ input: 400, output: 40 });
    expect(view.cost).toBeCloseTo(4 * COST_OF_A_CALL);
    expect(ran).toHaveLength(3 * CALLS_OF_A_STEP);
  });

  test('of calls lets those run that still fit, refuses the others, and then comes the report (K9)', async () => {
    const view = await exhausted('calls');
    expect(view).toMatchObject({ errorCode: 'budget_tool_calls', stepCount: 3 });
    expect(ran).toHaveLength(3);
    expect(callsOf(view).map(({ error }) => error?.code)).toEqual([
      undefined,
      undefined,
      undefined,
      'budget_tool_calls',
    ]);
  });

  test('that is used up is told by an event, and in the current details (K4)', async () => {
    const view = await exhausted('steps');
    const { agentId, agentTurnId } = view;
    const events = await harness.store.readEvents({ agentId, agentTurnId });
    const hit = { type: 'budget_hit', code: 'max_steps_reached', used: 3, limit: 3 };
    expect(events.filter(({ type }) => type === 'notice')).toMatchObject([{ payload: hit }]);
    const workflow = harness.temporal.client.workflow.getHandle(turnWorkflowId(agentId, agentTurnId));
    // The store has the end a moment before the page of the workflow shows it.
    await workflow.result().catch(() => {});
    const { currentDetails } = await workflow.query<{ currentDetails: string }>('__temporal_workflow_metadata');
    expect(currentDetails).toContain('**Noticed** after step 3: max\\_steps\\_reached: 3 of 3 used');
  });

  test('that is set while the turn is queued holds from its start (K9)', async () => {
    const agent = harness.client.agent(`free-${v7()}`);
    const [first, second] = [
      await agent.enqueue({ instruction: 'work on', profile: 'steps' }),
      await agent.enqueue({ instruction: 'work on', profile: 'free' }),
    ];
    await second.setBudgets({ maxSteps: 1 });
    await first.result(WAIT);
    expect(await second.result(WAIT)).toMatchObject({ errorCode: 'max_steps_reached', stepCount: 2 });
  });

  test('that is set without a signal holds from the next step on (K9)', async () => {
    const agent = harness.client.agent(`free-${v7()}`);
    const turn = await agent.enqueue({ instruction: 'work on', profile: 'free' });
    while ((await turn.get()).stepCount === 0) await harness.store.changed(1_000);
    await harness.store.setBudgets(turn.id, { maxSteps: 1 });
    expect(await turn.result(WAIT)).toMatchObject({ status: 'partial', errorCode: 'max_steps_reached' });
  });

  test('of wall time lets the calls end that run, and then comes the report (K9)', async () => {
    const view = await exhausted('wall');
    expect(view).toMatchObject({ errorCode: 'budget_wall_time', stepCount: 2 });
    expect(callsOf(view).map(({ status }) => status)).toEqual(['success', 'success']);
  });
});
