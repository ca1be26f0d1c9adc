/** Models that do not do as they are told, on a real server: every turn ends by the rules, in a bounded number of steps (K6, K9, K12, K13). */
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { v7 } from 'uuid';
import { z } from 'zod';
import { defineAgent, defineApp, defineTool } from '../../../activities/app/app.ts';
import type { TurnHandle } from '../../../client/api.ts';
import { type ChatRequest, textOf } from '../../../workers/model-server/chat-request.ts';
import type { ModelAnswer } from '../../../workers/model-server/completion.ts';
import { type ModelServer, startModelServer } from '../../../workers/model-server/wire.ts';
import { NO_USAGE } from '../../../workflows/protocol/turn.ts';
import { type Harness, openHarness } from '../../support/harness.ts';
import { WAIT } from '../../support/wait.ts';

const fails = defineTool({
  name: 'fails',
  description: 'fails',
  parameters: z.object({ n: z.number().default(0) }),
  execute: () => {
    throw new Error('it never works');
  },
});
const denied = defineTool({ name: 'denied', description: 'is denied', parameters: z.object({}), execute: () => 1 });

const governance = (onDenied: 'report' | 'rollback' | 'end') => ({ veto: ['denied'], onDenied });
const tight = { maxSteps: 12, maxToolCalls: 20 };

const app = defineApp({
  tools: [fails, denied],
  agents: [
    defineAgent({ name: 'reporting', governance: governance('report'), budgets: tight }),
    defineAgent({ name: 'rolling-back', governance: governance('rollback'), budgets: tight }),
    defineAgent({ name: 'ending', governance: governance('end'), budgets: tight }),
    defineAgent({ name: 'must-publish', mustEndWith: ['submit_result'], budgets: tight }),
  ],
});

const call = (name: string, args: object = {}): ModelAnswer => ({
  kind: 'message',
  toolCalls: [{ name, arguments: args }],
});

/** By a word in the instruction: what the model does in every single request. */
const HABITS: Readonly<Record<string, (request: ChatRequest, count: number) => ModelAnswer>> = {
  'repeats-denied': () => call('denied'),
  'repeats-failing': () => call('fails'),
  'varies-failing': (_, count) => call('fails', { n: count }),
  refuses: () => ({ kind: 'error', status: 400, message: 'no' }),
  'says-nothing': () => ({ kind: 'message', content: '' }),
  'cut-in-thought': () => ({ kind: 'message', content: '', finishReason: 'length' }),
  truncated: () => ({ kind: 'message', content: 'and so on ', finishReason: 'length' }),
};

