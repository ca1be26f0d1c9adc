/**
 * What keeps a turn from going on for a while: a provider that fails, a key that is refused until the worker is restarted with another, a
 * target without workers. The turn waits, the command line and the Web UI say why and since when, and it succeeds (W14, T12).
 */
import { createServer, type Server } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, jest, test } from '@jest/globals';
import type { Browser } from 'playwright-core';
import { type ScriptedServer, startScriptedModel } from '../../workers/model-server/scripted.ts';
import { turnWorkflowId } from '../../workflows/protocol/ids.ts';
import { commandsIn, type RunCommand } from '../client/cli/in-process.ts';
import { type CliProcess, jsonOf, startCli } from '../client/cli/processes.ts';
import { launchBrowser, openWorkflowPage } from '../support/browser.ts';
import { type Harness, openHarness, scenarioStores } from '../support/harness.ts';

const APP = new URL('../client/cli/fixture-app.ts', import.meta.url).pathname;
const SHOWN = /^stalled +waits for the model \[(\w+)\]: (.*); next try at \S+Z; \d+ attempts? failed since \S+Z$/m;
/** How long each of them lasts, in ms. The whole length, set by hand, is ten minutes for a provider and three for missing workers. */
const PROVIDER_OUTAGE_MS = Number(process.env.AGENTTURN_TEST_PROVIDER_OUTAGE_MS ?? 5_000);
const WORKER_OUTAGE_MS = Number(process.env.AGENTTURN_TEST_WORKER_OUTAGE_MS ?? 5_000);

jest.setTimeout(240_000 + PROVIDER_OUTAGE_MS + WORKER_OUTAGE_MS);

