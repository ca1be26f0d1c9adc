/** Bursts on a real server: what a turn costs in events, and what stays as it is. */
import { setTimeout } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { v7 } from 'uuid';
import { z } from 'zod';
import { defineAgent, defineApp, defineTool } from '../../../activities/app/app.ts';
import type { TurnHandle } from '../../../client/api.ts';
import { type ScriptedServer, startScriptedModel } from '../../../workers/model-server/scripted.ts';
import type { Store } from '../../../workflows/contract/store.ts';
import { turnWorkflowId } from '../../../workflows/protocol/ids.ts';
import { type Harness, openHarness, scenarioStores } from '../../support/harness.ts';
import { WAIT } from '../../support/wait.ts';

/** The event of the history with which an activity is asked for. */
const ACTIVITY_SCHEDULED = '10';

const parameters = z.object({ n: z.number().optional() });
const say = (content: string) => ({ kind: 'message', content }) as const;
const call = (...names: readonly string[]) =>
  ({ kind: 'message', toolCalls: names.map((name) => ({ name, arguments: {} })) }) as const;

/** How many of the tools that count ran at once, whenever that changed. */
const atOnce: number[] = [];

const app = defineApp({
  agents: [
    defineAgent({ name: 'bursting', burst: true }),
    defineAgent({ name: 'single', burst: false }),
    defineAgent({ name: 'pair', burst: false, parallelCalls: 2 }),
  ],
  tools: [
    defineTool({
      name: 'count',
      description: 'counts what runs at once',
      parameters,
      async execute() {
        atOnce.push((atOnce.at(-1) ?? 0) + 1);
        await setTimeout(50);
        atOnce.push((atOnce.at(-1) ?? 0) - 1);
        return null;
      },
    }),
    defineTool({ name: 'add', description: 'adds', parameters, sideEffects: 'none', execute: () => ({ sum: 3 }) }),
    defineTool({ name: 'alone', description: 'runs alone', parameters, placement: 'own', execute: () => 'alone' }),
    defineTool({ name: 'ask', description: 'asks', parameters, afterExecution: 'suspend', suspendTimeoutMs: 600_000 }),
  ],
});

