/** A model provider that keeps to nothing, on a real server: each turn ends by the rules, and the next one of its agent works (W14, W15, W17). */
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { v7 } from 'uuid';
import { z } from 'zod';
import { defineAgent, defineApp, defineTool } from '../../activities/app/app.ts';
import { turnPage } from '../../client/cli/turn-table.ts';
import { type ChatRequest, textOf, toolNames } from '../../workers/model-server/chat-request.ts';
import type { ModelAnswer } from '../../workers/model-server/completion.ts';
import { type ModelServer, startModelServer } from '../../workers/model-server/wire.ts';
import { turnWorkflowId } from '../../workflows/protocol/ids.ts';
import { say } from '../support/asking.ts';
import { type Harness, openHarness } from '../support/harness.ts';
import { WAIT } from '../support/wait.ts';

const runs: unknown[] = [];
const note = defineTool({
  name: 'note',
  description: 'notes',
  parameters: z.looseObject({}),
  execute: (args) => {
    runs.push(args);
    return 'noted';
  },
});

const app = defineApp({
  tools: [note],
  models: { scripted: { input: 1, output: 1 } },
  agents: [
    defineAgent({ name: 'free', context: { windowTokens: 2_000_000 }, budgets: { maxTokens: 10_000_000 } }),
    defineAgent({ name: 'tokens', budgets: { maxTokens: 50 } }),
    defineAgent({ name: 'cost', budgets: { maxCost: 1 } }),
  ],
});

const raw = (...chunks: readonly unknown[]): ModelAnswer => ({ kind: 'raw', chunks });
const said = (content: unknown) => ({ choices: [{ delta: { content } }] });
const called = (...pieces: readonly unknown[]) => ({ choices: [{ delta: { tool_calls: pieces } }] });
const piece = (index: unknown, id: string, args: string) => ({
  index,
  id,
  function: { name: 'note', arguments: args },
});
const finished = { choices: [{ delta: {}, finish_reason: 'stop' }] };
const used = (usage: unknown) => ({ choices: [], usage });

function* endless(): Generator<unknown> {
  for (;;) yield said('word '.repeat(1_000));
}

const isReport = ({ messages }: ChatRequest): boolean =>
  messages.slice(-2).some((one) => textOf(one).includes('no further'));
const isAnswered = ({ messages }: ChatRequest): boolean => messages.some((one) => one.role === 'tool');
const calling =
  (...answer: readonly unknown[]) =>
  (request: ChatRequest): ModelAnswer =>
    isAnswered(request) ? say('done') : raw(...answer, finished);
const working =
  (usage: unknown) =>
  (request: ChatRequest): ModelAnswer =>
    isReport(request) || !toolNames(request).has('note')
      ? raw(said('this is what I have'), finished, used(usage))
      : raw(called(piece(0, `c${request.messages.length}`, `{"n":${request.messages.length}}`)), finished, used(usage));

const DEEP = `{"n":${'['.repeat(5_000)}${']'.repeat(5_000)}}`;

/** By the first word of the instruction. */
const HABITS: Readonly<Record<string, (request: ChatRequest) => ModelAnswer>> = {
  'huge-index': calling(called(piece(4_294_967_294, 'a', '{"n":1}'))),
  'one-index': calling(called(piece(0, 'a', '{"n":1}'), piece(0, 'b', '{"n":2}'))),
  deep: calling(called(piece(0, 'a', DEEP))),
  halves: calling(said('half \ud83d'), called(piece(0, 'a\ud83d', '{"n":"\\ud83d"}'))),
  endless: () => ({ kind: 'raw', chunks: endless() }),
  parts: () =>
    raw(
      said([
        { type: 'text', text: 'in ' },
        { type: 'text', text: 'parts' },
      ]),
      finished,
    ),
  'no-usage': working(null),
  'negative-usage': working({ prompt_tokens: -100, completion_tokens: -100 }),
  'text-usage': working({ prompt_tokens: '12', completion_tokens: '12' }),
  'empty-usage': working({}),
  'huge-usage': working({ prompt_tokens: 1e300, completion_tokens: 1 }),
};

