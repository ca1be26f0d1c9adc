/** What a run of a turn leaves to the next one, on a real server (K22). */
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { v7 } from 'uuid';
import { defineAgent, defineApp } from '../../../activities/app/app.ts';
import { outputCardId } from '../../../activities/ids.ts';
import { type ScriptedServer, startScriptedModel } from '../../../workers/model-server/scripted.ts';
import { askScripts, askTool, suspended } from '../../support/asking.ts';
import { type Harness, openHarness } from '../../support/harness.ts';
import { WAIT } from '../../support/wait.ts';

/** One of them makes the run end exactly between the look that defers the report and its next try. */
const RUN_EVENTS = [6, 8, 10, 12, 14, 16, 18, 20, 22];

describe('a turn that goes on in a new run', () => {
  let harness: Harness;
  let model: ScriptedServer;

  beforeAll(async () => {
    harness = await openHarness();
    model = await startScriptedModel({ scripts: askScripts });
    const agents = RUN_EVENTS.map((events) => defineAgent({ name: `runs-of-${events}`, maxHistoryEvents: events }));
    await harness.startWorker(defineApp({ agents, tools: [askTool] }), model);
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

  test('tries a report again when the run before would have (T18, K22)', async () => {
    const took = (await Promise.all(RUN_EVENTS.map(reportedByCard))).toSorted((a, b) => a - b);
    // Most runs end elsewhere, and their turns took as long as one should on this machine.
    const [usual = 0, longest = 0] = [took[Math.floor(took.length / 2)], took.at(-1)];
    expect(longest).toBeLessThan(usual * 4);
  });
});
