/** The PostgreSQL server of the whole test run: one of its own (global-setup.ts), or the one that AGENTTURN_TEST_POSTGRES names. */
import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import type { BatchStatement } from '../../activities/store/postgres/batch.ts';

const LOOK_MS = 20;

/** Whether the run has a PostgreSQL server; that of `npm test -- --unit` has no server at all. */
export const hasPostgres = process.env.AGENTTURN_TEST_POSTGRES !== undefined;

/** The server's URL with a schema of its own: as good as a database of its own, and made at once. */
export async function freshSchemaUrl(): Promise<string> {
  const base = process.env.AGENTTURN_TEST_POSTGRES;
  if (!base) throw new Error('AGENTTURN_TEST_POSTGRES is not set: test/support/global-setup.ts starts that server');
  const schema = `test_${crypto.randomUUID().replaceAll('-', '')}`;
  const client = new pg.Client({ connectionString: base });
  await client.connect();
  await client.query(`create schema ${schema}`);
  await client.end();
  return `${base}?options=${encodeURIComponent(`-csearch_path=${schema}`)}`;
}

/** The session that waits for a lock of this client, as soon as there is one: its process id. */
export async function blockedBy(url: string, holder: pg.Client): Promise<{ readonly pid: number }> {
  const { rows } = await holder.query<{ pid: number }>('select pg_backend_pid() as pid');
  return found(url, 'select pid from pg_stat_activity where $1 = any(pg_blocking_pids(pid))', [rows[0]?.pid]);
}

/** The first row that the query finds. The query is of a connection of its own: in a transaction it would see the same sessions for ever. */
export async function found(url: string, query: string, values: readonly unknown[]): Promise<{ readonly pid: number }> {
  const observer = new pg.Client({ connectionString: url });
  await observer.connect();
  try {
    for (;;) {
      const [row] = (await observer.query<{ pid: number }>(query, [...values])).rows;
      if (row) return row;
      await sleep(LOOK_MS);
    }
  } finally {
    await observer.end();
  }
}

/** The statements that a call of the driver's `query` sends for a store: a batch of them. */
export const statementsOf = (query: unknown): readonly BatchStatement[] =>
  typeof query === 'object' && query !== null && 'statements' in query
    ? (query.statements as readonly BatchStatement[])
    : [];