describe.each(scenarioStores(import.meta.url))('bursts on %s', (backend) => {
  let harness: Harness;
  let model: ScriptedServer;
  const thinking = Promise.withResolvers<void>();
  const answered = Promise.withResolvers<void>();
  const asked = Promise.withResolvers<void>();
  const steered = Promise.withResolvers<void>();
  /** How often an attempt asked what those before it had done. */
  let askedBack = 0;

  beforeAll(async () => {
    harness = await openHarness(backend);
    model = await startScriptedModel({
      scripts: {
        one: [call('add'), say('three')],
        ten: [...Array.from({ length: 9 }, () => call('add')), say('done')].map((answer, index) =>
          'toolCalls' in answer ? { ...answer, toolCalls: [{ name: 'add', arguments: { n: index } }] } : answer,
        ),
        many: [call('count', 'count', 'count', 'count', 'count'), say('done')],
        alone: [call('add'), call('alone', 'add'), say('done')],
        ask: [call('ask', 'add'), say('thanks')],
        steered: [
          async () => {
            asked.resolve();
            await steered.promise;
            return call('add');
          },
          say('quickly done'),
        ],
        alike: [
          call('alone'),
          call('alone'),
          call('alone'),
          async () => {
            thinking.resolve();
            await answered.promise;
            return say('never read');
          },
        ],
      },
    });
    const readLedSteps: Store['readLedSteps'] = (...args) => {
      askedBack += 1;
      return harness.store.readLedSteps(...args);
    };
    await harness.startWorker(app, model, { store: { ...harness.store, readLedSteps } });
  });
  afterAll(async () => {
    await harness?.close();
    await model?.close();
  });

  const run = async (profile: string, script: string): Promise<TurnHandle> =>
    harness.client.agent(`agent-${v7()}`).enqueue({ instruction: `[script:${script}] go`, profile });

  async function eventsOf(turn: TurnHandle): Promise<readonly string[]> {
    const { agentId } = await turn.get();
    const workflow = harness.temporal.client.workflow.getHandle(turnWorkflowId(agentId, turn.id));
    await workflow.result();
    const { events = [] } = await workflow.fetchHistory();
    return (events ?? []).map(({ eventType }) => String(eventType));
  }

  test('a turn with one tool call is one activity, and is told like any other', async () => {
    const turn = await run('bursting', 'one');
    expect(await turn.result(WAIT)).toMatchObject({ status: 'success', stepCount: 2, deliverable: { text: 'three' } });
    expect(await eventsOf(turn)).toHaveLength(11);
    // The server says of the attempt that it is the first.
    expect(askedBack).toBe(0);
    const single = await run('single', 'one');
    await single.result(WAIT);
    const told = async (one: TurnHandle) => {
      const entries: unknown[] = [];
      for await (const { kind } of one.transcript()) entries.push(kind);
      return entries;
    };
    expect(await told(turn)).toEqual(await told(single));
    expect((await turn.get()).usage).toEqual((await single.get()).usage);
  });

  test('a turn of ten steps is one activity', async () => {
    const turn = await run('bursting', 'ten');
    expect(await turn.result(WAIT)).toMatchObject({ status: 'success', stepCount: 10 });
    expect(await eventsOf(turn)).toHaveLength(11);
  });

  test('so many activities of a step run at once as the profile lets (W10)', async () => {
    atOnce.length = 0;
    const turn = await run('pair', 'many');
    expect(await turn.result(WAIT)).toMatchObject({ status: 'success', stepCount: 2 });
    expect([atOnce.length, Math.max(...atOnce)]).toEqual([10, 2]);
  });

  test('a tool that wants an activity of its own gets one', async () => {
    const turn = await run('bursting', 'alone');
    expect(await turn.result(WAIT)).toMatchObject({ status: 'success', stepCount: 3 });
    expect((await turn.get()).steps[1]?.calls.map(({ status }) => status)).toEqual(['success', 'success']);
  });

  test('what a burst has told of is not told again by a turn that is stopped in the middle of it (K4, T21)', async () => {
    const turn = await run('bursting', 'alike');
    await thinking.promise;
    const { agentId } = await turn.get();
    await harness.temporal.client.workflow.getHandle(turnWorkflowId(agentId, turn.id)).signal('stop');
    expect(await turn.result(WAIT)).toMatchObject({ status: 'failed', errorCode: 'stopped' });
    answered.resolve();
    const events = await harness.store.readEvents({ agentId, limit: 1_000 });
    expect(events.filter(({ type }) => type === 'notice')).toHaveLength(1);
  });

  test('a steer is read before the next model call of the burst that is under way (T22)', async () => {
    const turn = await run('bursting', 'steered');
    await asked.promise;
    expect(await turn.steer('be quick')).toMatchObject({ ack: 'accepted' });
    steered.resolve();
    expect(await turn.result(WAIT)).toMatchObject({ status: 'success', stepCount: 2 });
    expect(model.requests.at(-1)?.messages).toContainEqual(
      expect.objectContaining({ role: 'user', content: 'be quick' }),
    );
    expect((await eventsOf(turn)).filter((type) => type === ACTIVITY_SCHEDULED)).toHaveLength(1);
  });

  test('a call that waits ends the burst, and its result begins another', async () => {
    const turn = await run('bursting', 'ask');
    for (;;) {
      const [waiting] = (await turn.get()).waiting;
      if (!waiting) {
        await harness.store.changed(1_000);
        continue;
      }
      await turn.toolResult({ callId: waiting.callId, status: 'success', result: 'yes' });
      break;
    }
    expect(await turn.result(WAIT)).toMatchObject({ status: 'success', deliverable: { text: 'thanks' } });
  });
});
