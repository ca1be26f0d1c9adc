/**
 * A client in one line: the store and the Temporal server that options or the environment name, opened and closed together.
 *
 * Invariant: what a client may do without is loaded when it is needed. A process that only imports this file has neither a database driver
 * nor Temporal's native library in memory; one that connects has the driver of its own store.
 */
import { AgentClient, type AgentClientOptions } from '../client/agent-client.ts';
import type { TemporalAddress, TemporalClient } from '../client/connect.ts';
import type { ApproverCheck } from '../client/turn-handle.ts';
import type { SessionJournal } from '../workflows/contract/journal.ts';
import type { Store } from '../workflows/contract/store.ts';
import type { Settings } from './commands/settings.ts';
import type { StoreAccess } from './open-store.ts';

/** What a client connects to. What is left out comes from the environment, as for the command line. */
export interface ConnectOptions {
  /** The URL of the store, `sqlite:PATH` or `postgres://…`; AGENTTURN_STORE, or `sqlite:.agentturn/agentturn.db`, when absent. */
  readonly store?: string;
  /** How a PostgreSQL store is reached, as by a password that changes. */
  readonly storeAccess?: StoreAccess;
  /**
   * The Temporal server; the one that the TEMPORAL_* variables or a profile file name, or a dev server that runs on this machine, when
   * absent.
   */
  readonly temporal?: Partial<TemporalAddress>;
  /** Asked before an answer to a question is recorded; when absent, the name that an answer gives is believed (K7). */
  readonly verifyApprover?: ApproverCheck;
}

/** A client with the store and the connection that were opened for it, which a worker may share. */
export class ConnectedClient extends AgentClient {
  readonly store: Store;
  readonly temporal: TemporalClient;

  /** Takes over what was opened: `close` closes both. */
  constructor(
    store: Store,
    temporal: TemporalClient,
    options: Pick<AgentClientOptions, 'verifyApprover' | 'journal'> = {},
  ) {
    super({ ...options, temporal: temporal.client, store });
    this.store = store;
    this.temporal = temporal;
  }

  /** Closes the connection and the store. Workers that share them are stopped before. */
  async close(): Promise<void> {
    try {
      await this.temporal.connection.close();
    } finally {
      await this.store.close();
    }
  }

  /** As `close`, at the end of a block that begins with `await using`. */
  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }
}

/**
 * Connects to Temporal and opens the store, which is made where there is none. Throws `invalid_config`, `temporal_unreachable`, and what
 * the backend of the store throws.
 */
export async function connect({
  store,
  storeAccess,
  temporal = {},
  verifyApprover,
}: ConnectOptions = {}): Promise<ConnectedClient> {
  const { openNamedStore, settingsOf } = await import('./commands/settings.ts');
  const { readConfig } = await import('./config.ts');
  const { address, namespace, credentials } = temporal;
  const given = settingsOf(readConfig(process.env), {
    ...(store === undefined ? {} : { store }),
    ...(address === undefined ? {} : { temporal: address }),
    ...(namespace === undefined ? {} : { namespace }),
  });
  const settings = { ...given, storeAccess: { ...given.storeAccess, ...storeAccess } };
  return connectTo(settings, openNamedStore, {
    ...(credentials ? { credentials } : {}),
    ...(verifyApprover ? { verifyApprover } : {}),
  });
}

/** Connects to the server of the settings, then opens the store. Throws `temporal_unreachable`, and what `open` throws. */
export async function connectTo(
  settings: Settings,
  open: (settings: Settings) => Promise<Store>,
  { credentials, verifyApprover }: Pick<TemporalAddress, 'credentials'> & Pick<ConnectOptions, 'verifyApprover'> = {},
): Promise<ConnectedClient> {
  const { locateTemporal } = await import('./commands/locate-temporal.ts');
  const { connectClient } = await import('../client/connect.ts');
  const at = await locateTemporal(settings);
  // The connection first: a request that no server can be told of is not accepted.
  const temporal = await connectClient(credentials ? { ...at, credentials } : at);
  try {
    const store = await open(settings);
    const journal = await journalOf(settings, store);
    const client = new ConnectedClient(store, temporal, { ...(verifyApprover ? { verifyApprover } : {}), journal });
    await demandOwnNamespace(client, settings);
    return client;
  } catch (error) {
    await temporal.connection.close();
    throw error;
  }
}

/** The journal that this installation keeps on this machine; undefined where it keeps none. */
async function journalOf(settings: Settings, store: Store): Promise<SessionJournal | undefined> {
  const { keepsJournal } = await import('./commands/settings.ts');
  if (!keepsJournal(settings)) return undefined;
  const { devJournal } = await import('./commands/journals.ts');
  return devJournal(settings, store);
}

/** Closes the store of a client whose namespace belongs to another one. Errors: those of `refuseOthers`. */
async function demandOwnNamespace({ store, temporal }: ConnectedClient, settings: Settings): Promise<void> {
  const { refuseOthers } = await import('./commands/locate-temporal.ts');
  try {
    await refuseOthers(temporal.client, store, settings);
  } catch (error) {
    await store.close();
    throw error;
  }
}
