/** Opens the store in a PostgreSQL database: for fleets on several machines. */
import { Kysely, PostgresDialect, sql, type Transaction } from 'kysely';
import pg from 'pg';
import { CodedError } from '../../../workflows/protocol/failures.ts';
import { LIMITS } from '../../../workflows/protocol/limits.ts';
import type { Store } from '../../../workflows/protocol/store.ts';
import { cardCache, profileCache } from '../context.ts';
import { migrate, type SchemaDialect } from '../migrations.ts';
import type { Tables } from '../rows.ts';
import { createStore } from '../store.ts';
import { ChangeFeed } from './changes.ts';
import { storePool } from './client.ts';
import { isConflict, mapPostgresError, withoutPassword } from './errors.ts';

/** Measured: docs/performance.md. */
export const DEFAULT_CONNECTIONS = 20;

/** For a connection of the pool, and for the server to answer a new one. */
const CONNECT_TIMEOUT_MS = 5_000;

/** Any constants will do, as long as every process uses the same. */
const SCHEMA_LOCK = 4_211_974;

const WAITS_LOCK = 4_211_975;

const INT8_OID = 20;

const schema: SchemaDialect = {
  autoId: 'bigserial primary key',
  int: 'bigint',
  lockSchema: (trx) => lock(trx, SCHEMA_LOCK),
};

async function lock(trx: Transaction<Tables>, key: number): Promise<void> {
  await sql`select pg_advisory_xact_lock(${key})`.execute(trx);
}

export interface PostgresStoreOptions {
  /** `postgres://user:password@host:port/database`; a schema other than `public` by `?options=-csearch_path%3DNAME`. */
  readonly url: string;
  readonly now?: () => number;
  /** Turns that may wait in one agent's inbox; default 1,000 (T10). */
  readonly maxQueuedTurns?: number;
  /** Of this process, at most; at least 2, for one of them listens while somebody waits for changes. */
  readonly connections?: number;
  /** How long a caller waits for one; default 5 s. */
  readonly waitMs?: number;
}

/** Errors: `store_unavailable`, naming the server without its password. */
export async function openPostgresStore({
  url,
  now = Date.now,
  connections = DEFAULT_CONNECTIONS,
  waitMs = CONNECT_TIMEOUT_MS,
  maxQueuedTurns = LIMITS.maxQueuedTurns,
}: PostgresStoreOptions): Promise<Store> {
  const mapError = (error: unknown): unknown => mapPostgresError(error, { url, connections, waitMs });
  const pool = new pg.Pool({
    connectionString: url,
    max: connections,
    // A write is sent without waiting for the one before it: `StoreClient`.
    pipeline: true,
    connectionTimeoutMillis: waitMs,
    // Counters and epoch ms fit a double; everything else keeps the driver's parser.
    types: { getTypeParser: (oid, format) => (oid === INT8_OID ? Number : pg.types.getTypeParser(oid, format)) },
  });
  // An idle connection that breaks is replaced on the next use; without a listener it would end the process.
  pool.on('error', () => {});
  // The pool listens only to idle connections; one that breaks in use fails its query and must not end the process besides.
  pool.on('connect', (client) => client.on('error', () => {}));
  const db = new Kysely<Tables>({ dialect: new PostgresDialect({ pool: storePool(pool) }) });
  try {
    await migrate(db, schema);
  } catch (error) {
    await db.destroy();
    const mapped = mapError(error);
    if (mapped instanceof CodedError) throw mapped;
    const message = `cannot open the store ${withoutPassword(url)}: ${String(error)}`;
    throw new CodedError('store_unavailable', message, { cause: error });
  }
  const changes = new ChangeFeed(pool);
  return createStore(
    {
      db,
      now,
      mapError,
      isConflict,
      maxQueuedTurns,
      cards: cardCache(),
      profiles: profileCache(),
      lockWaits: (trx) => lock(trx, WAITS_LOCK),
      committed: (turnEnded) => changes.announce(turnEnded),
    },
    {
      changed: (timeoutMs, only) => changes.wait(timeoutMs, only === 'turn_ended'),
      close: async () => {
        await changes.close();
        await db.destroy();
      },
    },
  );
}
