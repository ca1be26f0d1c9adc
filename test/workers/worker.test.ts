/** A worker that opens a connection of its own. */
import { spawn } from 'node:child_process';
import { dirname } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { startOfflineModel } from '../../workers/demo/answerer/offline.ts';
import { removeServerRecord, writeServerRecord } from '../../workers/temporal/server-record.ts';
import { startWorker, type WorkerDeps } from '../../workers/worker.ts';
import { CliProcess } from '../client/cli/processes.ts';
import { testApp } from '../support/app.ts';
import { type Harness, openHarness, testBundlePath } from '../support/harness.ts';

/** A program that serves its turns itself, and closes its client on SIGTERM. */
const EMBEDDING = fileURLToPath(new URL('../support/embedding-app.ts', import.meta.url));

describe('a worker without a connection', () => {
  let harness: Harness;
  const deps = (): WorkerDeps => ({
    temporal: harness.temporal,
    store: harness.store,
    app: testApp([]),
    model: { apiKey: 'test', baseUrl: 'http://127.0.0.1:1/v1', defaultModel: 'scripted' },
    bundle: { codePath: testBundlePath() },
    supervisor: null,
    log: () => {},
  });

  beforeAll(async () => {
    harness = await openHarness();
  });
  afterAll(() => harness?.close());

  test('opens one, and has closed it when it has stopped', async () => {
    const worker = await startWorker(deps());
    await worker.stop();
    await expect(worker.done).resolves.toBeUndefined();
  });

  test('tells why it cannot start, also when some of its queues were served by then', async () => {
    // The second queue is refused, after the first has taken the connection.
    const start = startWorker({ ...deps(), targets: ['doubled', 'doubled'] });
    await expect(start).rejects.toThrow(/doubled/);
  });

  test('beside a process that answers the same turns with another model says so', async () => {
    const lines: string[] = [];
    const served = async (pid: number): Promise<void> => {
      const owner = { pid, model: 'the offline model', targets: ['worker_generic'] };
      writeServerRecord(dirname(harness.storePath), { port: 1, owner });
      await (await startWorker({ ...deps(), log: (line) => void lines.push(line) })).stop();
    };
    await served(process.ppid);
    expect(lines).toEqual([
      expect.stringMatching(/serves worker_generic with scripted at .* with the offline model: a step may go/),
    ]);
    await served(process.pid);
    expect(lines).toHaveLength(1);
    removeServerRecord(dirname(harness.storePath));
  });

  test.each([
    ['nothing', undefined],
    ['empty texts', ''],
  ])('is refused with %s for the key and the base URL of its model, and says what to set', async (_, nothing) => {
    const model = { apiKey: nothing, baseUrl: nothing, defaultModel: 'm' };
    await expect(startWorker({ ...deps(), model })).rejects.toMatchObject({
      code: 'invalid_config',
      message: expect.stringMatching(/OPENAI_API_KEY, OPENAI_BASE_URL or both .* model: \{ apiKey, baseUrl/),
      cure: expect.stringMatching(/offline model, and startScriptedModel of agentturn\/testing/),
    });
  });

  test('in an app logs no more than warnings; a client that is closed by SIGTERM rejects who waits for a result', async () => {
    const model = await startOfflineModel();
    const place = [harness.address, harness.namespace, harness.storeUrl, model.url, testBundlePath()];
    const app = new CliProcess(spawn(process.execPath, [EMBEDDING, ...place], { stdio: ['ignore', 'pipe', 'pipe'] }));
    try {
      await app.until(/waiting/);
      const { code, stdout, stderr } = await app.end('SIGTERM');
      expect(stdout).toBe('waiting\nstore_unavailable\n');
      // Another test's agent is registered in this store.
      expect(stderr).toMatch(/^tester: not in this app.*\n$/);
      expect(code).toBe(0);
    } finally {
      await app.end('SIGKILL');
      await model.close();
    }
  });
});
