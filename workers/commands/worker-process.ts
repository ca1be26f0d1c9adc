/** One worker inside a command's process: connections, store, bundle, worker, each closed when the command ends. */
import type { LogLevel } from '@temporalio/worker';
import type { App } from '../../activities/app/app.ts';
import type { ModelOptions } from '../../activities/llm/openai.ts';
import { loadTokenizer } from '../../activities/tokens.ts';
import { AgentClient } from '../../client/agent-client.ts';
import { connectClient, type TemporalAddress, type TemporalClient } from '../../client/connect.ts';
import type { SessionJournal } from '../../workflows/contract/journal.ts';
import type { Store } from '../../workflows/contract/store.ts';
import { SEARCH_ATTRIBUTES } from '../../workflows/protocol/ids.ts';
import type { Config } from '../config.ts';
import { runtimeLevel } from '../log.ts';
import type { LogFormat } from '../log-format.ts';
import { openStore, type StoreOptions } from '../open-store.ts';
import { installRuntime } from '../runtime.ts';
import { ensureSearchAttributes } from '../temporal/search-attributes.ts';
import { type CallbackOptions, type RunningWorker, startWorker, type WorkerCapacity } from '../worker.ts';
import { workflowCode } from '../workflow-code.ts';
import type { Cleanup } from './cleanup.ts';
import type { Settings } from './settings.ts';

/** A store and a Temporal server, opened: what any part of a command works with. */
export interface OpenedBackend {
  readonly address: TemporalAddress;
  readonly store: Store;
  readonly temporal: TemporalClient;
  readonly client: AgentClient;
}

/**
 * How long a worker waits for locks and connections of the store. With the last wait for a lock, 5 s, this is less than an attempt of a
 * local activity may take, so that an attempt ends with what it waited for and not with a timeout. A client has nothing that tries again on
 * its behalf, and waits longer.
 */
export const STORE_WAIT_MS = 8_000;

/**
 * Connects to the server and opens the store; `cleanup` closes both. The connection comes first, so that a server that is not there leaves
 * no new store behind. Throws `temporal_unreachable`, and what `openStore` throws.
 */
export async function openBackend(
  address: TemporalAddress,
  { storeUrl, storeAccess }: Pick<Settings, 'storeUrl' | 'storeAccess'>,
  cleanup: Cleanup,
  more: Pick<StoreOptions, 'warn'> = {},
): Promise<OpenedBackend> {
  const temporal = await connectClient(address);
  cleanup.add(() => temporal.connection.close());
  const store = await openStore(storeUrl, { ...storeAccess, ...more, waitMs: STORE_WAIT_MS });
  cleanup.add(() => store.close());
  return { address, store, temporal, client: new AgentClient({ temporal: temporal.client, store }) };
}

/** Registers missing search attributes, for commands that may change the server they use. Throws `temporal_not_ready`. */
export async function prepareNamespace({ temporal, address }: OpenedBackend): Promise<void> {
  await ensureSearchAttributes(temporal.connection, address.namespace, SEARCH_ATTRIBUTES);
}

/** What a worker is made of, besides its server and store. */
export interface WorkerParts {
  readonly app: App;
  readonly model: ModelOptions;
  /** The worker targets whose turns are served. */
  readonly targets: readonly string[];
  /** Where the supervisor runs; in this process when absent. */
  readonly supervisor?: Config['supervisor'];
  /** Whether the app's definitions of agents take the place of all others in the store; they do not when absent. */
  readonly takeOver?: boolean;
  /** Keeps journals of chat sessions; none are kept when absent. */
  readonly journal?: SessionJournal | undefined;
  /** Where third parties deliver results of calls; nowhere when absent. */
  readonly callbacks?: CallbackOptions | undefined;
  /** What the worker does at once; the defaults of a worker when absent. */
  readonly capacity?: WorkerCapacity;
  /** Takes a line for the user. */
  readonly log: (line: string) => void;
  /** The least important level of the log. */
  readonly logLevel: LogLevel;
  /** How its lines are written; for people when absent. */
  readonly logFormat?: LogFormat;
}

/** Starts a worker in this process, which `cleanup` stops. Throws `temporal_unreachable` and `temporal_not_ready`. */
export async function runWorker(backend: OpenedBackend, parts: WorkerParts, cleanup: Cleanup): Promise<RunningWorker> {
  const { logLevel, logFormat, supervisor = 'process', ...rest } = parts;
  installRuntime(logLevel, logFormat);
  const [bundle] = await Promise.all([workflowCode(runtimeLevel(logLevel)), loadTokenizer()]);
  const { store, temporal } = backend;
  const where = { process: {}, schedule: 'schedule', none: null } as const;
  const deps = { temporal, store, bundle, ...rest, supervisor: where[supervisor], ownsProcess: true };
  const worker = await startWorker(deps);
  // The command awaits this too; a failure before it does must not count as an unhandled rejection.
  worker.done.catch(() => {});
  cleanup.add(() => worker.stop());
  return worker;
}
