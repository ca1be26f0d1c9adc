/** What a run reads in the store's tables itself. Each read has a connection of its own: the store may have been away before it. */
import SqliteDatabase from 'better-sqlite3';
import pg from 'pg';

const CONNECT_MS = 2_000;

/** Whole numbers are text on PostgreSQL. Errors: those of the driver. */
export async function readRows<T extends object>(storeUrl: string, statement: string): Promise<readonly T[]> {
  if (!storeUrl.startsWith('sqlite:')) return readPostgres<T>(storeUrl, statement);
  const database = new SqliteDatabase(storeUrl.slice('sqlite:'.length), { readonly: true });
  try {
    return database.prepare<[], T>(statement).all();
  } finally {
    database.close();
  }
}

async function readPostgres<T extends object>(connectionString: string, statement: string): Promise<readonly T[]> {
  const client = new pg.Client({ connectionString, connectionTimeoutMillis: CONNECT_MS, query_timeout: CONNECT_MS });
  // A connection that breaks tells so beside the query that fails of it.
  client.on('error', () => {});
  try {
    await client.connect();
    return (await client.query<T>(statement)).rows;
  } finally {
    await client.end().catch(() => {});
  }
}

/** The process id of the worker that is the active supervisor; undefined when there is none at present. */
export async function supervisorPid(storeUrl: string): Promise<number | undefined> {
  const statement = `select holder, expires_at from svc_leases where service = 'supervisor'`;
  const [lease] = await readRows<{ holder: string; expires_at: number | string }>(storeUrl, statement);
  if (!lease || Number(lease.expires_at) < Date.now()) return undefined;
  return Number(lease.holder.split('/')[1]);
}
