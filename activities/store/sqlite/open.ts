/** Opens the store in a SQLite file: WAL, durable commits, safe for several processes on one machine. */
import { statSync } from 'node:fs';
import { dirname, resolve } from 'node:path';
import SqliteDatabase from 'better-sqlite3';
import { Kysely, sql, type Transaction } from 'kysely';
import type { Store } from '../../../workflows/contract/store.ts';
import { CodedError } from '../../../workflows/protocol/failures.ts';
import { SIZES } from '../../../workflows/protocol/sizes.ts';
import { makeFolder } from '../../folder.ts';
import { Admission, DEFAULT_WAIT_MS } from '../admission.ts';
import { cardCache, profileCache, untilUnlocked } from '../context.ts';
import { migrate, type SchemaDialect } from '../schema/migrations.ts';
import type { Tables } from '../schema/rows.ts';
import { createStore } from '../store.ts';
import { ChangeWatcher } from './changes.ts';
import { ImmediateSqliteDialect } from './dialect.ts';
import { isBusy, mapSqliteError, waitedInVain } from './errors.ts';
import { GroupedWrites, WRITES_TOGETHER } from './grouped-writes.ts';
import { preparedOnce } from './statements.ts';

const schema: SchemaDialect = {
  autoId: 'integer primary key autoincrement',
  int: 'integer',
  // BEGIN IMMEDIATE already holds the only write lock there is.
  lockSchema: async (_trx: Transaction<Tables>) => {},
  findVersionTable: sql`select 1 from sqlite_master where name = 'schema_version'`,
};

/** How a store in a file is opened. */
export interface SqliteStoreOptions {
  readonly path: string;
  /** The store's clock, epoch ms; that of the machine when left out. */
  readonly now?: () => number;
  /** Turns that may wait in one agent's inbox; 1,000 when left out (T10). */
  readonly maxQueuedTurns?: number;
  /** How long a caller waits for the file's lock, ms. */
  readonly waitMs?: number;
}

/**
 * Opens the store, and makes the file where it is missing. Errors: `store_corrupt`, `store_locked`, `store_unavailable`, each naming the
 * file.
 */
export async function openSqliteStore({
  path,
  now = Date.now,
  maxQueuedTurns = SIZES.maxQueuedTurns,
  waitMs = DEFAULT_WAIT_MS,
}: SqliteStoreOptions): Promise<Store> {
  const mapError = (error: unknown): unknown => mapSqliteError(error, { path, waitMs });
  const locked = { isLocked: isBusy, lockedPause };
  const databases: SqliteDatabase.Database[] = [];
  try {
    makeFolder(dirname(path));
    const admission = new Admission({ oneLine: WRITES_TOGETHER, waitMs, inVain: (wait) => waitedInVain(wait, path) });
    const opened = async () => {
      const database = await untilUnlocked(locked, admission.deadline, async () => open(path));
      databases.push(database);
      return database;
    };
    const db = new Kysely<Tables>({
      dialect: new ImmediateSqliteDialect({ database: preparedOnce(await opened()) }),
    });
    await untilUnlocked(locked, admission.deadline, () => migrate(db, schema));
    const file = fileAt(path);
    const grouped = new GroupedWrites(db, locked);
    const watched = await opened();
    const changes = new ChangeWatcher(() => watched);
    return createStore(
      {
        db,
        transact: async (deadline, body) => {
          demandFile(path, file);
          return grouped.run(deadline, body);
        },
        scanner: db,
        where: resolve(path),
        admission,
        now,
        mapError,
        ...locked,
        maxQueuedTurns,
        cards: cardCache(),
        profiles: profileCache(),
      },
      {
        changed: (timeoutMs) => changes.wait(timeoutMs),
        // One machine has one clock.
        clockAheadMs: () => 0,
        close: async () => {
          admission.close(new CodedError('store_unavailable', `the store ${path} was closed by this process`));
          changes.close();
          await db.destroy();
          // Also one that nobody came to use.
          for (const database of databases) database.close();
        },
      },
    );
  } catch (error) {
    for (const database of databases) database.close();
    const mapped = mapError(error);
    if (mapped instanceof CodedError) throw mapped;
    throw new CodedError('store_unavailable', `cannot open the store ${path}: ${String(error)}`, { cause: error });
  }
}

/** By what a file is told from another one at the same path; null where there is none. */
const fileAt = (path: string): number | null => statSync(path, { throwIfNoEntry: false })?.ino ?? null;

/**
 * Whether the path still leads to the file that was opened: what is written to one that was deleted, or replaced by another, is read by nobody.
 * Errors: `store_unavailable`.
 */
function demandFile(path: string, opened: number | null): void {
  const there = fileAt(path);
  if (there !== null && there === opened) return;
  const what = there === null ? 'deleted' : 'replaced by another one';
  throw new CodedError(
    'store_unavailable',
    `the file ${path} was ${what} while this process had it open: nothing was written`,
    {
      cure: 'Stop this process, put the file back or make a new one (agentturn dev), then start it again.',
    },
  );
}

/**
 * A connection to the file. SQLite's own wait for a lock blocks the whole process: heartbeats would stop, and a second store of the same
 * process could never let go of the lock that is waited for. So nothing waits in it, and what finds the file locked is tried again.
 */
function open(path: string): SqliteDatabase.Database {
  const database = new SqliteDatabase(path, { timeout: 0 });
  try {
    // Turning a new file to WAL takes an exclusive lock for a moment: several processes may start at once.
    database.pragma('journal_mode = WAL');
    database.pragma('synchronous = FULL');
    // What a write of a group may have to take back is kept in a file of the machine's temporary folder otherwise.
    database.pragma('temp_store = MEMORY');
    return database;
  } catch (error) {
    database.close();
    throw error;
  }
}

/** A caller that has waited for so long tries more often. */
const AGED_MS = 200;

/** SQLite tells nobody when the lock is free, and a caller that asks more often gets it sooner: those that have waited for some time do. */
const lockedPause = (waitedMs: number): number => 1 + Math.random() * (waitedMs < AGED_MS ? 8 : 4);
