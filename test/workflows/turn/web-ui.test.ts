/**
 * Temporal's Web UI in a real browser, as a person uses it: from the list of workflows, by two clicks, to what a turn does, what it waits
 * for, who must act and how, what it cost and why it failed.
 */
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import type { Browser, Page } from 'playwright-core';
import { z } from 'zod';
import { defineAgent, defineApp, defineTool } from '../../../activities/app/app.ts';
import type { TurnHandle } from '../../../client/api.ts';
import { type ScriptedServer, startScriptedModel } from '../../../workers/model-server/scripted.ts';
import { turnWorkflowId } from '../../../workflows/protocol/ids.ts';
import { describeInBrowser, launchBrowser, openWorkflowPage, workflowListUrl } from '../../support/browser.ts';
import { type Harness, openHarness } from '../../support/harness.ts';
import { WAIT } from '../../support/wait.ts';

/** Where pictures of the pages go; none are taken when it is not set. */
const SCREENSHOTS = process.env.AGENTTURN_SCREENSHOTS;

const parameters = z.object({ what: z.string().optional() });
const look = defineTool({ name: 'look_up', description: 'looks up', parameters, execute: () => ({ found: true }) });
const ask = defineTool({
  name: 'ask_person',
  description: 'asks',
  parameters,
  afterExecution: 'suspend',
  suspendTimeoutMs: 600_000,
});
const pay = defineTool({
  name: 'pay',
  description: 'pays',
  parameters: z.object({ amount: z.number() }),
  execute: () => 'paid',
});
const rules = [{ tool: 'pay', action: 'ask', reason: 'money leaves the house' }] as const;
const app = defineApp({
  agents: [
    defineAgent({
      name: 'tester',
      model: { name: 'priced' },
      instructions: 'x',
      governance: { rules: [...rules], approvals: { approvers: ['ann'] } },
    }),
    defineAgent({ name: 'discreet', instructions: 'x', privateTitles: true }),
    defineAgent({ name: 'brief', instructions: 'x', budgets: { maxSteps: 1, onExhausted: 'ask' } }),
  ],
  tools: [look, ask, pay],
  models: { priced: { input: 1_000, output: 1_000 } },
});

/** Steps of a turn whose model takes its time, ms. */
const SLOW_STEPS = 9;
const SLOW_MS = 2_000;

const lookingFor = (index: number) =>
  ({ kind: 'message', toolCalls: [{ name: 'look_up', arguments: { what: `place ${index}` } }] }) as const;
const slowly =
  <T>(answer: T) =>
  async (): Promise<T> => {
    await sleep(SLOW_MS);
    return answer;
  };

