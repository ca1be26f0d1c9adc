/**
 * The Temporal server of `dev` and `demo`: as for clients, the one that was named, or that runs on the data folder, or on 127.0.0.1:7233;
 * and one is started if there is none.
 *
 * Invariant: a server that workers of another installation poll is not joined by accident. They look into another store, so turns of ours
 * would wait there for ever.
 */
import { connectClient, type TemporalClient } from '../../client/connect.ts';
import { storeOfNamespace } from '../../client/store-mark.ts';
import { CodedError } from '../../workflows/protocol/failures.ts';
import { CONTROL_QUEUE, SEARCH_ATTRIBUTES } from '../../workflows/protocol/ids.ts';
import { isAlive } from '../shared-targets.ts';
import { defaultCacheDir } from '../temporal/binary.ts';
import { answersTcp, probeTemporal } from '../temporal/probe.ts';
import { DEV_NAMESPACE, findOrStartTemporal, type TemporalServer } from '../temporal/server.ts';
import { readServerRecord, type ServerOwner } from '../temporal/server-record.ts';
import { PREFERRED_PORT, PROBE_MS } from './locate-temporal.ts';
import { openNamedStore, type Settings } from './settings.ts';

const PORTS_TO_TRY = 10;
const POLL_MS = 1_000;
/** How long ago a poller may have polled and be alive: the time of one long poll. The server remembers pollers for minutes. */
const POLLER_ALIVE_MS = 90_000;
/** The value of temporal.api.enums.v1.TaskQueueType for workflow tasks. */
const TASK_QUEUE_WORKFLOW = 1;

/** How a server is started. */
export interface StartOptions {
  /** The port of the dev server; when it is absent, a server that runs is used, or one is started on any suitable port. */
  readonly port?: number | undefined;
  readonly uiPort?: number | undefined;
  /** The port at which to look for a running server first, and to start one; 7233 when absent. */
  readonly preferredPort?: number;
  /** What this process serves. */
  readonly owner?: ServerOwner;
  /** Takes a line for the user. */
  readonly log: (line: string) => void;
}

/**
 * The server for `dev` and `demo`, started if need be. Throws `invalid_config` when a namespace is asked for that a dev server does not
 * have, and what `findOrStartTemporal` throws.
 */
export async function startTemporal(settings: Settings, options: StartOptions): Promise<TemporalServer> {
  const { port, uiPort, preferredPort = PREFERRED_PORT, owner, log } = options;
  const { temporal, namespace, dataDir, config } = settings;
  if (temporal === undefined && namespace !== DEV_NAMESPACE) {
    const message = `--namespace ${namespace} needs --temporal or TEMPORAL_ADDRESS: the dev server has only ${DEV_NAMESPACE}`;
    throw new CodedError('invalid_config', message);
  }
  return findOrStartTemporal({
    configured: temporal,
    dataDir,
    port,
    uiPort,
    preferredPort: temporal === undefined && port === undefined ? await ownPort(settings, preferredPort) : undefined,
    cacheDir: defaultCacheDir(config.cacheHome),
    pathEnv: config.path,
    searchAttributes: SEARCH_ATTRIBUTES,
    owner,
    log,
  });
}

/** The first port from `first` on where no server runs for workers other than ours. */
async function ownPort(settings: Settings, first: number): Promise<number> {
  const recorded = readServerRecord(settings.dataDir)?.port;
  for (let port = first; port < first + PORTS_TO_TRY; port += 1) {
    if (port === recorded || !(await answersTcp(port)) || !(await servesOthers(port, settings))) return port;
  }
  return first;
}

async function servesOthers(port: number, settings: Settings): Promise<boolean> {
  const address = `127.0.0.1:${port}`;
  if (!(await probeTemporal(address, DEV_NAMESPACE, PROBE_MS)).healthy) return true;
  const temporal = await connectClient({ address, namespace: DEV_NAMESPACE });
  try {
    return (await hasPollers(temporal)) || (await belongsToOther(temporal, settings));
  } finally {
    await temporal.connection.close();
  }
}

/** Whether the namespace belongs to another store than ours, which may not be made yet. */
async function belongsToOther({ client }: TemporalClient, settings: Settings): Promise<boolean> {
  const found = await storeOfNamespace(client);
  if (!found) return false;
  const store = await openNamedStore(settings);
  try {
    return (await store.identity()).storeId !== found.storeId;
  } finally {
    await store.close();
  }
}

async function hasPollers({ client, connection }: TemporalClient): Promise<boolean> {
  const { pollers } = await connection.workflowService.describeTaskQueue({
    namespace: client.options.namespace,
    taskQueue: { name: CONTROL_QUEUE },
    taskQueueType: TASK_QUEUE_WORKFLOW,
  });
  const since = Date.now() - POLLER_ALIVE_MS;
  return (pollers ?? []).some(({ lastAccessTime }) => Number(lastAccessTime?.seconds ?? 0) * 1_000 > since);
}

/**
 * Rejects with `temporal_unreachable` when a server that was started here has ended by itself, because nothing can go on without it. Never
 * resolves; `signal` ends the watch.
 */
export function lostTemporal({ started, pid }: TemporalServer, signal: AbortSignal): Promise<never> {
  return new Promise((_, reject) => {
    if (!started || pid === undefined) return;
    const timer = setInterval(() => {
      if (isAlive(pid)) return;
      clearInterval(timer);
      const message =
        'the Temporal dev server ended by itself; start again: turns that were accepted are kept and go on';
      reject(new CodedError('temporal_unreachable', message));
    }, POLL_MS);
    signal.addEventListener('abort', () => clearInterval(timer), { once: true });
  });
}
