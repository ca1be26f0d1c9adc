/** What a run reads in the store's tables itself. Each read has a connection of its own: the store may have been away before it. */
import SqliteDatabase from 'better-sqlite3';
import { type Dialect, Kysely, PostgresDialect, SqliteDialect } from 'kysely';
import pg from 'pg';
import type { Tables } from '../../activities/store/schema/rows.ts';

const CONNECT_MS = 2_000;

/** Whole numbers are text on PostgreSQL. Errors: those of the driver. */
export async function readTables<T>(storeUrl: string, read: (tables: Kysely<Tables>) => Promise<T>): Promise<T> {
  const tables = new Kysely<Tables>({ dialect: dialectOf(storeUrl) });
  try {
    return await read(tables);
  } finally {
    await tables.destroy().catch(() => {});
  }
}

function dialectOf(storeUrl: string): Dialect {
  if (storeUrl.startsWith('sqlite:')) {
    return new SqliteDialect({
      database: async () => new SqliteDatabase(storeUrl.slice('sqlite:'.length), { readonly: true }),
    });
  }
  const pool = new pg.Pool({
    connectionString: storeUrl,
    max: 1,
    connectionTimeoutMillis: CONNECT_MS,
    query_timeout: CONNECT_MS,
  });
  // A connection that breaks tells so beside the query that fails of it.
  pool.on('error', () => {});
  return new PostgresDialect({ pool });
}

/** The process id of the worker that is the active supervisor; undefined when there is none at present. */
export async function supervisorPid(storeUrl: string): Promise<number | undefined> {
  const lease = await readTables(storeUrl, (tables) =>
    tables
      .selectFrom('svc_leases')
      .select(['holder', 'expires_at'])
      .where('service', '=', 'supervisor')
      .executeTakeFirst(),
  );
  if (!lease || Number(lease.expires_at) < Date.now()) return undefined;
  return Number(lease.holder.split('/')[1]);
}
