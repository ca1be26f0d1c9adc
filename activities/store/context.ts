/**
 * What the functions of the store work with: the context that a backend opens, the reader of a read, and the one object of a write
 * transaction.
 *
 * Invariants
 * 1. A transaction that lost a conflict, or waited for a lock in vain, has written nothing, and is run again from its beginning until the
 *    caller has waited long enough. What its body keeps outside the transaction must bear that.
 * 2. Every error that leaves the store has been mapped to the catalogue where the backend knows better.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import type { Compilable } from 'kysely';
import { LRUCache } from 'lru-cache';
import type { Card } from '../../workflows/protocol/cards.ts';
import type { ProfileSnapshot } from '../../workflows/protocol/profile.ts';
import type { Admission } from './admission.ts';
import { Outbox } from './log/outbox.ts';
import { inTransaction, onConnection } from './prepared.ts';
import type { Db, HeadRow, Trx } from './schema/rows.ts';

const CACHED_CARD_BYTES = 64 * 1024 * 1024;

/** Makes an empty cache of cards by id, bounded in bytes; the cards that were read last stay. */
export const cardCache = (): LRUCache<string, Card> =>
  new LRUCache({ maxSize: CACHED_CARD_BYTES, sizeCalculation: (card) => card.tokens * 4 + 200 });

/** Profiles that were read, by the hash of their content. */
export type ProfileCache = LRUCache<string, ProfileSnapshot>;

const CACHED_PROFILES = 500;

/** An empty cache of profiles. */
export const profileCache = (): ProfileCache => new LRUCache({ max: CACHED_PROFILES });

/** How a backend says that a transaction needs a lock which another one holds. */
export interface LockedByOthers {
  /** Whether the error says so; nothing was written then. */
  readonly isLocked: (error: unknown) => boolean;
  /** The pause before the next try, ms, after so long a wait. */
  readonly lockedPause: (waitedMs: number) => number;
}

/** What was committed, as far as those who wait for changes care: the end of a turn, chunks alone, or anything else. */
export type Commit = 'turn_ended' | 'chunks' | 'anything';

/** What a backend opens: the database, the clock, the caches, and how its errors are read. */
export interface StoreContext extends LockedByOthers {
  readonly db: Db;
  /** The database over a connection of its own, for reads that go through all rows and may take their time. */
  readonly scanner: Db;
  readonly admission: Admission;
  /** Where the store is, for people: without a password. */
  readonly where: string;
  /** Epoch ms by the store's clock. */
  readonly now: () => number;
  /** Cards are immutable: what was read once need not be read again. */
  readonly cards: LRUCache<string, Card>;
  /** Profiles by the hash of their content, so immutable too. */
  readonly profiles: ProfileCache;
  /** Turns that may wait in one agent's inbox (T10). */
  readonly maxQueuedTurns: number;
  /** Turns a driver's error into a CodedError where it knows better; everything else comes back unchanged. */
  readonly mapError: (error: unknown) => unknown;
  /**
   * Whether the server ended the transaction so that another could go on: it wrote nothing and may be tried again at once. Absent where no
   * server does.
   */
  readonly isConflict?: (error: unknown) => boolean;
  /**
   * Takes a lock that is held to the end of the transaction, so that waits of delegated calls come one at a time. Absent where all writes
   * come one at a time.
   */
  readonly lockWaits?: (trx: Trx) => Promise<void>;
  /**
   * Runs the body in a write transaction, which may be that of others too, and waits for locks until the deadline (`performance.now()`).
   * Absent where each write has a transaction of its own.
   */
  readonly transact?: <T>(deadline: number, body: (trx: Trx) => Promise<T>) => Promise<T>;
  /** Called after each write transaction, for a backend that must tell others itself. */
  readonly committed?: (what: Commit) => void;
}

/** Tries of a transaction that loses conflicts. */
const ATTEMPTS = 4;

/** What a read has: a connection, and what is kept of rows that never change. */
export interface Reader {
  readonly db: Db;
  /** Profiles by content hash. */
  readonly profiles: ProfileCache;
}

/**
 * One write transaction, made once and passed to everything that is part of it. Its `db` is the transaction, and nothing else of the store
 * may be used inside it: that would wait for a place while it holds one.
 */