describe.each(scenarioStores(import.meta.url))('while something it needs is not there, a turn on %s', (backend) => {
  let harness: Harness;
  let model: ScriptedServer;
  let gate: Server;
  /** What the provider answers in place of the model; null: the model answers whoever has the right key. */
  let failing: number | null = null;
  let env: Readonly<Record<string, string>>;
  let cli: RunCommand;
  let worker: CliProcess;
  let browser: Browser;

  beforeAll(async () => {
    harness = await openHarness(backend);
    browser = await launchBrowser();
    model = await startScriptedModel({ default: () => ({ kind: 'message', content: 'there' }) });
    gate = createServer(async (request, response) => {
      const status = failing ?? (request.headers.authorization === 'Bearer good' ? null : 401);
      if (status !== null) return void response.writeHead(status).end('{"error":{"message":"no"}}');
      const body = await new Response(request as unknown as ReadableStream).text();
      const path = (request.url ?? '').replace(/^\/v1/, '');
      const answer = await fetch(`${model.url}${path}`, {
        method: 'POST',
        body,
        headers: { 'content-type': 'application/json' },
      });
      response.writeHead(answer.status, { 'content-type': answer.headers.get('content-type') ?? '' });
      response.end(await answer.text());
    });
    await new Promise<void>((resolve) => gate.listen(0, '127.0.0.1', resolve));
    const address = gate.address();
    const port = typeof address === 'object' && address !== null ? address.port : 0;
    env = {
      TEMPORAL_ADDRESS: harness.address,
      TEMPORAL_NAMESPACE: harness.namespace,
      AGENTTURN_STORE: harness.storeUrl,
      AGENTTURN_APP: APP,
      OPENAI_BASE_URL: `http://127.0.0.1:${port}/v1`,
    };
    cli = commandsIn(env);
  });
  afterAll(async () => {
    await browser?.close();
    await worker?.end();
    gate?.close();
    await harness?.close();
    await model?.close();
  });

  async function startWorker(OPENAI_API_KEY: string, targets = 'worker_generic'): Promise<void> {
    await worker?.end();
    const more = { OPENAI_API_KEY, AGENTTURN_WORKER_TARGETS: targets };
    worker = startCli(['worker', '--json'], { env: { ...env, ...more } });
    await worker.until(/\{"ready".*\n/);
  }
  /** The turn that a command has printed the id of, and its workflow. */
  async function turnOf(waiting: CliProcess): Promise<{ readonly turnId: string; readonly workflowId: string }> {
    const [, turnId = ''] = await waiting.until(/^turn ([0-9a-f-]{36})/m);
    const view = await harness.client.turn(turnId).get();
    return { turnId, workflowId: turnWorkflowId(view.agentId, turnId) };
  }
  /** What `turn show` says the turn waits for. */
  async function shown(turnId: string): Promise<RegExpExecArray | null> {
    expect(jsonOf(await cli(['turn', 'show', turnId, '--json']))).toMatchObject({
      status: 'running',
      waitingForProvider: { failures: expect.any(Number) },
      stall: { kind: 'provider' },
    });
    return SHOWN.exec((await cli(['turn', 'show', turnId])).stdout);
  }
  /** What the Web UI says of the activity that is tried again: two clicks from the list. */
  async function shownInWebUi(workflowId: string, until: RegExp): Promise<string> {
    const page = await openWorkflowPage(browser, harness.namespace, workflowId);
    await page.getByRole('tab', { name: /Pending Activities/ }).click();
    await page.getByText(until).first().waitFor({ timeout: 120_000 });
    const text = (await page.locator('body').textContent()) ?? '';
    await page.close();
    return text;
  }

  test('waits for a server that fails, and goes on when it does not (W14)', async () => {
    await startWorker('good');
    failing = 503;
    const waiting = startCli(['run', 'clerk', 'go', '--wait'], { env });
    await waiting.until(/waits for the model \[provider_error\]: the model provider failed \(503\)/);
    const { turnId, workflowId } = await turnOf(waiting);
    await sleep(PROVIDER_OUTAGE_MS);
    const [, code, reason] = (await shown(turnId)) ?? [];
    expect([code, reason]).toEqual(['provider_error', expect.stringContaining('check its status page')]);
    const page = await shownInWebUi(workflowId, /the model provider failed \(503\)/);
    expect(page).toMatch(/failed (once|\d+ times) since \S+Z, next try at \S+Z/);
    failing = null;
    expect(await waiting.finished()).toMatchObject({ code: 0, stdout: 'there\n' });
  });

  test('waits for a key that is refused, and goes on when the worker was started with another (W14)', async () => {
    await startWorker('wrong');
    expect(worker.output).toMatch(/warning \[provider_auth\]/);
    const waiting = startCli(['run', 'clerk', 'go', '--wait'], { env });
    await waiting.until(/waits for the model \[provider_auth\]: the model provider refused the credentials \(401/);
    const { turnId, workflowId } = await turnOf(waiting);
    const [, code, reason] = (await shown(turnId)) ?? [];
    expect([code, reason]).toEqual(['provider_auth', expect.stringContaining('set a valid OPENAI_API_KEY')]);
    expect(await shownInWebUi(workflowId, /refused the credentials \(401/)).toMatch(/since \S+Z, next try at \S+Z/);
    await startWorker('good');
    expect(await waiting.finished()).toMatchObject({ code: 0, stdout: 'there\n' });
  });

  test('waits for workers of its target, and goes on when one comes (T12)', async () => {
    await startWorker('good');
    const said = /stalled: waits for workers of worker_remote since \S+Z: none polls its task queue; start one with/;
    const asked = await cli(['run', 'remote', 'go']);
    expect(asked.stdout).toMatch(said);
    const waiting = startCli(['run', 'remote', 'go', '--wait'], { env });
    await waiting.until(said);
    const { turnId, workflowId } = await turnOf(waiting);
    await sleep(WORKER_OUTAGE_MS);
    const { stdout } = await cli(['turn', 'show', turnId]);
    expect(stdout).toMatch(/^stalled +waits for workers of worker_remote since \S+Z/m);
    const verified = jsonOf(await cli(['verify', '--json', '--older-than', '1']));
    expect(verified).toMatchObject({ violations: [], stalled: 2 });
    const page = await openWorkflowPage(browser, harness.namespace, workflowId);
    // The page says by itself that nobody polls, and shows since when the workflow waits as its start.
    await page
      .getByText('There are no workers polling the agentturn.worker_remote task queue')
      .waitFor({ timeout: 120_000 });
    expect(await page.locator('body').textContent()).toMatch(/Start\s*\w{3} \d+, \d{4}/);
    await page.close();
    await startWorker('good', 'worker_generic,worker_remote');
    expect(await waiting.finished()).toMatchObject({ code: 0, stdout: 'there\n' });
  });
});
