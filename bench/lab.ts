/**
 * The installation under test, all of it real and of the bench's own: a Temporal dev server, a store on SQLite or PostgreSQL, a model
 * over HTTP, workers and callers in their own processes.
 */
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { bundleWorkflowCode, DefaultLogger, type WorkflowBundleWithSourceMap } from '@temporalio/worker';
import { AgentClient } from '../client/agent-client.ts';
import { connectClient } from '../client/connect.ts';
import { aPgBouncer, PgBouncer } from '../test/support/pgbouncer.ts';
import { PostgresServer } from '../test/support/postgres-server.ts';
import { bundleWorkflows } from '../workers/bundle.ts';
import { openStore } from '../workers/open-store.ts';
import { findOrStartTemporal, type TemporalServer } from '../workers/temporal/server.ts';
import type { Store } from '../workflows/contract/store.ts';
import { SEARCH_ATTRIBUTES } from '../workflows/protocol/ids.ts';
import type { CallerArgument } from './caller-process.ts';
import { type Child, type Start, startChild } from './child.ts';
import type { Access } from './turns.ts';
import type { WorkerArgument } from './worker-process.ts';

/** As the README says to start a worker that must be small. */
export const SMALL: Start = { flags: ['--max-semi-space-size=8'], env: { MALLOC_ARENA_MAX: '2' } };

export const STORES = ['sqlite', 'postgres'] as const;
export type StoreKind = (typeof STORES)[number];

export interface Lab extends Access {
  readonly storeKind: StoreKind;
  /** In front of PostgreSQL; null where nothing is. */
  readonly pooler: PgBouncer | null;
  readonly storeUrl: string;
  /** Everything the installation writes is in this folder. */
  readonly dir: string;
  readonly server: TemporalServer;
  readonly model: Child;
  readonly store: Store;
  /** With the floor's worker beside ours in the same process when it is asked for. */
  startWorker(choice: {
    readonly floor?: boolean;
    readonly modelUrl?: string;
    readonly effectsPath?: string;
  }): Promise<Child>;
  startCallers(): Promise<Child>;
  close(): Promise<void>;
}

/** What a bench runs on. */
export interface LabOptions {
  readonly store: StoreKind;
  readonly pooled?: boolean;
}

/** The store of this bench; what has to be stopped for it joins `closing`. */
async function startStore(
  { store, pooled }: LabOptions,
  dir: string,
  closing: (() => unknown)[],
): Promise<Pick<Lab, 'storeUrl' | 'pooler'>> {
  if (store === 'sqlite') return { storeUrl: `sqlite:${join(dir, 'agentturn.db')}`, pooler: null };
  const server = await PostgresServer.start(dir);
  closing.push(() => server.stop());
  if (!pooled) return { storeUrl: server.url, pooler: null };
  const pooler = await PgBouncer.start(aPgBouncer(), server.url);
  closing.push(() => pooler.stop());
  return { storeUrl: pooler.to(server.url), pooler };
}

export async function openLab(options: LabOptions): Promise<Lab> {
  const dir = mkdtempSync(join(tmpdir(), 'agentturn-bench-'));
  // PostgreSQL may run as a user of its own.
  chmodSync(dir, 0o755);
  const closing: (() => unknown)[] = [() => rmSync(dir, { recursive: true, force: true })];
  const close = async () => {
    for (const step of closing.splice(0).reverse()) await step();
  };
  try {
    const server = await startServer(dir);
    closing.push(() => server.stop());
    const model = await startChild('./model-process.ts', null);
    closing.push(() => model.stop());
    const { address, namespace } = server;
    const temporal = await connectClient({ address, namespace });
    closing.push(() => temporal.connection.close());
    const { storeUrl, pooler } = await startStore(options, dir, closing);
    const store = await openStore(storeUrl);
    closing.push(() => store.close());
    const argument: Omit<WorkerArgument, 'floorBundlePath'> = {
      address,
      namespace,
      storeUrl,
      modelUrl: String(model.value),
      bundlePath: bundleTo(join(dir, 'workflows.js'), await bundleWorkflows('ERROR')),
    };
    const floorSource = fileURLToPath(new URL('./floor/workflow.ts', import.meta.url));
    const floorBundle = await bundleWorkflowCode({ workflowsPath: floorSource, logger: new DefaultLogger('ERROR') });
    const floorBundlePath = bundleTo(join(dir, 'floor.js'), floorBundle);
    const startWorker: Lab['startWorker'] = ({ floor, ...choice }) =>
      startChild('./worker-process.ts', { ...argument, ...choice, ...(floor ? { floorBundlePath } : {}) }, SMALL);
    return {
      storeKind: options.store,
      pooler,
      storeUrl,
      dir,
      server,
      model,
      temporal,
      store,
      client: new AgentClient({ temporal: temporal.client, store }),
      startWorker,
      startCallers: () => startChild('./caller-process.ts', { address, namespace, storeUrl } satisfies CallerArgument),
      close,
    };
  } catch (error) {
    await close();
    throw error;
  }
}

const startServer = (dir: string): Promise<TemporalServer> =>
  findOrStartTemporal({
    dataDir: join(dir, 'temporal'),
    port: 0,
    headless: true,
    pathEnv: process.env.PATH ?? '',
    searchAttributes: SEARCH_ATTRIBUTES,
    log: (line) => console.error(line),
  });

/** Bundled once here, so that a worker's start and memory hold no bundler. */
function bundleTo(file: string, { code }: WorkflowBundleWithSourceMap): string {
  writeFileSync(file, code);
  return file;
}
