/** What every store function gets: the database, the clock, and how the backend's errors map to the catalogue. */
import type { Kysely, Transaction } from 'kysely';
import type { Tables } from './rows.ts';

export type Trx = Transaction<Tables>;

export interface StoreContext {
  readonly db: Kysely<Tables>;
  readonly now: () => number;
  /** Turns a driver's error into a CodedError where it knows better; everything else comes back unchanged. */
  readonly mapError: (error: unknown) => unknown;
}

/** One write transaction. Inside it only `trx` may be used: `db` would wait for the connection the transaction holds. */
export async function write<T>(ctx: StoreContext, body: (trx: Trx) => Promise<T>): Promise<T> {
  try {
    return await ctx.db.transaction().execute(body);
  } catch (error) {
    throw ctx.mapError(error);
  }
}

export async function read<T>(ctx: StoreContext, body: (db: Kysely<Tables>) => Promise<T>): Promise<T> {
  try {
    return await body(ctx.db);
  } catch (error) {
    throw ctx.mapError(error);
  }
}
