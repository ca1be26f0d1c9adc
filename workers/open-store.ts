/**
 * Opening the store that a URL names.
 *
 * Invariant: a process loads the driver of the database that it opens, and of no other.
 */
import { shownUrl } from '../activities/store/postgres/url.ts';
import type { Store } from '../workflows/contract/store.ts';
import { CodedError } from '../workflows/protocol/failures.ts';

/** How this process reaches a PostgreSQL store. A store in a file needs none of it. */
export interface StoreAccess {
  /** The most connections that this process opens; 10 when absent. */
  readonly connections?: number;
  /**
   * A URL of the same database that leads around the pooler in the store's own URL: over it the process hears of changes at once. Without one
   * it asks ten times a second.
   */
  readonly direct?: string;
  /** The password, asked for each new connection, for one that changes at run time. One in the URL counts more. */
  readonly password?: () => string | Promise<string>;
}

/** How this process uses a store. */
export interface StoreOptions extends StoreAccess {
  /** How long a request waits for locks and connections; 30 s when absent. */
  readonly waitMs?: number;
  /** Takes a line about what works less well than it should. */
  readonly warn?: (line: string) => void;
}

/** The URL of a store for people and logs: without the passwords that it may hold. */
export const shownStore = (url: string): string =>
  url.startsWith('sqlite:') || !/[@?]/.test(url) ? url : shownUrl(url);

/** Opens the store at `sqlite:PATH` or `postgres://…`. Throws `invalid_config` for any other URL, and what the backend throws. */
export async function openStore(url: string, options: StoreOptions = {}): Promise<Store> {
  const [scheme, path] = url.split(/:(.*)/s);
  const { waitMs } = options;
  if (scheme === 'sqlite' && path) {
    const { openSqliteStore } = await import('../activities/store/sqlite/open.ts');
    return openSqliteStore({ path, ...(waitMs === undefined ? {} : { waitMs }) });
  }
  if (scheme === 'postgres' || scheme === 'postgresql') {
    const { openPostgresStore } = await import('../activities/store/postgres/open.ts');
    return openPostgresStore({ url, ...options });
  }
  throw new CodedError('invalid_config', `AGENTTURN_STORE must be sqlite:PATH or postgres://…, got ${shownStore(url)}`);
}