describe('a model that', () => {
  let harness: Harness;
  let model: ModelServer;
  let count = 0;
  /** What happens while the model is asked. */
  let meanwhile = async (): Promise<void> => {};

  beforeAll(async () => {
    harness = await openHarness();
    model = await startModelServer({
      answer: async (request) => {
        count += 1;
        await meanwhile();
        const [first] = request.messages.filter((message) => message.role === 'user').map(textOf);
        const habit = HABITS[first?.split(' ')[0] ?? ''];
        return habit?.(request, count) ?? { kind: 'error', status: 400, message: `no habit for ${first}` };
      },
    });
    await harness.startWorker(app, model);
  });
  afterAll(async () => {
    await harness?.close();
    await model?.close();
  });

  const run = async (profile: string, habit: string): Promise<TurnHandle> => {
    const turn = await harness.client.agent(`${profile}-${v7()}`).enqueue({ instruction: `${habit} please`, profile });
    await turn.result(WAIT);
    return turn;
  };

  test('fails on the attempt that counts, while one that was given up for lost has answered, is heard all the same (K13)', async () => {
    const agentId = `reporting-${v7()}`;
    const { store } = harness;
    const enqueued = harness.client.agent(agentId).enqueue({ instruction: 'refuses please', profile: 'reporting' });
    meanwhile = async () => {
      const agentTurnId = (await enqueued).id;
      const { turnEpoch = 0 } = (await store.getAgent(agentId)) ?? {};
      const answered = { thought: { text: 'in the end', toolCalls: [] }, finishReason: 'stop', usage: NO_USAGE };
      const step = {
        stepIndex: 1,
        steerIds: [],
        note: null,
        calls: [],
        model: 'm',
        cost: 0,
        latencyMs: 1,
        firstTokenMs: 1,
      };
      await store.commitStep({ agentId, agentTurnId, turnEpoch }, { ...step, ...answered });
    };
    const view = await (await enqueued).result(WAIT);
    meanwhile = async () => {};
    expect(view).toMatchObject({ status: 'success', deliverable: { text: 'in the end' } });
    expect(view.steps).toHaveLength(1);
  });

  test('repeats a denied call for ever gets no more than nine of them, then ends no_progress (K6, K12)', async () => {
    const view = await (await run('reporting', 'repeats-denied')).get();
    expect(view).toMatchObject({ status: 'failed', errorCode: 'no_progress', stepCount: 10 });
    const codes = view.steps.flatMap((step) => step.calls.map((made) => made.error?.code));
    expect(codes.slice(0, 5)).toEqual(Array(5).fill('governance_denied'));
    expect(codes.slice(5, 9)).toEqual(Array(4).fill('repeated_call'));
  });

  test('repeats a failing call for ever ends the same way (K12)', async () => {
    const view = await (await run('reporting', 'repeats-failing')).get();
    expect(view).toMatchObject({ status: 'failed', errorCode: 'no_progress' });
    const codes = view.steps.flatMap((step) => step.calls.map((made) => made.error?.code));
    expect(codes.filter((code) => code === 'tool_failed')).toHaveLength(5);
  });

  test('fails in another way each time is ended by its budget, and its report that calls tools again is none (K9)', async () => {
    const view = await (await run('reporting', 'varies-failing')).get();
    expect(view).toMatchObject({ status: 'failed', errorCode: 'max_steps_reached', stepCount: 13 });
    expect(view.steps.at(-1)?.calls).toMatchObject([{ status: 'failed', error: { code: 'unknown_tool' } }]);
  });

  test('has its denied step taken back three times fails (K6, K13)', async () => {
    const turn = await run('rolling-back', 'repeats-denied');
    const view = await turn.get();
    expect(view).toMatchObject({ status: 'failed', errorCode: 'no_progress', stepCount: 3 });
    const thoughts = async (all: boolean) =>
      (await harness.store.readBox(view.outputBoxId ?? '', all)).filter(({ card }) => card.type === 'agent.thought');
    // The third time no model call followed that would have hidden what was taken back.
    expect(await thoughts(true)).toHaveLength(3);
    expect(await thoughts(false)).toEqual([]);
  });

  test('calls what ends the turn by policy ends it at once (K6)', async () => {
    const view = await (await run('ending', 'repeats-denied')).get();
    expect(view).toMatchObject({ status: 'failed', errorCode: 'policy_denied', stepCount: 1 });
  });

  test('says nothing at all, where it must submit, is reminded eight times and then reports (K12, W13)', async () => {
    const view = await (await run('must-publish', 'says-nothing')).get();
    expect(view).toMatchObject({ status: 'failed', errorCode: 'no_progress' });
    expect(view.stepCount).toBe(10);
  });

  test('is cut short by its output limit is asked to go on three times (K11)', async () => {
    const view = await (await run('reporting', 'truncated')).get();
    expect(view).toMatchObject({ status: 'partial', errorCode: 'answer_truncated', stepCount: 4 });
    expect(view.deliverable?.text).toBe('and so on '.repeat(4));
    expect(view.reason).toBe(
      'the answer was cut short by the output limit of the model or its provider, and is not whole',
    );
  });

  test('says nothing before its limit is reached is not asked again (K11)', async () => {
    const view = await (await run('reporting', 'cut-in-thought')).get();
    expect(view).toMatchObject({ status: 'failed', errorCode: 'answer_truncated', stepCount: 1 });
    expect(view.deliverable?.fallback?.reason).toContain('the model said nothing');
  });
});
