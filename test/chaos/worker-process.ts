/** One worker of a chaos run, in a process of its own, on the same code as production. It is made to be killed. */

import { connectClient } from '../../client/connect.ts';
import { connectWorker } from '../../workers/connect.ts';
import { openStore } from '../../workers/open-store.ts';
import { installRuntime } from '../../workers/runtime.ts';
import { startWorker, type WorkerCapacity } from '../../workers/worker.ts';
import { DEFAULT_WORKER_TARGET } from '../../workflows/protocol/ids.ts';
import { chaosApp } from './tools.ts';

export interface ChaosWorker {
  readonly address: string;
  readonly namespace: string;
  readonly storeUrl: string;
  readonly modelUrl: string;
  readonly bundlePath: string;
  readonly effectsPath: string;
  /** Left out: as many as a worker has by default. */
  readonly slots?: Pick<WorkerCapacity, 'activities' | 'workflowTasks'>;
}

/** On stderr, once the worker polls. */
export const READY = 'chaos worker ready';

async function main(options: ChaosWorker): Promise<void> {
  installRuntime('WARN');
  const worker = await startWorker({
    temporal: await connectClient(options),
    connection: await connectWorker(options),
    store: await openStore(options.storeUrl),
    app: chaosApp(options.effectsPath),
    model: { apiKey: 'chaos', baseUrl: options.modelUrl, defaultModel: 'scripted' },
    targets: [DEFAULT_WORKER_TARGET],
    bundle: { codePath: options.bundlePath },
    capacity: { shutdownGraceMs: 1_000, ...options.slots },
    log: (line) => console.error(line),
  });
  process.once('SIGTERM', () => void worker.stop());
  console.error(READY);
  await worker.done;
}

if (import.meta.main) {
  try {
    await main(JSON.parse(process.argv[2] ?? 'null') as ChaosWorker);
    process.exit(0);
  } catch (error) {
    console.error(error);
    process.exit(1);
  }
}
