/** A whole installation for one test file: its own namespace on the shared server, its own SQLite file, its own scripted model. */
import { mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join } from 'node:path';
import Long from 'long';
import { v7 } from 'uuid';
import type { App } from '../../activities/app/app.ts';
import { AgentClient } from '../../client/agent-client.ts';
import { connectClient, type TemporalClient } from '../../client/connect.ts';
import { STORE_WAIT_MS } from '../../workers/commands/worker-process.ts';
import { connectWorker } from '../../workers/connect.ts';
import type { ModelServer } from '../../workers/model-server/wire.ts';
import { openStore } from '../../workers/open-store.ts';
import { installRuntime } from '../../workers/runtime.ts';
import { ensureSearchAttributes } from '../../workers/temporal/search-attributes.ts';
import { type RunningWorker, startWorker, type WorkerDeps } from '../../workers/worker.ts';
import type { Store } from '../../workflows/contract/store.ts';
import { SEARCH_ATTRIBUTES } from '../../workflows/protocol/ids.ts';
import { freshSchemaUrl } from './postgres.ts';

export interface Harness {
  readonly address: string;
  readonly namespace: string;
  /** The file, for a harness on SQLite. */
  readonly storePath: string;
  readonly storeUrl: string;
  readonly store: Store;
  readonly temporal: TemporalClient;
  readonly client: AgentClient;
  /** A worker without an acceptor, which only foreign clients need, unless `more` says so. */
  startWorker(app: App, model: Pick<ModelServer, 'url'>, more?: Partial<WorkerDeps>): Promise<RunningWorker>;
  close(): Promise<void>;
}

installRuntime('WARN');

export const temporalAddress = (): string => required('AGENTTURN_TEST_TEMPORAL');

export const testBundlePath = (): string => required('AGENTTURN_TEST_BUNDLE');

function required(variable: string): string {
  const value = process.env[variable];
  if (value) return value;
  throw new Error(`${variable} is not set: these tests need what test/support/global-setup.ts starts`);
}

/** The server is there, and other tests keep the machine busy. */
const CONNECT_MS = 60_000;

export type Backend = 'sqlite' | 'postgres';
const BOTH: readonly Backend[] = ['sqlite', 'postgres'];

/**
 * The stores on which the scenarios of a test file are tried: one of them, half of the files on each. AGENTTURN_TEST_STORE names one for all
 * files, or `both`. What a store itself must do is tried on both, whatever it says: test/activities/store.
 */
export function scenarioStores(file: string): readonly Backend[] {
  const named = process.env.AGENTTURN_TEST_STORE;
  if (named === 'both') return BOTH;
  const name = basename(file);
  const turn = [...name].reduce((sum, letter) => sum + letter.charCodeAt(0), 0) % BOTH.length;
  const chosen = BOTH.filter((backend, index) => (named ? backend === named : index === turn));
  if (chosen.length > 0) return chosen;
  throw new Error(`AGENTTURN_TEST_STORE is ${named}: expected ${BOTH.join(', ')} or both`);
}

/** Servers of a test's own, in place of those of the whole run. */
export interface HarnessServers {
  readonly address?: string;
  readonly storeUrl?: string;
}

export async function openHarness(backend: Backend = 'sqlite', servers: HarnessServers = {}): Promise<Harness> {
  const address = servers.address ?? temporalAddress();
  const namespace = `test-${v7()}`;
  const temporal = await connectClient({ address, namespace }, CONNECT_MS);
  await registerNamespace(temporal, namespace);
  const storePath = join(mkdtempSync(join(tmpdir(), 'agentturn-store-')), 'agentturn.db');
  const storeUrl = servers.storeUrl ?? (backend === 'sqlite' ? `sqlite:${storePath}` : await freshSchemaUrl());
  const store = await openStore(storeUrl, { waitMs: STORE_WAIT_MS });
  // Temporal's runtime ends with the last connection: this one keeps it between the workers of a test file, and lets the process end.
  const runtime = await connectWorker({ address, namespace });
  const running: RunningWorker[] = [];
  return {
    address,
    namespace,
    storePath,
    storeUrl,
    store,
    temporal,
    client: new AgentClient({ temporal: temporal.client, store }),
    async startWorker(app, model, more = {}) {
      const worker = await startWorker({
        temporal,
        store,
        app,
        model: { apiKey: 'test', baseUrl: model.url, defaultModel: 'scripted' },
        targets: ['worker_generic'],
        bundle: { codePath: testBundlePath() },
        capacity: { shutdownGraceMs: 100 },
        acceptor: false,
        log: () => {},
        ...more,
      });
      running.push(worker);
      return worker;
    },
    async close() {
      await Promise.all(running.map((worker) => worker.stop()));
      await runtime.close();
      await temporal.connection.close();
      await store.close();
    },
  };
}

async function registerNamespace({ connection }: TemporalClient, namespace: string): Promise<void> {
  await connection.workflowService.registerNamespace({
    namespace,
    workflowExecutionRetentionPeriod: { seconds: Long.fromNumber(24 * 3600) },
  });
  await ensureSearchAttributes(connection, namespace, SEARCH_ATTRIBUTES);
}
