/** One worker of a chaos run, in a process of its own, on the same code as production. It is made to be killed. */

import type { WorkerCapacity } from '../../workers/worker.ts';
import { startPlacedWorker, type WorkerPlace } from '../support/placed-worker.ts';
import { chaosApp } from './tools.ts';

export interface ChaosWorker extends WorkerPlace {
  readonly effectsPath: string;
  /** As many as a worker has by default when absent. */
  readonly slots?: Pick<WorkerCapacity, 'activities' | 'workflowTasks'>;
}

/** On stderr, once the worker polls. */
export const READY = 'chaos worker ready';

async function main(options: ChaosWorker): Promise<void> {
  const worker = await startPlacedWorker(options, chaosApp(options.effectsPath), { capacity: options.slots ?? {} });
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
