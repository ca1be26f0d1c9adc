/** Opens the store in a SQLite file: WAL, durable commits, safe for several processes on one machine. */
import { mkdirSync } from 'node:fs';
import { dirname } from 'node:path';
import SqliteDatabase from 'better-sqlite3';
import { Kysely, type Transaction } from 'kysely';
import { CodedError } from '../../../workflows/protocol/failures.ts';
import { LIMITS } from '../../../workflows/protocol/limits.ts';
import type { Store } from '../../../workflows/protocol/store.ts';
import { cardCache, profileCache } from '../context.ts';
import { migrate, type SchemaDialect } from '../migrations.ts';
import type { Tables } from '../rows.ts';
import { createStore } from '../store.ts';
import { ChangeWatcher } from './changes.ts';
import { ImmediateSqliteDialect } from './dialect.ts';
import { mapSqliteError } from './errors.ts';
import { preparedOnce } from './statements.ts';

/** Short, because it blocks the process; the longer wait for the write lock is the dialect's. */
const BUSY_TIMEOUT_MS = 2;

const schema: SchemaDialect = {
  autoId: 'integer primary key autoincrement',
  int: 'integer',
  // BEGIN IMMEDIATE already holds the only write lock there is.
  lockSchema: async (_trx: Transaction<Tables>) => {},
};

export interface SqliteStoreOptions {
  readonly path: string;
  readonly now?: () => number;
  /** Turns that may wait in one agent's inbox; default 1,000 (T10). */
  readonly maxQueuedTurns?: number;
}

/** Errors: `store_corrupt`, `store_locked`, `store_unavailable`, each naming the file. */
export async function openSqliteStore({
  path,
  now = Date.now,
  maxQueuedTurns = LIMITS.maxQueuedTurns,
}: SqliteStoreOptions): Promise<Store> {
  const mapError = (error: unknown): unknown => mapSqliteError(error, path);
  try {
    mkdirSync(dirname(path), { recursive: true });
    const database = preparedOnce(open(path));
    const db = new Kysely<Tables>({ dialect: new ImmediateSqliteDialect({ database }) });
    await migrate(db, schema);
    const changes = new ChangeWatcher(() => open(path));
    return createStore(
      { db, now, mapError, maxQueuedTurns, cards: cardCache(), profiles: profileCache() },
      {
        changed: (timeoutMs) => changes.wait(timeoutMs),
        close: async () => {
          changes.close();
          await db.destroy();
        },
      },
    );
  } catch (error) {
    const mapped = mapError(error);
    if (mapped instanceof CodedError) throw mapped;
    throw new CodedError('store_unavailable', `cannot open the store ${path}: ${String(error)}`, { cause: error });
  }
}

function open(path: string): SqliteDatabase.Database {
  const database = new SqliteDatabase(path);
  // Turning a new file to WAL takes an exclusive lock for a moment: several processes may start at once.
  database.pragma('busy_timeout = 5000');
  database.pragma('journal_mode = WAL');
  database.pragma(`busy_timeout = ${BUSY_TIMEOUT_MS}`);
  database.pragma('synchronous = FULL');
  return database;
}
