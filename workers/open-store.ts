/** Opens the store a URL names. */
import { openPostgresStore } from '../activities/store/postgres/open.ts';
import { openSqliteStore } from '../activities/store/sqlite/open.ts';
import { CodedError } from '../workflows/protocol/failures.ts';
import type { Store } from '../workflows/protocol/store.ts';

export interface StoreOptions {
  /** PostgreSQL connections of this process, at most. */
  readonly connections?: number;
}

/** `sqlite:PATH` or `postgres://…`. Errors: `invalid_config`, and those of the backend. */
export async function openStore(url: string, options: StoreOptions = {}): Promise<Store> {
  const [scheme, path] = url.split(/:(.*)/s);
  if (scheme === 'sqlite' && path) return openSqliteStore({ path });
  if (scheme === 'postgres' || scheme === 'postgresql') return openPostgresStore({ url, ...options });
  throw new CodedError('invalid_config', `AGENTTURN_STORE must be sqlite:PATH or postgres://…, got ${url}`);
}
