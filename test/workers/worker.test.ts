/** A worker that opens a connection of its own. */
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { startWorker, type WorkerDeps } from '../../workers/worker.ts';
import { testApp } from '../support/app.ts';
import { type Harness, openHarness, testBundlePath } from '../support/harness.ts';

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
});