describe('a provider that', () => {
  let harness: Harness;
  let model: ModelServer;
  const refused: string[] = [];

  beforeAll(async () => {
    harness = await openHarness();
    model = await startModelServer({
      answer: (request) => {
        const words = request.messages
          .filter((message) => message.role === 'user')
          .map((one) => textOf(one).split(' ')[0]);
        const habit = HABITS[words.findLast((word) => word !== undefined && word in HABITS) ?? ''];
        return habit?.(request) ?? { kind: 'error', status: 400, message: 'no habit' };
      },
      onRefusal: ({ message }) => refused.push(message),
    });
    await harness.startWorker(app, model);
  });
  afterAll(async () => {
    await harness?.close();
    await model?.close();
  });

  const run = async (habit: string, profile = 'free') => {
    const agent = harness.client.agent(`${habit}-${v7()}`);
    runs.length = 0;
    const view = await (await agent.enqueue({ instruction: `${habit} please`, profile })).result(WAIT);
    expect(refused).toEqual([]);
    expect(await harness.store.violations()).toEqual([]);
    return view;
  };

  test.each([
    ['numbers a call beyond all bounds has it run', 'huge-index', [{ n: 1 }]],
    ['gives all calls one number has each of them run', 'one-index', [{ n: 1 }, { n: 2 }]],
    ['nests arguments too deeply is told so, and asked no more often than any other', 'deep', []],
    ['sends halves of characters gets none back', 'halves', [{ n: '\ufffd' }]],
  ])('%s (W15)', async (_, habit, expected) => {
    const view = await run(habit);
    expect(view).toMatchObject({ status: 'success', stepCount: 2, deliverable: { text: 'done' } });
    expect(runs).toHaveLength(expected.length);
    expect(runs).toEqual(expect.arrayContaining(expected));
    const sent = JSON.stringify(model.requests.at(-1)?.messages);
    expect(sent).not.toMatch(/\\ud[89a-f]/);
  });

  test('nests arguments too deeply has a failed call that says so (W9, W15)', async () => {
    const { steps } = await run('deep');
    expect(steps[0]?.calls).toMatchObject([{ status: 'failed', error: { code: 'invalid_arguments' } }]);
    expect(JSON.stringify(model.requests.at(-1)?.messages)).toContain('nested more than 200 deep');
  });

  test('never stops talking is cut short, asked to go on three times, and then its answer is not whole (K11, W15)', async () => {
    const view = await run('endless');
    const cut = { status: 'partial', errorCode: 'answer_truncated', reason: expect.stringContaining('512 KiB') };
    expect(view).toMatchObject({ ...cut, stepCount: 4, usage: { estimated: true }, cost: null });
    expect(view.deliverable?.text).toMatch(/^word word /);
  });

  test('sends its text in parts is understood (W15)', async () => {
    expect(await run('parts')).toMatchObject({ status: 'success', deliverable: { text: 'in parts' } });
  });

  test.each(['no-usage', 'negative-usage', 'text-usage', 'empty-usage', 'huge-usage'])(
    'counts as %s does is counted by us, and a budget of tokens holds (K9, W17)',
    async (habit) => {
      const view = await run(habit, 'tokens');
      expect(view).toMatchObject({ status: 'partial', errorCode: 'budget_tokens', stepCount: 2, cost: null });
      const { input, output, cached, estimated } = view.usage;
      expect(estimated).toBe(true);
      expect(input).toBeGreaterThan(50);
      expect(input).toBeLessThan(5_000);
      expect(output).toBeGreaterThan(0);
      expect(cached).toBe(0);
      expect(turnPage(view).join('\n')).toContain(`~${input} in (0 cached), ~${output} out`);
      const workflow = harness.temporal.client.workflow.getHandle(turnWorkflowId(view.agentId, view.agentTurnId));
      // The store has the end a moment before the page of the workflow shows it.
      await workflow.result();
      const { currentDetails } = await workflow.query<{ currentDetails: string }>('__temporal_workflow_metadata');
      expect(currentDetails).toContain(`~${input} in, ~${output} out`);
    },
  );

  test('counts no tokens costs nobody knows what, which uses up a budget of money (K9, W17)', async () => {
    expect(await run('no-usage', 'cost')).toMatchObject({ errorCode: 'budget_cost', stepCount: 2, cost: null });
  });
});
