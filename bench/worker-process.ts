/** A worker in a process of its own, as in production: our queues, and the floor's queue beside them when it is asked for. */
import { Worker } from '@temporalio/worker';
import { openAiModel } from '../activities/llm/openai.ts';
import { modelAt, startPlacedWorker, type WorkerPlace } from '../test/support/placed-worker.ts';
import { connectWorker } from '../workers/connect.ts';
import { serveParent } from './child.ts';
import { floorActivities } from './floor/activities.ts';
import { benchApp, FLOOR_QUEUE } from './workload.ts';

export interface WorkerArgument extends WorkerPlace {
  /** Left out: no floor in this process. */
  readonly floorBundlePath?: string;
  /** Where `linger` notes its calls. */
  readonly effectsPath?: string;
}

interface Served {
  stop(): Promise<void>;
}

async function start(argument: WorkerArgument): Promise<Served> {
  const capacity = { shutdownGraceMs: 100 };
  const ours = await startPlacedWorker(argument, benchApp(argument.effectsPath), { capacity, logLevel: 'ERROR' });
  const floor = argument.floorBundlePath ? await startFloor(argument, argument.floorBundlePath) : null;
  return {
    async stop() {
      await Promise.all([ours.stop(), floor?.stop()]);
    },
  };
}

async function startFloor(argument: WorkerArgument, codePath: string): Promise<Served> {
  const connection = await connectWorker(argument);
  const worker = await Worker.create({
    connection,
    namespace: argument.namespace,
    taskQueue: FLOOR_QUEUE,
    workflowBundle: { codePath },
    activities: floorActivities(openAiModel(modelAt(argument.modelUrl)), benchApp()),
    // The same limits as ours.
    maxCachedWorkflows: 50,
    maxConcurrentWorkflowTaskExecutions: 40,
    maxConcurrentActivityTaskExecutions: 200,
  });
  const done = worker.run();
  return {
    async stop() {
      worker.shutdown();
      await done;
      await connection.close();
    },
  };
}

await serveParent(async (argument) => ({ served: await start(argument as WorkerArgument), value: null }));
