/** What every store function gets: the database, the clock, and how the backend's errors map to the catalogue. */
import type { Kysely, Transaction } from 'kysely';
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
  /** Whether a transaction was chosen to give way to another one, and may be tried again at once. Absent where none ever is. */
  readonly isConflict?: (error: unknown) => boolean;
  /** Held to the end of the transaction: waits of delegated calls come one at a time. Absent where all writes do. */
  readonly lockWaits?: (trx: Trx) => Promise<void>;
  /** Called after each write transaction, for a backend that must tell others itself. */
  readonly committed?: () => void;
}

const ATTEMPTS = 4;

/** One write transaction. Inside it only `trx` may be used: `db` would wait for the connection the transaction holds. */
export async function write<T>(ctx: StoreContext, body: (trx: Trx) => Promise<T>): Promise<T> {
  for (let attempt = 1; ; attempt += 1) {
    try {
      const result = await ctx.db.transaction().execute(async (trx) => {
        const value = await body(trx);
        await flushOutbox(trx);
        return value;
      });
      ctx.committed?.();
      return result;
    } catch (error) {
      // It was rolled back for the sake of another one, and nothing of it is left.
      if (attempt < ATTEMPTS && ctx.isConflict?.(error)) continue;
      throw ctx.mapError(error);
    }
  }
}

export async function read<T>(ctx: StoreContext, body: (db: Kysely<Tables>) => Promise<T>): Promise<T> {
  try {
    return await body(ctx.db);
  } catch (error) {
    throw ctx.mapError(error);
  }
}
