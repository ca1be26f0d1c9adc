/**
 * One turn of many steps in a small window, on a real server: shortened again and again, continued as new, and every prompt well-formed
 * and within the window (K3, K15, K16, K22).
 */
import { describe, expect, test } from '@jest/globals';
import { v7 } from 'uuid';
import { z } from 'zod';
import { defineTool } from '../../../activities/app/app.ts';
import { countTokens } from '../../../activities/tokens.ts';
import type { TurnHandle } from '../../../client/api.ts';
import type { ChatRequest } from '../../../workers/model-server/chat-request.ts';
import { textOf } from '../../../workers/model-server/chat-request.ts';
import { startModelServer } from '../../../workers/model-server/wire.ts';
import { turnWorkflowId } from '../../../workflows/protocol/ids.ts';
import { testApp } from '../../support/app.ts';
import { openHarness } from '../../support/harness.ts';

const STEPS = Number(process.env.AGENTTURN_TEST_STEPS ?? 230);
const WINDOW = 16_000;
const RESULT_BYTES = 5 * 1024;

/** Calls of a step that is too wide for two of its kind to stay in view: the next thing to do is to begin a sprint. */
const WIDE = 6;

const report = defineTool({
  name: 'report',
  description: 'reports on a part',
  parameters: z.object({ part: z.int() }),
  sideEffects: 'none',
  execute: ({ part }) =>
    `part ${part}: ${'all is well here, and there is much to say about it. '.repeat(200)}`.slice(0, RESULT_BYTES),
});

/** The step after which a user says something more. */
const SAID_AT = 40;

/** Whatever was left out: the criteria stand behind everything else, and what the user said is still there. */
function reminded({ messages }: ChatRequest, steps: number): boolean {
  const texts = messages.map(textOf);
  return (
    (texts.at(-1) ?? '').includes('- every part is named') &&
    (steps <= SAID_AT || texts.some((text) => text.includes('be brief')))
  );
}

const sizeOf = ({ messages }: ChatRequest): number =>
  messages.reduce((sum, message) => sum + countTokens(JSON.stringify(message)), 0);

/** So few steps come to the end of a history only where it may be short. */
const SHORT_HISTORY = STEPS < 1_000 ? { maxHistoryEvents: 20 } : {};

describe(`a turn of ${STEPS} steps`, () => {
  test.each([
    ['in bursts', { burst: true, ...SHORT_HISTORY }],
    ['by an activity for each model call and each tool call', { burst: false }],
  ])(
    '%s is shortened as it goes, continues as new, and ends as any other',
    async (_how, profile) => {
      const harness = await openHarness();
      let steps = 0;
      let calls = 0;
      let summaries = 0;
      let largest = 0;
      let sprints = 0;
      let unreminded = 0;
      let sprintSeen = '';
      let turn: TurnHandle | undefined;
      const model = await startModelServer({
        // A conversation that providers would refuse is refused here too, and the turn would end `provider_error`.
        answer: async (request) => {
          largest = Math.max(largest, sizeOf(request));
          if (request.messages.some((message) => textOf(message).startsWith('Shorten this to at most'))) {
            summaries += 1;
            return { kind: 'message', content: `parts up to ${calls} are well` };
          }
          if (!reminded(request, steps)) unreminded += 1;
          if (steps === SAID_AT) await turn?.steer('be brief');
          if (sizeOf(request) > WINDOW) return { kind: 'error', status: 400, code: 'context_length_exceeded' };
          const sprint =
            request.messages.map(textOf).find((text) => text.includes('older messages were left out')) ?? '';
          if (sprint !== '' && sprint !== sprintSeen) sprints += 1;
          sprintSeen = sprint;
          if (steps === STEPS) return { kind: 'message', content: 'all parts are well' };
          steps += 1;
          const parts = Array.from({ length: steps % 60 < 2 ? WIDE : 1 }, () => {
            calls += 1;
            return calls;
          });
          return { kind: 'message', toolCalls: parts.map((part) => ({ name: 'report', arguments: { part } })) };
        },
      });
      const app = testApp([report], {
        ...profile,
        budgets: { maxSteps: STEPS + 10, maxToolCalls: 10 * STEPS, maxTokens: 1_000_000_000 },
        context: { windowTokens: WINDOW },
      });
      await harness.startWorker(app, model);
      try {
        const agentId = `long-${v7()}`;
        turn = await harness.client
          .agent(agentId)
          .enqueue({ instruction: 'look at every part', criteria: ['every part is named'], profile: 'tester' });
        const view = await turn.result({ timeoutMs: 1_200_000 });
        expect(view).toMatchObject({
          status: 'success',
          deliverable: { text: 'all parts are well' },
          stepCount: STEPS + 1,
        });
        expect(view.steps.flatMap((step) => step.calls)).toHaveLength(calls);
        const runs = await runsOf(harness.temporal.client, turnWorkflowId(agentId, turn.id));
        const plans = await planBytes(harness.temporal.client, turnWorkflowId(agentId, turn.id));
        console.info({
          steps: STEPS,
          seconds: ((view.endedAt ?? 0) - view.acceptedAt) / 1_000,
          summaries,
          sprints,
          plans: { median: [...plans].sort((a, b) => a - b)[Math.floor(plans.length / 2)], most: Math.max(...plans) },
          largest,
          runs,
          engine: view.engine,
        });
        if (profile.burst && STEPS >= 1_000) expect(runs.length).toBeLessThanOrEqual(3);
        else expect(runs.length).toBeGreaterThan(1);
        for (const { events, bytes } of runs) {
          expect(events).toBeLessThan(4_000);
          expect(bytes).toBeLessThan(4 * 1024 * 1024);
        }
        expect(summaries).toBeGreaterThan(3);
        expect(unreminded).toBe(0);
        expect(sprints).toBeGreaterThan(1);
        expect(Math.max(...plans)).toBeLessThan(2 * 1024);
        expect(largest).toBeLessThan(WINDOW);
        expect(await harness.store.violations()).toEqual([]);
      } finally {
        await harness.close();
        await model.close();
      }
    },
    1_200_000,
  );
});

/** What an activity was asked for that calls a model: alone (`request`), or as the first of a burst. */
interface Asked {
  readonly request?: { readonly plan?: object };
  readonly action?: { readonly plan?: object };
}

type TemporalClient = Awaited<ReturnType<typeof openHarness>>['temporal']['client'];

async function runsOf({ workflow }: TemporalClient, workflowId: string): Promise<{ events: number; bytes: number }[]> {
  const runs: { events: number; bytes: number }[] = [];
  const latest = await workflow.getHandle(workflowId).describe();
  for await (const { runId } of workflow.list({ query: `WorkflowId = '${workflowId}'` })) {
    const { historyLength, historySize } = await workflow.getHandle(workflowId, runId).describe();
    runs.push({ events: historyLength ?? 0, bytes: historySize ?? 0 });
  }
  return runs.length > 0 ? runs : [{ events: latest.historyLength, bytes: latest.historySize ?? 0 }];
}

/** Of the plans of the last run, as its history has them. */
async function planBytes({ workflow }: TemporalClient, workflowId: string): Promise<number[]> {
  const { events } = await workflow.getHandle(workflowId).fetchHistory();
  return (events ?? []).flatMap(({ activityTaskScheduledEventAttributes: scheduled }) => {
    const [payload] = scheduled?.input?.payloads ?? [];
    if (!payload?.data) return [];
    const { request, action = request } = JSON.parse(Buffer.from(payload.data).toString('utf8')) as Asked;
    return action?.plan ? [JSON.stringify(action.plan).length] : [];
  });
}
