/**
 * The connections to the server, and how long anything on them may take. Every wait has an end: a process that stands still in a
 * transaction, a statement that hangs, a server that is frozen and a network that swallows what is sent.
 *
 * An operator who needs other limits names them in the URL, as `?statement_timeout=60000`.
 */
import { Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';

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

/** Settings of all connections. */
const settings = {
  connectionTimeoutMillis: CONNECT_TIMEOUT_MS,
  idle_in_transaction_session_timeout: IDLE_IN_TRANSACTION_MS,
  keepAlive: true,
  keepAliveInitialDelayMillis: KEEP_ALIVE_MS,
  // Counters and epoch ms fit a double; everything else keeps the driver's parser.
  types: {
    getTypeParser: (oid, format) => (oid === INT8_OID ? Number : pg.types.getTypeParser(oid, format)),
  },
} as const satisfies pg.PoolConfig;

/** Names of limits in a URL. */
const LIMITS = ['lock_timeout', 'statement_timeout', 'query_timeout'];

/** The URL without the limits that it names: those are meant for what a turn does, not for the scanner. */
function withoutLimits(url: string): string {
  if (!URL.canParse(url)) return url;
  const parsed = new URL(url);
  for (const name of LIMITS) parsed.searchParams.delete(name);
  return parsed.href;
}

const BY_INDEX = { text: 'set enable_seqscan = off; set jit = off', query_timeout: CONNECT_TIMEOUT_MS };

/**
 * Has the server find rows by an index wherever there is one. A statement is planned once for a connection, maybe while its table was nearly
 * empty: a plan that reads a whole table is no plan for later, and only autovacuum would have it made anew. What has no index must not be
 * compiled for it: the server takes such a plan for a very long one.
 */
const byIndex = (client: pg.ClientBase) => client.query(BY_INDEX);

/** The connections of a process. */
export interface Pools {
  readonly pool: pg.Pool;
  /** A pool of one connection for what may take its time, which is not kept. */
  readonly scanner: pg.Pool;
  /** Runs what closes the pools, and cuts the connections that are still there when they should have been closed. */
  closing(close: () => Promise<unknown>): Promise<void>;
}

/** Makes the pools, which connect when they are first used. */
export function openPools(url: string, connections: number): Pools {
  const sockets = new Set<Socket>();
  const stream = () => {
    const socket = new Socket();
    sockets.add(socket);
    return socket.once('close', () => sockets.delete(socket));
  };
  const common = { ...settings, connectionString: url, stream };
  const pool = new pg.Pool({
    ...common,
    onConnect: byIndex,
    max: connections,
    idleTimeoutMillis: IDLE_MS,
    lock_timeout: LOCK_TIMEOUT_MS,
    statement_timeout: STATEMENT_TIMEOUT_MS,
    query_timeout: STATEMENT_TIMEOUT_MS + ANSWER_MARGIN_MS,
  });
  const scanner = new pg.Pool({
    ...common,
    connectionString: withoutLimits(url),
    max: 1,
    idleTimeoutMillis: SCANNER_IDLE_MS,
    statement_timeout: SCAN_TIMEOUT_MS,
    query_timeout: SCAN_TIMEOUT_MS + ANSWER_MARGIN_MS,
  });
  return {
    pool,
    scanner,
    async closing(close) {
      const closed = new AbortController();
      const cut = sleep(CLOSE_MS, undefined, { signal: closed.signal }).then(
        () => {
          for (const socket of sockets) socket.destroy();
        },
        () => {},
      );
      try {
        await close();
      } finally {
        closed.abort();
        await cut;
        // The driver does not wait for the server's goodbye, and neither does the end of the process.
        for (const socket of sockets) socket.unref();
      }
    },
  };
}