describeInBrowser('the Web UI', () => {
  let harness: Harness;
  let model: ScriptedServer;
  let browser: Browser;

  beforeAll(async () => {
    harness = await openHarness();
    const looking = {
      kind: 'message',
      content: 'Let me see.',
      toolCalls: [{ name: 'look_up', arguments: { what: 'the weather' } }],
    } as const;
    model = await startScriptedModel({
      scripts: {
        look: [
          looking,
          { kind: 'message', toolCalls: [{ name: 'ask_person', arguments: { what: 'rain?' } }] },
          { kind: 'message', content: 'sunny' },
        ],
        pay: [{ kind: 'message', content: 'I will pay.', toolCalls: [{ name: 'pay', arguments: { amount: 250 } }] }],
        more: [looking],
        slow: [
          ...Array.from({ length: SLOW_STEPS - 1 }, (_, index) => slowly(lookingFor(index))),
          slowly({ kind: 'message', content: 'found' }),
        ],
        broken: [{ kind: 'error', status: 400 }],
      },
    });
    await harness.startWorker(app, model);
    browser = await launchBrowser();
  });
  afterAll(async () => {
    await browser?.close();
    await harness?.close();
    await model?.close();
  });

  async function waiting(agentId: string, instruction: string, profile = 'tester'): Promise<TurnHandle> {
    const turn = await harness.client.agent(agentId).enqueue({ instruction, profile });
    for await (const event of turn.events()) if (event.type === 'state' && event.payload.waitingToolCount === 1) break;
    return turn;
  }

  /** Two clicks from the list: the workflow, then its metadata. What is shown there is in frames of their own: the summary, what a turn is, the current details. */
  async function detailsOf(agentId: string, turn: TurnHandle, until: string): Promise<string> {
    const page = await openWorkflowPage(browser, harness.namespace, turnWorkflowId(agentId, turn.id));
    await page.getByRole('tab', { name: 'User Metadata' }).click();
    await page.frameLocator('iframe >> nth=2').getByText(until).first().waitFor({ timeout: 120_000 });
    await picture(page, agentId);
    const frames = [0, 1, 2].map((nth) => page.frameLocator(`iframe >> nth=${nth}`).locator('body').textContent());
    const shown = (await Promise.all(frames)).join('\n');
    await page.close();
    return shown;
  }

  async function picture(page: Page, name: string): Promise<void> {
    if (SCREENSHOTS === undefined) return;
    mkdirSync(SCREENSHOTS, { recursive: true });
    await page.screenshot({ path: join(SCREENSHOTS, `web-ui-${name}.png`), fullPage: true });
  }

  test('shows of a turn that waits for a result what it did with which arguments, what was said, since when it waits, and how it is answered', async () => {
    const turn = await waiting('weather', 'Will it rain in Rome tomorrow? [script:look]');
    const [call] = (await turn.get()).waiting;
    const shown = await detailsOf('weather', turn, 'Waiting for');
    for (const expected of [
      'weather: Will it rain in Rome tomorrow?',
      'A turn runs one request for an agent',
      'Goal:',
      'suspended',
      'profile tester',
      'epoch 1',
      'look_up success',
      '{"what":"the weather"}',
      'Let me see.',
      'cost: 0.',
      'the result of ask_person',
      '{"what":"rain?"}',
      `until ${new Date(call?.deadline ?? 0).toISOString()}`,
      `agentturn tool-result ${turn.id} ${call?.callId} --result`,
    ])
      expect(shown).toContain(expected);
    expect(shown).toMatch(/since \d{4}-\d\d-\d\dT/);
    await turn.toolResult({ callId: call?.callId ?? '', status: 'success', result: 'no rain' });
    expect(await turn.result(WAIT)).toMatchObject({ status: 'success' });
    expect(await detailsOf('weather', turn, 'Deliverable')).toContain('sunny');
  });

  test('shows the steps of a turn that works for long while it works', async () => {
    const turn = await harness.client.agent('slow').enqueue({ instruction: '[script:slow] go', profile: 'tester' });
    const seen = new Set<number>();
    for await (const { type, payload } of turn.events()) {
      if (type === 'task') break;
      if (type !== 'step' || payload.phase !== 'completed' || payload.stepIndex % 2 === 1) continue;
      const shown = await detailsOf('slow', turn, 'State:');
      const events = await harness.store.readEvents({ agentId: 'slow', limit: 1_000 });
      // They are to be seen while the turn runs, and not with its end alone.
      if (events.some(({ type }) => type === 'task')) break;
      for (const { type, payload } of events)
        if (type === 'step' && payload.phase === 'completed' && shown.includes(`step ${payload.stepIndex} `))
          seen.add(payload.stepIndex);
    }
    expect(seen.size).toBeGreaterThan(1);
    expect(await turn.result(WAIT)).toMatchObject({ status: 'success', stepCount: SLOW_STEPS });
  });

  test('shows of a turn that waits for people what is asked, why, and the commands that answer', async () => {
    const turn = await waiting('payer', 'Pay. [script:pay]');
    const [call] = (await turn.get()).waiting;
    const shown = await detailsOf('payer', turn, 'Waiting for');
    const approve = `agentturn approve ${call?.callId} --turn ${turn.id} --by ann`;
    for (const expected of ['ann to approve pay', 'money leaves the house', '{"amount":250}', approve, '--deny'])
      expect(shown).toContain(expected);
    const brief = await waiting('brief-1', 'Go. [script:more]', 'brief');
    expect(await detailsOf('brief-1', brief, 'Waiting for')).toContain('max_steps_reached: 1 of 1 used');
  });

  test('lists failed turns as failed and stopped ones as canceled, and says why', async () => {
    const failed = await harness.client
      .agent('failing')
      .enqueue({ instruction: '[script:broken] go', profile: 'tester' });
    expect(await failed.result(WAIT)).toMatchObject({ status: 'failed' });
    const shown = await detailsOf('failing', failed, 'Why:');
    expect(shown).toMatch(/provider_error: the model provider failed \(400/);
    expect(shown).toMatch(/Cure: *Check the provider status/);
    const stopped = await waiting('stopped', 'Wait. [script:look]');
    await stopped.stop('not needed');
    const { workflow } = harness.temporal.client;
    await workflow
      .getHandle(turnWorkflowId('stopped', stopped.id))
      .result()
      .catch(() => {});
    const page = await browser.newPage({ viewport: { width: 1400, height: 900 } });
    await page.goto(workflowListUrl(harness.namespace));
    for (const [agentId, turn, status] of [
      ['failing', failed, 'Failed'],
      ['stopped', stopped, 'Canceled'],
    ] as const) {
      const row = page.getByRole('row').filter({ hasText: turnWorkflowId(agentId, turn.id) });
      await row.getByText(status).first().waitFor({ timeout: 120_000 });
    }
    await picture(page, 'list');
    await page.close();
  });

  test('shows no words of a turn whose profile keeps titles private', async () => {
    const turn = await waiting('secret', 'My secret is 1234. [script:look]', 'discreet');
    const shown = await detailsOf('secret', turn, 'Waiting for');
    for (const word of ['1234', 'Let me see', 'the weather', 'rain?']) expect(shown).not.toContain(word);
    expect(shown).toContain('a turn of discreet');
    await turn.stop();
  });
});
