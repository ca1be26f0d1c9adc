/** What the environment and a command's options say together, and what follows when neither says anything. */
import { existsSync } from 'node:fs';
import { dirname, join } from 'node:path';
import type { CommonOptions } from '../../client/cli/environment.ts';
import type { Store } from '../../workflows/contract/store.ts';
import { CodedError } from '../../workflows/protocol/failures.ts';
import type { Config, TemporalConfig } from '../config.ts';
import { openStore } from '../open-store.ts';

const DEFAULT_DATA_DIR = '.agentturn';
const STORE_FILE = 'agentturn.db';
const DEFAULT_NAMESPACE = 'default';

export interface Settings {
  readonly config: Config;
  readonly storeUrl: string;
  readonly storeConnections: number;
  /** Where a dev server keeps its data, and tells others that it runs. */
  readonly dataDir: string;
  /** The server that was named, by option or environment. */
  readonly temporal: TemporalConfig | undefined;
  /** By option, or else by the environment. */
  readonly namespace: string;
}

export function settingsOf(config: Config, options: CommonOptions & { readonly dataDir?: string }): Settings {
  const namedStore = options.store ?? config.storeUrl;
  const dataDir = options.dataDir ?? folderOf(namedStore) ?? DEFAULT_DATA_DIR;
  const namespace = options.namespace ?? config.temporal?.namespace ?? DEFAULT_NAMESPACE;
  const address = options.temporal ?? config.temporal?.address;
  const credentials = config.temporal?.credentials ?? {};
  return {
    config,
    storeUrl: namedStore ?? `sqlite:${join(dataDir, STORE_FILE)}`,
    storeConnections: config.storeConnections,
    dataDir,
    temporal: address === undefined ? undefined : { address, namespace, credentials },
    namespace,
  };
}

/** A SQLite store lies in the data folder of its dev server unless told otherwise. */
function folderOf(storeUrl: string | undefined): string | undefined {
  const file = sqliteFile(storeUrl);
  return file === undefined ? undefined : dirname(file);
}

function sqliteFile(storeUrl: string | undefined): string | undefined {
  return storeUrl?.startsWith('sqlite:') ? storeUrl.slice('sqlite:'.length) : undefined;
}

/** For commands that only look: a mistyped path is an error, not a new and empty store. Errors: `store_unavailable`. */
export async function openExistingStore({ storeUrl, storeConnections }: Settings): Promise<Store> {
  const file = sqliteFile(storeUrl);
  if (file !== undefined && file !== '' && !existsSync(file)) {
    const cure = 'name another with --store or AGENTTURN_STORE, or run "agentturn dev" or "enqueue" to make it';
    throw new CodedError('store_unavailable', `there is no store ${file}; ${cure}`);
  }
  return openStore(storeUrl, { connections: storeConnections });
}
