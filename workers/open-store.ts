/** Opens the store a URL names. */
import { openPostgresStore } from '../activities/store/postgres/open.ts';
import { shownUrl } from '../activities/store/postgres/url.ts';
import { openSqliteStore } from '../activities/store/sqlite/open.ts';
import type { Store } from '../workflows/contract/store.ts';
import { CodedError } from '../workflows/protocol/failures.ts';

export interface StoreOptions {
  /** PostgreSQL connections of this process, at most. */
  readonly connections?: number;
  /** How long a call waits for locks and connections; default 30 s. */
  readonly waitMs?: number;
}

/** For people and logs: without the passwords a URL may hold. */
export const shownStore = (url: string): string =>
  url.startsWith('sqlite:') || !/[@?]/.test(url) ? url : shownUrl(url);

/** `sqlite:PATH` or `postgres://…`. Errors: `invalid_config`, and those of the backend. */
export async function openStore(url: string, options: StoreOptions = {}): Promise<Store> {
  const [scheme, path] = url.split(/:(.*)/s);
  const { waitMs } = options;
  if (scheme === 'sqlite' && path) return openSqliteStore({ path, ...(waitMs === undefined ? {} : { waitMs }) });
  if (scheme === 'postgres' || scheme === 'postgresql') return openPostgresStore({ url, ...options });
  throw new CodedError('invalid_config', `AGENTTURN_STORE must be sqlite:PATH or postgres://…, got ${shownStore(url)}`);
}
