/** A worker in a process of its own, on the same code as production: what tests, chaos runs and benches start in their processes. */
import type { App } from '../../activities/app/app.ts';
import { connectClient } from '../../client/connect.ts';
import { openStore } from '../../workers/open-store.ts';
import { installRuntime } from '../../workers/runtime.ts';
import { type RunningWorker, startWorker, type WorkerDeps } from '../../workers/worker.ts';
import type { SessionJournal } from '../../workflows/contract/journal.ts';
import type { Store } from '../../workflows/contract/store.ts';

/** The servers that a worker talks to, and the bundle of the workflows that is made once for all processes. */
export interface WorkerPlace {
  readonly address: string;
  readonly namespace: string;
  readonly storeUrl: string;
  /** The URL of a model server that takes any key. */
  readonly modelUrl: string;
  readonly bundlePath: string;
}

export interface PlacedWorkerOptions extends Partial<Pick<WorkerDeps, 'acceptor' | 'capacity' | 'ownsProcess'>> {
  readonly logLevel?: Parameters<typeof installRuntime>[0];
  /** How long a call of the store may wait; the store's default when absent. */
  readonly storeWaitMs?: number;
  /** Takes the place of the store, which it is given. */
  readonly wrapStore?: (store: Store) => Store;
  /** Makes the journal of chat sessions; none is kept when absent. */
  readonly journalOf?: (store: Store) => SessionJournal;
}

/** The endpoint of the model as a worker is told of it. */
export const modelAt = (modelUrl: string) => ({ apiKey: 'test', baseUrl: modelUrl, defaultModel: 'scripted' }) as const;

/** Resolves when the worker polls. */
export async function startPlacedWorker(
  { address, namespace, storeUrl, modelUrl, bundlePath }: WorkerPlace,
  app: App,
  {
    logLevel = 'WARN',
    storeWaitMs,
    wrapStore = (store) => store,
    journalOf,
    capacity,
    ...more
  }: PlacedWorkerOptions = {},
): Promise<RunningWorker> {
  installRuntime(logLevel);
  const store = wrapStore(await openStore(storeUrl, storeWaitMs === undefined ? {} : { waitMs: storeWaitMs }));
  return startWorker({
    temporal: await connectClient({ address, namespace }),
    store,
    journal: journalOf?.(store),
    app,
    model: modelAt(modelUrl),
    bundle: { codePath: bundlePath },
    capacity: { shutdownGraceMs: 1_000, ...capacity },
    ...more,
  });
}
