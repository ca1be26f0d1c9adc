/** A worker in a process of its own, as in production: our queues, and the floor's queue beside them when it is asked for. */
import { type NativeConnection, Worker } from '@temporalio/worker';
import { openAiModel } from '../activities/llm/openai.ts';
import { connectClient } from '../client/connect.ts';
import { connectWorker } from '../workers/connect.ts';
import { openStore } from '../workers/open-store.ts';
import { installRuntime } from '../workers/runtime.ts';
import { startWorker } from '../workers/worker.ts';
import { serveParent } from './child.ts';
import { floorActivities } from './floor/activities.ts';
import { benchApp, FLOOR_QUEUE } from './workload.ts';

export interface WorkerArgument {
  readonly address: string;
  readonly namespace: string;
  readonly storeUrl: string;
  readonly modelUrl: string;
  readonly bundlePath: string;
  /** Left out: no floor in this process. */
  readonly floorBundlePath?: string;
}

interface Served {
  stop(): Promise<void>;
}

async function start(argument: WorkerArgument): Promise<Served> {
  installRuntime('ERROR');
  const temporal = await connectClient(argument);
  const connection = await connectWorker(argument);
  const ours = await startWorker({
    connection,
    temporal,
    store: await openStore(argument.storeUrl),
    app: benchApp(),
    model: modelOptions(argument),
    targets: ['worker_generic'],
    bundle: { codePath: argument.bundlePath },
    capacity: { shutdownGraceMs: 100 },
    log: (line) => console.error(line),
  });
  const floor = argument.floorBundlePath ? await startFloor(connection, argument, argument.floorBundlePath) : null;
  return {
    async stop() {
      await Promise.all([ours.stop(), floor?.stop()]);
    },
  };
}

async function startFloor(connection: NativeConnection, argument: WorkerArgument, codePath: string): Promise<Served> {
  const worker = await Worker.create({
    connection,
    namespace: argument.namespace,
    taskQueue: FLOOR_QUEUE,
    workflowBundle: { codePath },
    activities: floorActivities(openAiModel(modelOptions(argument)), benchApp()),
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
    },
  };
}

const modelOptions = ({ modelUrl }: WorkerArgument) => ({
  apiKey: 'bench',
  baseUrl: modelUrl,
  defaultModel: 'scripted',
});

await serveParent(async (argument) => ({ served: await start(argument as WorkerArgument), value: null }));
