/**
 * A connection as Kysely uses it, with what makes a transaction cheap on PostgreSQL.
 *
 * Invariants
 * 1. Statements run in the order they were given, and a transaction fails with the first error of them.
 * 2. No statement waits for BEGIN. When it fails, which takes an operator, the first statement that returns rows stands for itself and
 *    nothing else is written: in a transaction of more than one statement that is the lock of a head row.
 * 3. Inside a transaction no caller waits for a write that returns no rows: its error comes with the next statement or with the commit. So
 *    it tells no number of rows either; a caller that needs one asks for it by RETURNING.
 * 4. PostgreSQL's text cannot hold NUL: a value with one fails its statement, however often it is repeated, and a foreign client could stop
 *    an agent by it. It is kept as U+FFFD instead, as a lone surrogate is.
 */
import type { PostgresPool, PostgresPoolClient, PostgresQueryResult } from 'kysely';
import type pg from 'pg';
import { isLost, isOutdatedPlan } from './errors.ts';

/** Statements with a name, which a connection parses and plans once. The store has fewer, but for lists whose length varies. */
const MOST_NAMED = 500;
/** The longest text of a statement with a name. */
const LONGEST_NAMED = 4_000;

const WRITE = /^(?:insert|update|delete)\b/;
const RETURNING = /\breturning\b/;

/** What is known of the text of a statement. */
interface Statement {
  /** Undefined for a text that is planned anew each time. */
  readonly name: string | undefined;
  /** Whether it is a write that returns no rows. */
  readonly silent: boolean;
}

/** The statements of a pool by their text. */
class Statements {
  readonly #known = new Map<string, Statement>();
  #generation = 0;

  of(text: string): Statement {
    const known = this.#known.get(text);
    if (known) return known;
    const named = this.#known.size < MOST_NAMED && text.length <= LONGEST_NAMED;
    const name = named ? `s${this.#generation}_${this.#known.size}` : undefined;
    const statement = { name, silent: WRITE.test(text) && !RETURNING.test(text) };
    if (named) this.#known.set(text, statement);
    return statement;
  }

  /** The schema has changed: what the connections have planned is of no use any more. */
  renew(): void {
    this.#known.clear();
    this.#generation += 1;
  }
}

const storable = (value: unknown): unknown =>
  typeof value === 'string' && value.includes('\0') ? value.replaceAll('\0', '\ufffd') : value;

/** Why connections are gone: the server says it once, maybe while nothing is asked on them, and the driver does not repeat it. */
type Losses = WeakMap<pg.PoolClient, Error>;

/** The answer to what nobody waits for. */
const UNKNOWN: PostgresQueryResult<never> = { command: 'SELECT', rowCount: 0, rows: [] };

/** A connection that is taken from the pool. */
class StoreClient implements PostgresPoolClient {
  readonly #client: pg.PoolClient;
  readonly #statements: Statements;
  readonly #losses: Losses;
  /** Settles when the server has begun the transaction, or failed to; null outside of one. */
  #beginning: Promise<unknown> | null = null;
  /** The first error of a statement that nobody waited for; null while there is none. */
  #failure: { readonly error: unknown } | null = null;

  constructor(client: pg.PoolClient, statements: Statements, losses: Losses) {
    this.#client = client;
    this.#statements = statements;
    this.#losses = losses;
  }

  /** The store reads no cursors. */
  readonly query = ((text: string, values: readonly unknown[] = []) =>
    this.#run(text, values)) as PostgresPoolClient['query'];

  async #run(text: string, values: readonly unknown[]): Promise<Pick<PostgresQueryResult<unknown>, 'rows'>> {
    if (text === 'begin') return this.#begin();
    const { name, silent } = this.#statements.of(text);
    const named = name && values.length > 0 ? { name } : {};
    if (silent && this.#beginning !== null) await this.#begun();
    const answer = this.#client.query({ text, values: values.map(storable), ...named });
    if (silent && this.#beginning !== null) {
      answer.catch((error: unknown) => this.#failed(error));
      return UNKNOWN;
    }
    try {
      const result = await answer;
      if (this.#failure && text !== 'rollback') throw this.#failure.error;
      return result;
    } catch (error) {
      // PostgreSQL refuses what follows a failed statement: the first error says why.
      throw this.#failed(error).error;
    } finally {
      if (text === 'commit' || text === 'rollback' || this.#beginning === null) this.#end();
    }
  }

  /** Begins a transaction. Nobody waits for that either: the first statement that a caller waits for tells whether there is one. */
  #begin(): typeof UNKNOWN {
    this.#beginning = this.#client.query('begin').catch((error: unknown) => this.#failed(error));
    return UNKNOWN;
  }

  async #begun(): Promise<void> {
    await this.#beginning;
    if (this.#failure) throw this.#failure.error;
  }

  #failed(error: unknown): { readonly error: unknown } {
    if (isOutdatedPlan(error)) this.#statements.renew();
    this.#failure ??= { error: (isLost(error) && this.#losses.get(this.#client)) || error };
    return this.#failure;
  }

  #end(): void {
    this.#beginning = null;
    this.#failure = null;
  }

  release(destroy?: boolean): void {
    this.#client.release(destroy);
  }
}

/** The pool as Kysely uses it. The connections of the pool must be pipelined. */
export function storePool(pool: pg.Pool): PostgresPool {
  const statements = new Statements();
  const losses: Losses = new WeakMap();
  // An idle connection that breaks is replaced on the next use; without a listener it would end the process.
  pool.on('error', () => {});
  // The pool listens only to idle connections; one that breaks in use fails its query and must not end the process besides.
  pool.on('connect', (client) =>
    client.on('error', (error) => {
      if (!losses.has(client)) losses.set(client, error);
    }),
  );
  return {
    options: pool.options,
    end: () => pool.end(),
    connect: async () => new StoreClient(await pool.connect(), statements, losses),
  };
}
