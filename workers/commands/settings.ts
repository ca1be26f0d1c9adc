/** What the environment and a command's options say together, and what holds when neither says anything. */

import { existsSync } from 'node:fs';
import { dirname, join } from 'node:path';
import type { CommonOptions } from '../../client/cli/environment.ts';
import { commandLine } from '../../client/command-line.ts';
import type { Store } from '../../workflows/contract/store.ts';
import { CodedError } from '../../workflows/protocol/failures.ts';
import type { Config, TemporalConfig } from '../config.ts';
import { openStore, type StoreAccess, type StoreOptions } from '../open-store.ts';

const DEFAULT_DATA_DIR = '.agentturn';
const STORE_FILE = 'agentturn.db';
const DEFAULT_NAMESPACE = 'default';

/** The settings of one command. */
export interface Settings {
  /** What the environment alone says. */
  readonly config: Config;
  /** The URL of the store: by option, by the environment, or else a file in the data folder. */
  readonly storeUrl: string;
  readonly storeAccess: StoreAccess;
  /** The folder where a dev server keeps its data and writes down that it runs. */
  readonly dataDir: string;
  /** The server that was named, by option or by the environment; undefined when none was. */
  readonly temporal: TemporalConfig | undefined;
  /** The namespace by option, or else by the environment, or else `default`. */
  readonly namespace: string;
  /** The tenant that a client acts for, by option or by the environment; undefined for all there is. */
  readonly tenant: string | undefined;
}

/** The settings of a command; an option counts more than the environment. */
export function settingsOf(config: Config, options: CommonOptions & { readonly dataDir?: string }): Settings {
  const namedStore = options.store ?? config.storeUrl;
  const dataDir = options.dataDir ?? folderOf(namedStore) ?? DEFAULT_DATA_DIR;
  const namespace = options.namespace ?? config.temporal?.namespace ?? DEFAULT_NAMESPACE;
  const address = options.temporal ?? config.temporal?.address;
  const credentials = config.temporal?.credentials ?? {};
  return {
    config,
    storeUrl: namedStore ?? `sqlite:${join(dataDir, STORE_FILE)}`,
    storeAccess: config.storeAccess,
    dataDir,
    temporal: address === undefined ? undefined : { address, namespace, credentials },
    namespace,
    tenant: options.tenant ?? config.tenant,
  };
}

/** The folder of a SQLite store, which is the data folder of its dev server unless one is named; undefined for other stores. */
function folderOf(storeUrl: string | undefined): string | undefined {
  const file = sqliteFile(storeUrl);
  return file === undefined ? undefined : dirname(file);
}

/** The path of a SQLite store; undefined for other stores. */
function sqliteFile(storeUrl: string | undefined): string | undefined {
  return storeUrl?.startsWith('sqlite:') ? storeUrl.slice('sqlite:'.length) : undefined;
}

/** Whether journals of chat sessions are kept on this machine: where a folder is named, and where a `dev` keeps them in its data folder. */
export const keepsJournal = ({ config: { journal }, dataDir }: Settings): boolean =>
  typeof journal === 'string' || (journal === undefined && existsSync(join(dataDir, 'sessions')));

/** Who takes a line about a store that works less well than it should. */
type StoreWarning = Pick<StoreOptions, 'warn'>;

/**
 * Opens the store of a command that only reads or changes what is there: a mistyped path is an error, not a new and empty store. Throws
 * `store_unavailable`, and what `openStore` throws.
 */
export async function openExistingStore({ storeUrl, storeAccess }: Settings, more: StoreWarning = {}): Promise<Store> {
  const file = sqliteFile(storeUrl);
  if (file !== undefined && file !== '' && !existsSync(file)) {
    const cure = `Run this where it is, name another with --store or AGENTTURN_STORE, or make one with "${commandLine('dev')}" and wait until it is ready.`;
    throw new CodedError('store_unavailable', `there is no store ${file}`, { cure });
  }
  return openStore(storeUrl, { ...storeAccess, ...more });
}

/** Opens the store that the settings name, and makes it where there is none. Throws what `openStore` throws. */
export const openNamedStore = ({ storeUrl, storeAccess }: Pick<Settings, 'storeUrl' | 'storeAccess'>): Promise<Store> =>
  openStore(storeUrl, storeAccess);
