/**
 * PostgreSQL's text cannot hold NUL: a value with one fails its statement, however often it is repeated, and a foreign client could stop
 * an agent by it. It is kept as U+FFFD instead, as a lone surrogate is.
 */
import type { PostgresCursor, PostgresPool, PostgresPoolClient, PostgresQueryResult } from 'kysely';
import type pg from 'pg';

const storable = (value: unknown): unknown =>
  typeof value === 'string' && value.includes('\0') ? value.replaceAll('\0', '\ufffd') : value;

class TextClient implements PostgresPoolClient {
  readonly #client: PostgresPoolClient;

  constructor(client: PostgresPoolClient) {
    this.#client = client;
  }

  query<R>(text: string, values: readonly unknown[]): Promise<PostgresQueryResult<R>>;
  query<R>(cursor: PostgresCursor<R>): PostgresCursor<R>;
  query<R>(what: string | PostgresCursor<R>, values: readonly unknown[] = []) {
    return typeof what === 'string' ? this.#client.query<R>(what, values.map(storable)) : this.#client.query(what);
  }

  release(destroy?: boolean): void {
    this.#client.release(destroy);
  }
}

/** The pool as Kysely uses it. */
export const poolWithoutNul = (pool: pg.Pool): PostgresPool => ({
  options: pool.options,
  end: () => pool.end(),
  connect: async () => new TextClient(await pool.connect()),
});
