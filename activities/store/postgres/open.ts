/** Opens the store in a PostgreSQL database: for fleets on several machines. */
import { Kysely, PostgresDialect, sql, type Transaction } from 'kysely';
import type { Store } from '../../../workflows/contract/store.ts';
import { CodedError } from '../../../workflows/protocol/failures.ts';
import { SIZES } from '../../../workflows/protocol/sizes.ts';
import { Admission, DEFAULT_WAIT_MS } from '../admission.ts';
import { cardCache, profileCache } from '../context.ts';
import { migrate, type SchemaDialect } from '../schema/migrations.ts';
import type { Tables } from '../schema/rows.ts';
import { createStore } from '../store.ts';
import { ChangeFeed } from './changes.ts';
import { storePool } from './client.ts';
import { ServerClock } from './clock.ts';
import { DEFAULT_CONNECTIONS } from './connections.ts';
import { isConflict, isLocked, mapPostgresError, type StorePlace, waitedInVain } from './errors.ts';
import { openPools, type StorePool } from './pools.ts';
import type { Password } from './server.ts';
import { shownUrl } from './url.ts';

/** One of so many connections is left to reads. */
const LEFT_TO_READS = 10;

/** The advisory lock of the schema; any constant will do, as long as every process uses the same. */
const SCHEMA_LOCK = 4_211_974;

/** The advisory lock under which delegated calls begin to wait. */
const WAITS_LOCK = 4_211_975;

const schema: SchemaDialect = {
  autoId: 'bigserial primary key',
  int: 'bigint',
  lockSchema: (trx) => lock(trx, SCHEMA_LOCK),
  findVersionTable: sql`select 1 where to_regclass('schema_version') is not null`,
};

/** Holds the advisory lock to the end of the transaction. */
async function lock(trx: Transaction<Tables>, key: number): Promise<void> {
  await sql`select pg_advisory_xact_lock(${key})`.execute(trx);
}

/** How a store in PostgreSQL is opened. */
export interface PostgresStoreOptions {
  /** `postgres://user:password@host:port/database`; a schema other than `public` by `?options=-csearch_path%3DNAME`. */
  readonly url: string;
  /** The URL of the same database without the pooler that `url` leads through: over it the process hears of changes at once. */
  readonly direct?: string;
  /** Asked for each new connection, where the URL has no password. */
  readonly password?: Password;
  /** The store's clock, epoch ms; that of the server when left out. */
  readonly now?: () => number;
  /** This machine's clock, which the server's is compared with. */
  readonly machineClock?: () => number;
  /** Turns that may wait in one agent's inbox; 1,000 when left out (T10). */
  readonly maxQueuedTurns?: number;
  /** The most connections of this process; one of them listens while somebody waits for changes, and one more opens the store. */
  readonly connections?: number;
  /** How long a caller waits for locks and connections, ms. */
  readonly waitMs?: number;
  /** Takes a line about what works less well than it should. */
  readonly warn?: (line: string) => void;
}

/** The lines in front of the connections, of which one is kept to listen. */
function admissionTo(place: StorePlace): Admission {
  const { connections, waitMs } = place;
  const places = Math.max(1, connections - 1);
  return new Admission({
    places,
    writes: Math.max(1, places - Math.ceil(connections / LEFT_TO_READS)),
    waitMs,
    inVain: (wait) => waitedInVain(wait, place),
  });
}

const databaseOf = (pool: StorePool): Kysely<Tables> =>
  new Kysely<Tables>({ dialect: new PostgresDialect({ pool: storePool(pool) }) });

const asFailedOpening = (error: unknown, url: string): CodedError =>
  error instanceof CodedError
    ? error
    : new CodedError('store_unavailable', `cannot open the store ${shownUrl(url)}: ${String(error)}`, { cause: error });

/** Opens the store, and makes its tables where they are missing. Errors: `store_unavailable`, naming the server without its password. */
export async function openPostgresStore({
  url,
  direct,
  password,
  now,
  machineClock = Date.now,
  connections = DEFAULT_CONNECTIONS,
  waitMs = DEFAULT_WAIT_MS,
  maxQueuedTurns = SIZES.maxQueuedTurns,
  warn,
}: PostgresStoreOptions): Promise<Store> {
  const place = { url, connections, waitMs };
  const mapError = (error: unknown): unknown => mapPostgresError(error, place);
  const failed = (error: unknown): CodedError => asFailedOpening(mapError(error), url);
  const pools = await openPools({ url, direct, password, connections, warn }).catch((error: unknown) => {
    throw failed(error);
  });
  const db = databaseOf(pools.turns);
  const scanner = databaseOf(pools.scanner);
  const clock = new ServerClock(pools.turns.pool, machineClock);
  const destroy = () => Promise.all([db.destroy(), scanner.destroy()]);
  try {
    await migrate(scanner, schema);
    await clock.start();
  } catch (error) {
    await pools.close(destroy);
    throw failed(error);
  }
  const changes = new ChangeFeed(pools.turns.pool, pools.listening);
  const admission = admissionTo(place);
  return createStore(
    {
      db,
      scanner,
      where: pools.turns.perTransaction ? `${shownUrl(url)} (through a pooler)` : shownUrl(url),
      admission,
      now: now ?? clock.now,
      mapError,
      isConflict,
      isLocked,
      // The server has waited already.
      lockedPause: () => 0,
      maxQueuedTurns,
      cards: cardCache(),
      profiles: profileCache(),
      lockWaits: (trx) => lock(trx, WAITS_LOCK),
      committed: (what) => changes.announce(what),
    },
    {
      changed: (timeoutMs, only) => changes.wait(timeoutMs, only === 'turn_ended'),
      clockAheadMs: () => clock.aheadMs,
      close: () => {
        admission.close(new CodedError('store_unavailable', `the store ${shownUrl(url)} was closed by this process`));
        return pools.close(async () => {
          clock.stop();
          await changes.close();
          await destroy();
        });
      },
    },
  );
}
