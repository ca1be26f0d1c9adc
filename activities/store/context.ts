/** What every store function gets: the database, the clock, and how the backend's errors map to the catalogue. */
import type { Compilable, Kysely, Transaction } from 'kysely';
import { LRUCache } from 'lru-cache';
import type { Card } from '../../workflows/protocol/cards.ts';
import type { ProfileSnapshot } from '../../workflows/protocol/profile.ts';
import { flushOutbox } from './events.ts';
import type { Tables } from './rows.ts';

export type Trx = Transaction<Tables>;

const CACHED_CARD_BYTES = 64 * 1024 * 1024;

export const cardCache = (): LRUCache<string, Card> =>
  new LRUCache({ maxSize: CACHED_CARD_BYTES, sizeCalculation: (card) => card.tokens * 4 + 200 });

export type ProfileCache = LRUCache<string, ProfileSnapshot>;

const CACHED_PROFILES = 500;

export const profileCache = (): ProfileCache => new LRUCache({ max: CACHED_PROFILES });

export interface StoreContext {
  readonly db: Kysely<Tables>;
  readonly now: () => number;
  /** Cards are immutable: what was read once need not be read again. */
  readonly cards: LRUCache<string, Card>;
  /** By content hash, so immutable too. */
  readonly profiles: ProfileCache;
  /** Turns that may wait in one agent's inbox (T10). */
  readonly maxQueuedTurns: number;
  /** Turns a driver's error into a CodedError where it knows better; everything else comes back unchanged. */
  readonly mapError: (error: unknown) => unknown;
  /** Whether it wrote nothing and may be tried again at once: the server chose it to give way to another. Absent where it never does. */
  readonly isConflict?: (error: unknown) => boolean;
  /** Held to the end of the transaction: waits of delegated calls come one at a time. Absent where all writes do. */
  readonly lockWaits?: (trx: Trx) => Promise<void>;
  /** Called after each write transaction, for a backend that must tell others itself. */
  readonly committed?: (turnEnded: boolean) => void;
}

const ATTEMPTS = 4;

/** One write transaction. Inside it only `trx` may be used: `db` would wait for the connection the transaction holds. */
export async function write<T>(ctx: StoreContext, body: (trx: Trx) => Promise<T>): Promise<T> {
  const { value, turnEnded } = await attempted(ctx, () =>
    ctx.db.transaction().execute(async (trx) => ({ value: await body(trx), ...(await flushOutbox(trx)) })),
  );
  ctx.committed?.(turnEnded);
  return value;
}

export const read = <T>(ctx: StoreContext, body: (db: Kysely<Tables>) => Promise<T>): Promise<T> =>
  attempted(ctx, () => body(ctx.db));

/** Again at once after a conflict: what was written is rolled back, and nothing of it is left. */
async function attempted<T>({ isConflict, mapError }: StoreContext, run: () => Promise<T>): Promise<T> {
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await run();
    } catch (error) {
      if (attempt < ATTEMPTS && isConflict?.(error)) continue;
      throw mapError(error);
    }
  }
}

/** The rows that each of the queries answers. */
export type Answers<Q extends readonly Compilable[]> = {
  readonly [K in keyof Q]: Q[K] extends Compilable<infer Row> ? readonly Row[] : never;
};

/**
 * Runs statements in their order, none of which needs the rows of another: on PostgreSQL in one round trip. Each answers with rows: it is
 * a select, or a write with RETURNING. Each sees what was committed before it began, so one that locks a row goes before those that read
 * under the lock.
 */
export const together = <Q extends readonly Compilable[]>(db: Kysely<Tables>, ...queries: Q): Promise<Answers<Q>> =>
  db.getExecutor().provideConnection(async (connection) => {
    const answers = await Promise.all(queries.map((query) => connection.executeQuery(query.compile())));
    return answers.map((answer) => answer.rows) as unknown as Answers<Q>;
  });

/** The same ids, some of them twice: lists of few lengths, so that prepared statements are found again. */
export function ofFewLengths(ids: readonly string[]): readonly string[] {
  const most = 2 ** Math.ceil(Math.log2(ids.length));
  return [...ids, ...Array<string>(most - ids.length).fill(ids[0] ?? '')];
}
