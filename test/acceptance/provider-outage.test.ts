/** A provider that fails for a while, or refuses a key until the worker is restarted with another: the turn waits, says so, and succeeds (W14). */
import { createServer, type Server } from 'node:http';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { type ScriptedServer, startScriptedModel } from '../../workers/model-server/scripted.ts';
import { type CliProcess, jsonOf, runCli, startCli } from '../client/cli/processes.ts';
import { BACKENDS, type Harness, openHarness } from '../support/harness.ts';

const APP = new URL('../client/cli/fixture-app.ts', import.meta.url).pathname;
const SHOWN = /^stalled +waits for the model \[(\w+)\]: (.*); next try at \S+Z; \d+ attempts? failed since \S+Z$/m;

describe.each(BACKENDS)('while the provider cannot be used, a turn on %s', (backend) => {
  let harness: Harness;
  let model: ScriptedServer;
  let gate: Server;
  /** What the provider answers in place of the model; null: the model answers whoever has the right key. */
  let failing: number | null = null;
  let env: Readonly<Record<string, string>>;
  let worker: CliProcess;

  beforeAll(async () => {
    harness = await openHarness(backend);
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
  });
  afterAll(async () => {
    await worker?.end();
    gate?.close();
    await harness?.close();
    await model?.close();
  });

  async function startWorker(OPENAI_API_KEY: string): Promise<void> {
    await worker?.end();
    worker = startCli(['worker', '--json'], { env: { ...env, OPENAI_API_KEY } });
    await worker.until(/\{"ready".*\n/);
  }
  /** What `turn show` says the turn waits for. */
  async function shown(waiting: CliProcess): Promise<RegExpExecArray | null> {
    const [, turnId = ''] = await waiting.until(/^turn ([0-9a-f-]{36})/m);
    expect(jsonOf(await runCli(['turn', 'show', turnId, '--json'], { env }))).toMatchObject({
      status: 'running',
      waitingForProvider: { failures: expect.any(Number) },
    });
    return SHOWN.exec((await runCli(['turn', 'show', turnId], { env })).stdout);
  }

  test('waits for a server that fails, and goes on when it does not (W14)', async () => {
    await startWorker('good');
    failing = 503;
    const waiting = startCli(['run', 'clerk', 'go', '--wait', '--timeout', '120'], { env });
    await waiting.until(/waits for the model \[provider_error\]: the model provider failed \(503\)/);
    const [, code, reason] = (await shown(waiting)) ?? [];
    expect([code, reason]).toEqual(['provider_error', expect.stringContaining('check its status page')]);
    failing = null;
    expect(await waiting.finished()).toMatchObject({ code: 0, stdout: 'there\n' });
  });

  test('waits for a key that is refused, and goes on when the worker was started with another (W14)', async () => {
    await startWorker('wrong');
    expect(worker.output).toMatch(/warning \[provider_auth\]/);
    const waiting = startCli(['run', 'clerk', 'go', '--wait', '--timeout', '120'], { env });
    await waiting.until(/waits for the model \[provider_auth\]: the model provider refused the credentials \(401/);
    const [, code, reason] = (await shown(waiting)) ?? [];
    expect([code, reason]).toEqual(['provider_auth', expect.stringContaining('set a valid OPENAI_API_KEY')]);
    await startWorker('good');
    expect(await waiting.finished()).toMatchObject({ code: 0, stdout: 'there\n' });
  });
});
