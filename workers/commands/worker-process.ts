/** One worker inside a command's process: connections, store, bundle, worker, each closed when the command ends. */
import type { LogLevel } from '@temporalio/worker';
import type { App } from '../../activities/app/app.ts';
import type { ModelOptions } from '../../activities/llm/openai.ts';
import { loadTokenizer } from '../../activities/tokens.ts';
import { AgentClient } from '../../client/agent-client.ts';
import type { Store } from '../../workflows/contract/store.ts';
import { SEARCH_ATTRIBUTES } from '../../workflows/protocol/ids.ts';
import type { Config } from '../config.ts';
import { connectClient, connectWorker, type TemporalAddress, type TemporalClient } from '../connect.ts';
import { openStore } from '../open-store.ts';
import { installRuntime } from '../runtime.ts';
import { ensureSearchAttributes } from '../temporal/search-attributes.ts';
import { bundleWorkflows, type RunningWorker, startWorker } from '../worker.ts';
import type { Cleanup } from './cleanup.ts';
import type { Settings } from './settings.ts';

/** A store and a Temporal server, opened: what any part of a command works with. */
export interface Backend {
  readonly address: TemporalAddress;
  readonly store: Store;
  readonly temporal: TemporalClient;
  readonly client: AgentClient;
}

/**
 * With the last wait for a lock, 5 s, less than an attempt of a local activity may take: so it ends with what it waited for, and not with
 * a timeout. Whoever calls from outside has nobody that asks again for him, and waits longer.
 */
export const STORE_WAIT_MS = 8_000;

/** The connection first: a server that is not there leaves no new store behind. Errors: `temporal_unreachable`, the store's. */
export async function openBackend(
  address: TemporalAddress,
  { storeUrl, storeConnections }: Pick<Settings, 'storeUrl' | 'storeConnections'>,
  cleanup: Cleanup,
): Promise<Backend> {
  const temporal = await connectClient(address);
  cleanup.add(() => temporal.connection.close());
  const store = await openStore(storeUrl, { connections: storeConnections, waitMs: STORE_WAIT_MS });
  cleanup.add(() => store.close());
  return { address, store, temporal, client: new AgentClient({ temporal: temporal.client, store }) };
}

/** For commands that may change the server they use. Errors: `temporal_not_ready`. */
export async function prepareNamespace({ temporal, address }: Backend): Promise<void> {
  await ensureSearchAttributes(temporal.connection, address.namespace, SEARCH_ATTRIBUTES);
}

export interface WorkerParts {
  readonly app: App;
  readonly model: ModelOptions;
  readonly targets: readonly string[];
  /** Default: in this process. */
  readonly supervisor?: Config['supervisor'];
  readonly takeOver?: boolean;
  readonly log: (line: string) => void;
  readonly logLevel: LogLevel;
}

/** Errors: `temporal_unreachable`, `temporal_not_ready`. */
export async function runWorker(backend: Backend, parts: WorkerParts, cleanup: Cleanup): Promise<RunningWorker> {
  const { logLevel, supervisor = 'process', ...rest } = parts;
  installRuntime(logLevel);
  const [bundle] = await Promise.all([bundleWorkflows(logLevel), loadTokenizer()]);
  const connection = await connectWorker(backend.address);
  cleanup.add(() => connection.close());
  const { store, temporal } = backend;
  const where = { process: {}, schedule: 'schedule', none: null } as const;
  const deps = { connection, temporal, store, bundle, ...rest, supervisor: where[supervisor], ownsProcess: true };
  const worker = await startWorker(deps);
  // Awaited by the command too; a failure before that must not count as unhandled.
  worker.done.catch(() => {});
  cleanup.add(() => worker.stop());
  return worker;
}
