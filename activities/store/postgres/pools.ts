/**
 * The connections to the server, and how long anything on them may take. Every wait has an end: a process that stands still in a
 * transaction, a statement that hangs, a server that is frozen and a network that swallows what is sent.
 *
 * An operator who needs other limits names them in the URL, as `?statement_timeout=60000`.
 */
import { Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import { asOptions, directFailure, type Password, pathTo, type Settings, serverOf } from './server.ts';
import { shownUrl } from './url.ts';

/**
 * How long a caller waits for a connection: for the server to answer, or for one of a pool, which the lines in front of it leave empty only
 * for a moment.
 */
const CONNECT_TIMEOUT_MS = 10_000;

/** How long a statement waits for a lock. Shorter than a caller waits, which tries again: meanwhile others have had the connection. */
const LOCK_TIMEOUT_MS = 5_000;

/** How long a statement may take: much longer than anything the store does, and short enough for a server that thrashes. */
const STATEMENT_TIMEOUT_MS = 30_000;

/** A process that was frozen in a transaction holds the locks of its agents for so long, and writes nothing when it wakes. */
const IDLE_IN_TRANSACTION_MS = 10_000;

/** How long a statement may take that goes through all rows, or changes the schema of a large store. */
const SCAN_TIMEOUT_MS = 60 * 60_000;

/** How much later than the server the driver gives a statement up: a frozen server does not end it. */
const ANSWER_MARGIN_MS = 5_000;

/** A connection over which nothing was sent for so long is asked for a sign of life: it may be half open. */
const KEEP_ALIVE_MS = 10_000;

/** How long connections may take to be closed as they should, with what is under way on them; then they are cut. */
const CLOSE_MS = 5_000;

/** How long a connection is kept that has nothing to do: a new one is a new process of the server, and plans each statement of a turn anew. */
const IDLE_MS = 60_000;

/** How long the scanner keeps its connection when it has nothing to do. */
const SCANNER_IDLE_MS = 100;

/** The server's name for the type bigint. */
const INT8_OID = 20;

/**
 * What a transaction runs under. The server finds rows by an index wherever there is one: a statement is planned once for a connection, maybe
 * while its table was nearly empty, and a plan that reads a whole table is no plan for later; only autovacuum would have it made anew. What
 * has no index must not be compiled for it: the server takes such a plan for a very long one.
 */
const TURN_SETTINGS: Settings = {
  lock_timeout: String(LOCK_TIMEOUT_MS),
  statement_timeout: String(STATEMENT_TIMEOUT_MS),
  idle_in_transaction_session_timeout: String(IDLE_IN_TRANSACTION_MS),
  enable_seqscan: 'off',
  jit: 'off',
};

/** The same for the scanner. What a URL limits is meant for what a turn does. */
const SCAN_SETTINGS: Settings = {
  statement_timeout: String(SCAN_TIMEOUT_MS),
  idle_in_transaction_session_timeout: String(IDLE_IN_TRANSACTION_MS),
};

/** How long an answer may take. */
const answered = { query_timeout: STATEMENT_TIMEOUT_MS + ANSWER_MARGIN_MS };

/** How the driver connects. */
const driver = {
  connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
  keepAlive: true,
  keepAliveInitialDelayMillis: KEEP_ALIVE_MS,
  // Counters and epoch ms fit a double; everything else keeps the driver's parser.
  types: {
    getTypeParser: (oid, format) => (oid === INT8_OID ? Number : pg.types.getTypeParser(oid, format)),
  },
} as const satisfies pg.PoolConfig;

/** What a process connects with. */
export interface PoolOptions {
  readonly url: string;
  /** A URL of the same server that leads through no pooler. */
  readonly direct?: string | undefined;
  readonly password?: Password | undefined;
  readonly connections: number;
  /** Takes a line about what works less well than it should. */
  readonly warn?: ((line: string) => void) | undefined;
}

/** The connections of a process. */
export interface Pools {
  readonly turns: StorePool;
  /** A pool of one connection for what may take its time, which is not kept. */
  readonly scanner: StorePool;
  /** Connections that hear of changes; null where a pooler stands before all. */
  readonly listening: pg.Pool | null;
  /** Runs what comes before their end, closes the pools, and cuts the connections that are still there when they should have been closed. */
  close(before?: () => Promise<unknown>): Promise<void>;
}

/** Connections, and what a transaction on them needs. */
export interface StorePool {
  readonly pool: pg.Pool;
  /** What is set anew for each transaction; null where connections start with it. */
  readonly perTransaction: Settings | null;
  /** Whether statements that are prepared on a connection can be used again. */
  readonly keepsPrepared: boolean;
}

/** Makes the pools, which connect when they are first used. Errors: `invalid_config`, and those of the driver. */
export async function openPools({ url, direct, password, connections, warn }: PoolOptions): Promise<Pools> {
  const sockets = new Set<Socket>();
  const stream = () => {
    const socket = new Socket();
    sockets.add(socket);
    return socket.once('close', () => sockets.delete(socket));
  };
  const { config, options, limits } = serverOf(url, password);
  const turn = { ...TURN_SETTINGS, ...options, ...limits };
  const { isPooled, keepsPrepared } = await pathTo({ ...config, ...driver, stream }, turn);
  const poolOf = (settings: Settings, sizes: pg.PoolConfig): StorePool => ({
    pool: new pg.Pool({
      ...config,
      ...driver,
      stream,
      ...sizes,
      ...(isPooled ? {} : { options: asOptions(settings) }),
    }),
    perTransaction: isPooled ? settings : null,
    keepsPrepared,
  });
  const earsAt = async (around: string): Promise<pg.Pool> => {
    const there = { ...serverOf(around, password).config, ...driver, stream };
    const ways = { own: { ...config, ...driver, stream }, direct: there, shown: shownUrl(around) };
    // Who is told nothing connects there only to listen.
    const failure = warn ? await directFailure(ways) : null;
    if (failure !== null)
      warn?.(`AGENTTURN_STORE_DIRECT is not used, and changes are asked for until it can be: ${failure}`);
    // An idle connection that breaks is replaced on the next use; without a listener it would end the process.
    return new pg.Pool({ ...there, ...answered, max: 1 }).on('error', () => {});
  };
  const ears = direct === undefined ? null : await earsAt(direct);
  const turns = poolOf(turn, {
    max: connections,
    idleTimeoutMillis: IDLE_MS,
    query_timeout: Number(config.query_timeout ?? answered.query_timeout),
  });
  const scanner = poolOf(
    { ...SCAN_SETTINGS, ...options },
    { max: 1, idleTimeoutMillis: SCANNER_IDLE_MS, query_timeout: SCAN_TIMEOUT_MS + ANSWER_MARGIN_MS },
  );
  const pools = [turns.pool, scanner.pool, ...(ears ? [ears] : [])];
  return {
    turns,
    scanner,
    listening: ears ?? (isPooled ? null : turns.pool),
    async close(before) {
      const closed = new AbortController();
      const cut = sleep(CLOSE_MS, undefined, { signal: closed.signal }).then(
        () => {
          for (const socket of sockets) socket.destroy();
        },
        () => {},
      );
      try {
        await before?.();
        await Promise.all(pools.filter(({ ending }) => !ending).map((pool) => pool.end()));
      } finally {
        closed.abort();
        await cut;
        // The driver does not wait for the server's goodbye, and neither does the end of the process.
        for (const socket of sockets) socket.unref();
      }
    },
  };
}
