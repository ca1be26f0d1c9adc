/** The workflow page of Temporal's Web UI, in a real browser: what a person sees of a waiting turn. */
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { type Browser, chromium } from 'playwright-core';
import { z } from 'zod';
import { defineTool } from '../../../activities/app/app.ts';
import { type ScriptedServer, startScriptedModel } from '../../../workers/model-server/scripted.ts';
import { turnWorkflowId } from '../../../workflows/protocol/ids.ts';
import { testApp } from '../../support/app.ts';
import { type Harness, openHarness } from '../../support/harness.ts';

const CHROMIUM = process.env.AGENTTURN_TEST_CHROMIUM ?? '/usr/bin/chromium';
const FLAGS = [
  '--headless',
  '--no-sandbox',
  '--disable-gpu',
  '--disable-background-networking',
  '--disable-component-update',
  '--disable-sync',
  '--no-first-run',
];

describe('the Web UI', () => {
  let harness: Harness;
  let model: ScriptedServer;
  let browser: Browser;

  beforeAll(async () => {
    harness = await openHarness();
    model = await startScriptedModel({
      scripts: {
        look: [
          { kind: 'message', toolCalls: [{ name: 'look_up', arguments: { what: 'the weather' } }] },
          { kind: 'message', toolCalls: [{ name: 'ask_person', arguments: {} }] },
          { kind: 'message', content: 'sunny' },
        ],
      },
    });
    const parameters = z.object({ what: z.string().optional() });
    const tools = [
      defineTool({ name: 'look_up', description: 'looks up', parameters, execute: () => ({ found: true }) }),
      defineTool({
        name: 'ask_person',
        description: 'asks',
        parameters,
        afterExecution: 'suspend',
        suspendTimeoutMs: 600_000,
      }),
    ];
    await harness.startWorker(testApp(tools), model);
    browser = await chromium.launch({ executablePath: CHROMIUM, args: FLAGS });
  });
  afterAll(async () => {
    await browser?.close();
    await harness?.close();
    await model?.close();
  });

  test('shows summary, goal, state, steps, tokens and the waiting call with its deadline', async () => {
    const turn = await harness.client
      .agent('weather')
      .enqueue({ instruction: 'Will it rain in Rome tomorrow? [script:look]', profile: 'tester' });
    for await (const event of turn.events()) {
      if (event.type === 'state' && event.payload.waitingToolCount === 1) break;
    }
    const [waiting] = (await turn.get()).waiting;
    const workflowId = turnWorkflowId('weather', turn.id);
    const page = await browser.newPage({ viewport: { width: 1400, height: 1100 } });
    const { runId } = await harness.temporal.client.workflow.getHandle(workflowId).describe();
    const path = `namespaces/${harness.namespace}/workflows/${encodeURIComponent(workflowId)}/${runId}/user-metadata`;
    await page.goto(`${process.env.AGENTTURN_TEST_TEMPORAL_UI}/${path}`);
    // Markdown is rendered in frames of their own: the summary, then the current details.
    const [summary, details] = [page.frameLocator('iframe >> nth=0'), page.frameLocator('iframe >> nth=1')];
    await summary.getByText('weather:').waitFor({ timeout: 30_000 });
    await details.getByText('Waiting for').waitFor({ timeout: 30_000 });
    const shown = `${await summary.locator('body').textContent()}\n${await details.locator('body').textContent()}`;
    for (const expected of [
      'weather: Will it rain in Rome tomorrow?',
      'Goal:',
      'suspended',
      'profile tester',
      'epoch 1',
      'look_up success',
      'ask_person',
      waiting?.callId ?? 'no call is waiting',
      new Date(waiting?.deadline ?? 0).toISOString(),
    ]) {
      expect(shown).toContain(expected);
    }
    if (process.env.AGENTTURN_SCREENSHOT)
      await page.screenshot({ path: process.env.AGENTTURN_SCREENSHOT, fullPage: true });
    await turn.toolResult({ callId: waiting?.callId ?? '', status: 'success', result: 'no rain' });
    expect(await turn.result({ timeoutMs: 20_000 })).toMatchObject({ status: 'success' });
  });
});
