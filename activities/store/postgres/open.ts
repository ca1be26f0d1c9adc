/** Opens the store in a PostgreSQL database: for fleets on several machines. */
import { Kysely, PostgresDialect, sql, type Transaction } from 'kysely';
import pg from 'pg';
import { CodedError } from '../../../workflows/protocol/failures.ts';
import type { Store } from '../../../workflows/protocol/store.ts';
import { cardCache } from '../context.ts';
import { migrate, type SchemaDialect } from '../migrations.ts';
import type { Tables } from '../rows.ts';
import { createStore } from '../store.ts';
import { ChangeFeed } from './changes.ts';
import { mapPostgresError, withoutPassword } from './errors.ts';
import { poolWithoutNul } from './text.ts';

const POOL_SIZE = 10;
const CONNECT_TIMEOUT_MS = 5_000;

/** Any constant will do, as long as every process uses the same. */
const SCHEMA_LOCK = 4_211_974;

const INT8_OID = 20;

const schema: SchemaDialect = {
  autoId: 'bigserial primary key',
  int: 'bigint',
  lockSchema: async (trx: Transaction<Tables>) => {
    await sql`select pg_advisory_xact_lock(${SCHEMA_LOCK})`.execute(trx);
  },
};

export interface PostgresStoreOptions {
  /** `postgres://user:password@host:port/database`; a schema other than `public` by `?options=-csearch_path%3DNAME`. */
  readonly url: string;
  readonly now?: () => number;
  /** Connections of this process; default 10, one of them for the doorbell. */
  readonly poolSize?: number;
}

/** Errors: `store_unavailable`, naming the server without its password. */
export async function openPostgresStore({
  url,
  now = Date.now,
  poolSize = POOL_SIZE,
}: PostgresStoreOptions): Promise<Store> {
  const mapError = (error: unknown): unknown => mapPostgresError(error, url);
  const pool = new pg.Pool({
    connectionString: url,
    max: poolSize,
    connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
    // Counters and epoch ms fit a double; everything else keeps the driver's parser.
    types: { getTypeParser: (oid, format) => (oid === INT8_OID ? Number : pg.types.getTypeParser(oid, format)) },
  });
  // An idle connection that breaks is replaced on the next use; without a listener it would end the process.
  pool.on('error', () => {});
  // The pool listens only to idle connections; one that breaks in use fails its query and must not end the process besides.
  pool.on('connect', (client) => client.on('error', () => {}));
  const db = new Kysely<Tables>({ dialect: new PostgresDialect({ pool: poolWithoutNul(pool) }) });
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
    { db, now, mapError, cards: cardCache(), committed: () => changes.announce() },
    {
      changed: (timeoutMs) => changes.wait(timeoutMs),
      close: async () => {
        await changes.close();
        await db.destroy();
      },
    },
  );
}