export interface Tx extends Reader {
  readonly db: Trx;
  /** Epoch ms by the store's clock, taken once the transaction has waited for the locks of its agents: what becomes due is counted from it. */
  readonly now: number;
  /**
   * The time of all that it writes down: `now`, or the last such time of an agent whose head it holds, where a clock was ahead then. Along the
   * log of an agent it never falls.
   */
  readonly at: number;
  /** Takes the times anew, for the transaction has a head now. */
  readonly hold: (head: Pick<HeadRow, 'recorded_at'>) => void;
  /** Turns that may wait in one agent's inbox (T10). */
  readonly maxQueuedTurns: number;
  /** Holds, to the end of the transaction, the lock under which waits of delegated calls come one at a time. */
  readonly lockWaits: () => Promise<void>;
  /** What is written to the log at the end of it. */
  readonly outbox: Outbox;
  /** Last places of boxes whose owner's head row the transaction holds: nobody else appends to them meanwhile. */
  readonly boxEnds: Map<string, number>;
}

/**
 * Runs one write transaction. `names` say what it locks for longer than a statement, mostly an agent: writes of the same name go one after
 * the other (admission.ts). It may lock more besides.
 */
export async function write<T>(
  ctx: StoreContext,
  names: string | readonly string[],
  body: (tx: Tx) => Promise<T>,
): Promise<T> {
  const { admission, db, transact = (_, part) => inTransaction(db, part) } = ctx;
  const { deadline } = admission;
  const begun = ctx.now();
  const transaction = () =>
    transact(deadline, async (trx) => {
      const tx = txOf(ctx, trx, begun);
      return { value: await body(tx), ...(await tx.outbox.flush(trx, tx.at)) };
    });
  // A place is given back between two tries, so that others come to theirs; the names are kept, and with them the order.
  const { value, turnEnded } = await admission.inLine([names].flat(), deadline, () =>
    attempted(ctx, deadline, () => admission.writing(deadline, transaction)),
  );
  ctx.committed?.(turnEnded ? 'turn_ended' : 'anything');
  return value;
}

function txOf({ profiles, maxQueuedTurns, lockWaits, now: clock }: StoreContext, trx: Trx, begun: number): Tx {
  let [now, at] = [begun, begun];
  return {
    db: trx,
    profiles,
    get now() {
      return now;
    },
    get at() {
      return at;
    },
    hold({ recorded_at }) {
      now = clock();
      at = Math.max(at, now, recorded_at);
    },
    maxQueuedTurns,
    lockWaits: async () => lockWaits?.(trx),
    outbox: new Outbox(),
    boxEnds: new Map(),
  };
}

/** Runs a read, which sees what is committed and takes no lock. */
export function read<T>(ctx: StoreContext, body: (reader: Reader) => Promise<T>): Promise<T> {
  const { admission } = ctx;
  const { deadline } = admission;
  return attempted(ctx, deadline, () => admission.reading(deadline, () => body(ctx)));
}

/** Runs a read that goes through all rows: it takes none of the places, and as long as it needs. */
export const scan = <T>(ctx: StoreContext, body: (db: Db) => Promise<T>): Promise<T> =>
  attempted(ctx, ctx.admission.deadline, () => body(ctx.scanner));

/**
 * Runs it again at once after a conflict, and until the deadline while others hold a lock: what it wrote is rolled back, and nothing is
 * left.
 */
async function attempted<T>(ctx: StoreContext, deadline: number, run: () => Promise<T>): Promise<T> {
  for (let attempt = 1; ; attempt += 1) {
    try {
      return await untilUnlocked(ctx, deadline, run);
    } catch (error) {
      if (ctx.admission.closed) throw ctx.admission.closed;
      if (attempt < ATTEMPTS && ctx.isConflict?.(error)) continue;
      throw ctx.mapError(error);
    }
  }
}

/**
 * Runs it again while others hold a lock, until the deadline by `performance.now()`. Errors: those of `run`, that of a lock only in the
 * end.
 */
export async function untilUnlocked<T>(
  { isLocked, lockedPause }: LockedByOthers,
  deadline: number,
  run: () => Promise<T>,
): Promise<T> {
  const startedAt = performance.now();
  for (;;) {
    try {
      return await run();
    } catch (error) {
      if (!isLocked(error) || performance.now() >= deadline) throw error;
      await sleep(lockedPause(performance.now() - startedAt));
    }
  }
}

/** The rows with which each of the queries answers. */
export type Answers<Q extends readonly Compilable[]> = {
  readonly [K in keyof Q]: Q[K] extends Compilable<infer Row> ? readonly Row[] : never;
};

/**
 * Runs statements in their order, none of which needs the rows of another: on PostgreSQL in one round trip. Each answers with rows: it is
 * a select, or a write with RETURNING. Each sees what was committed before it began, so one that locks a row goes before those that read
 * under the lock.
 */
export const together = <Q extends readonly Compilable[]>(db: Db, ...queries: Q): Promise<Answers<Q>> =>
  onConnection(db, async (connection) => {
    const answers = await Promise.all(queries.map((query) => connection.executeQuery(query.compile())));
    return answers.map((answer) => answer.rows) as unknown as Answers<Q>;
  });
