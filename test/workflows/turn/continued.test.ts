/** What a run of a turn leaves to the next one, on a real server (K22). */
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { v7 } from 'uuid';
import { z } from 'zod';
import { defineAgent, defineApp, defineTool } from '../../../activities/app/app.ts';
import { outputCardId } from '../../../activities/ids.ts';
import { type ScriptedServer, startScriptedModel } from '../../../workers/model-server/scripted.ts';
import { askScripts, askTool, calls, say, suspended } from '../../support/asking.ts';
import { type Harness, openHarness } from '../../support/harness.ts';
import { WAIT } from '../../support/wait.ts';

/** One of them makes the run end exactly between the look that defers the report and its next try. */
const RUN_EVENTS = [6, 8, 10, 12, 14, 16, 18, 20, 22];

/** Runs of so many events end before what a burst has left to an activity of its own. */
const SHORT_RUNS = [5, 6, 7, 8, 9];

const aloneTool = defineTool({
  name: 'alone',
  description: 'runs alone',
  parameters: z.object({}),
  placement: 'own',
  execute: () => 'alone',
});

describe('a turn that goes on in a new run', () => {
  let harness: Harness;
  let model: ScriptedServer;

  beforeAll(async () => {
    harness = await openHarness();
    model = await startScriptedModel({ scripts: { ...askScripts, alone: [calls('alone'), say('done')] } });
    const lengths = [...new Set([...SHORT_RUNS, ...RUN_EVENTS])];
    const agents = lengths.map((events) => defineAgent({ name: `runs-of-${events}`, maxHistoryEvents: events }));
    await harness.startWorker(defineApp({ agents, tools: [askTool, aloneTool] }), model);
  });
  afterAll(async () => {
    await harness?.close();
    await model?.close();
  });

  async function reportedByCard(events: number): Promise<number> {
    const agentId = `agent-${v7()}`;
    const request = { instruction: '[script:ask] go', profile: `runs-of-${events}` };
    const turn = await harness.client.agent(agentId).enqueue(request);
    const [callId = ''] = await suspended(turn);
    const value = { from: agentId };
    const toolResultCardId = outputCardId(JSON.stringify(value));
    const reportedAt = Date.now();
    expect((await turn.toolResult({ callId, status: 'success', toolResultCardId })).ack).toBe('deferred');
    for await (const { type, payload } of turn.events()) if (type === 'call' && payload.phase === 'deferred') break;
    await harness.client.writeResult(value);
    expect(await turn.result(WAIT)).toMatchObject({ status: 'success' });
    return Date.now() - reportedAt;
  }

  test.each(SHORT_RUNS)(
    'leaves to an activity of its own what the run before would have, after %i events (K22)',
    async (events) => {
      const request = { instruction: '[script:alone] go', profile: `runs-of-${events}` };
      const turn = await harness.client.agent(`agent-${v7()}`).enqueue(request);
      expect(await turn.result(WAIT)).toMatchObject({ status: 'success', stepCount: 2 });
    },
  );

  test('tries a report again when the run before would have (T18, K22)', async () => {
    const took = (await Promise.all(RUN_EVENTS.map(reportedByCard))).toSorted((a, b) => a - b);
    // Most runs end elsewhere, and their turns took as long as one should on this machine.
    const [usual = 0, longest = 0] = [took[Math.floor(took.length / 2)], took.at(-1)];
    expect(longest).toBeLessThan(usual * 4);
  });
});
