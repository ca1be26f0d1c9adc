/**
 * How a process reaches the server, and what its transactions run under.
 *
 * Settings reach the server with the start of a connection. A pooler refuses or forgets them there, and what is set for a session would hold
 * for others: behind one, each transaction begins with a statement that sets them for itself alone.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { isDeepStrictEqual } from 'node:util';
import { isNativeError } from 'node:util/types';
import pg from 'pg';
import { parse, toClientConfig } from 'pg-connection-string';
import { CodedError } from '../../../workflows/protocol/failures.ts';
import { isForgotten, isRefused } from './errors.ts';
import { shownUrl } from './url.ts';

/** Settings of the server, by their names. */
export type Settings = Readonly<Record<string, string>>;

/** The password of a new connection, for one that changes at run time. */
export type Password = () => string | Promise<string>;

/** The limits that a URL may name as parameters, each a setting of the server. */
const LIMITS = ['lock_timeout', 'statement_timeout', 'idle_in_transaction_session_timeout'];

/** A server that a URL names. */
export interface Server {
  /** For the driver: where it is, who connects, TLS. */
  readonly config: pg.ClientConfig;
  /** What the URL's `options` set. */
  readonly options: Settings;
  /** The limits that the URL names. */
  readonly limits: Settings;
}

/** Reads a URL, whose `sslmode` means what it means to libpq. Errors: `invalid_config`, without the password. */
export function serverOf(url: string, password?: Password): Server {
  try {
    const named = Object.entries(toClientConfig(parse(url.replace(COMPATIBLE, '$1'), { useLibpqCompat: true })));
    const limits = named.filter(([name]) => LIMITS.includes(name));
    const { options, ...config } = Object.fromEntries(named.filter((parameter) => !limits.includes(parameter)));
    if (password && !config.password) config.password = orUnavailable(password, url);
    return {
      config,
      options: settingsIn(String(options ?? '')),
      limits: Object.fromEntries(limits.map(([name, value]) => [name, String(value)])),
    };
  } catch (error) {
    const reason = isNativeError(error) ? error.message : String(error);
    throw new CodedError('invalid_config', `the store's URL ${shownUrl(url)} cannot be used: ${reason}`, {
      cause: error,
    });
  }
}

/** A password that cannot be had now is waited for, as a server that is away. */
const orUnavailable =
  (password: Password, url: string): Password =>
  async () => {
    try {
      return await password();
    } catch (error) {
      const message = `the password of the store ${shownUrl(url)} cannot be had: ${String(error)}`;
      throw new CodedError('store_unavailable', message, { cause: error });
    }
  };

/** The URL's word for what is asked of the parser anyway. */
const COMPATIBLE = /([?&])uselibpqcompat=[^&]*&?/;

/** A setting as `options` has it: `-c name=value`, `-cname=value` or `--name=value`. */
const SETTING = /^(?:-c\s*|--)([\w.-]+)=(.*)$/s;

/** The settings in the `options` of a URL, which are those of the server's command line. Errors: an option of another kind. */
function settingsIn(options: string): Settings {
  const words = options.replace(/(^|\s)-c\s+/g, '$1-c').match(/(?:\\.|[^\s\\])+/gs) ?? [];
  const settings: Record<string, string> = {};
  for (const word of words) {
    const [, name, value] = SETTING.exec(word) ?? [];
    if (name === undefined || value === undefined) throw new Error(`options has "${word}", expected -c NAME=VALUE`);
    settings[name.replaceAll('-', '_')] = value.replace(/\\(.)/gs, '$1');
  }
  return settings;
}

/** Settings as `options` of a connection that is started with them. */
export const asOptions = (settings: Settings): string =>
  Object.entries(settings)
    .map(([name, value]) => `-c ${name}=${value.replace(/[\s\\]/g, '\\$&')}`)
    .join(' ');

/** A statement that sets them for the transaction that it is part of. */
export const asStatement = (settings: Settings): string =>
  `select ${Object.entries(settings)
    .map(([name, value]) => `set_config(${pg.escapeLiteral(name)}, ${pg.escapeLiteral(value)}, true)`)
    .join(', ')}`;

/**
 * Whether something stands between this connection and the server: the driver was told of another process than the one that answers, or the
 * settings that it started with did not arrive.
 */
export async function isPooled(client: pg.ClientBase, settings: Settings = {}): Promise<boolean> {
  const known: object = client;
  const pid = 'processID' in known ? Number(known.processID) : 0;
  const arrived = Object.entries(settings).map(
    ([name, value]) =>
      `current_setting(${pg.escapeLiteral(name)}) = set_config(${pg.escapeLiteral(name)}, ${pg.escapeLiteral(value)}, true)`,
  );
  const isDirect = [`pg_backend_pid() = ${pid}`, ...arrived].join(' and ');
  const { rows } = await client.query<{ direct: boolean }>(`select ${isDirect} as direct`);
  return rows[0]?.direct !== true;
}

/** What stands between a process and the server. */
export interface Path {
  readonly isPooled: boolean;
  /** Whether a connection knows what was prepared on it, whichever connection of the server it has. */
  readonly keepsPrepared: boolean;
}

/** How long a server may take to say what it is asked here, and to close a connection. */
const ANSWER_MS = 10_000;
const GOODBYE_MS = 1_000;

const DIRECT: Path = { isPooled: false, keepsPrepared: true };

/** A pooler's word for a setting that it does not pass on. */
const REFUSED = /unsupported startup parameter/;

/** What stands before the server, as a connection shows that starts with these settings. Errors: those of the driver. */
export async function pathTo(config: pg.ClientConfig, settings: Settings): Promise<Path> {
  const start = { ...config, options: asOptions(settings) };
  try {
    if (!(await connected(start, (client) => isPooled(client, settings)))) return DIRECT;
  } catch (error) {
    if (!(isNativeError(error) && REFUSED.test(error.message))) throw error;
  }
  return { isPooled: true, keepsPrepared: await connected(config, keepsPrepared) };
}

/** A database, whatever names its server has. */
export interface DatabaseIdentity {
  readonly name: string;
  /** When its server started, which tells two servers apart. */
  readonly since: string;
}

/** Which database a connection, or one of a pool, leads to. Errors: those of the driver. */
export async function databaseOf(client: Pick<pg.ClientBase, 'query'>): Promise<DatabaseIdentity> {
  const asked = `select current_database() as name, extract(epoch from pg_postmaster_start_time())::text as since`;
  const { rows } = await client.query<DatabaseIdentity>(asked);
  const [{ name, since } = { name: '', since: '' }] = rows;
  return { name, since };
}

/** Two ways to the same database. */
export interface Ways {
  readonly own: pg.ClientConfig;
  readonly direct: pg.ClientConfig;
  /** The URL of `direct` without its password. */
  readonly shown: string;
}

/**
 * Why the direct way cannot be listened on now; null where it can. Errors: `invalid_config` where it can never be, because it leads to another
 * database or refuses this process; those of the driver on the way of its own.
 */
export async function directFailure({ own, direct, shown }: Ways): Promise<string | null> {
  const here = await connected(own, databaseOf);
  const wrong = (why: string) => new CodedError('invalid_config', `AGENTTURN_STORE_DIRECT, which is ${shown}, ${why}`);
  const there = await connected(direct, databaseOf).catch((error: unknown) => {
    if (isRefused(error)) throw wrong(`refuses this process: ${error.message}`);
    return isNativeError(error) ? error.message : String(error);
  });
  if (typeof there === 'string') return `it cannot be reached: ${there}`;
  if (there.name !== here.name) throw wrong(`leads to the database ${there.name}, and the store is in ${here.name}`);
  // While a failover is under way one of the two may still lead to the server before.
  return isDeepStrictEqual(here, there) ? null : 'it leads to another server than the URL of the store';
}

async function connected<T>(config: pg.ClientConfig, body: (client: pg.Client) => Promise<T>): Promise<T> {
  const client = new pg.Client({ ...config, query_timeout: ANSWER_MS });
  // One that breaks fails what waits for it.
  client.on('error', () => {});
  try {
    await client.connect();
    return await body(client);
  } finally {
    // A server that stands still does not say goodbye.
    await Promise.race([client.end().catch(() => {}), sleep(GOODBYE_MS, undefined, { ref: false })]);
    client.connection.stream.destroy();
  }
}

const PROBE = 'agentturn_probe';

/**
 * Whether a pooler keeps prepared statements. One that does has names of its own for them; to one that does not, the server knows them by
 * ours, and on the next connection by none.
 */
async function keepsPrepared(client: pg.Client): Promise<boolean> {
  await client.query('begin');
  try {
    await client.query({ name: PROBE, text: 'select 1' });
    const { rows } = await client.query(`select 1 from pg_prepared_statements where name = '${PROBE}'`);
    if (rows.length > 0) await client.query(`deallocate ${PROBE}`);
    return rows.length === 0;
  } catch (error) {
    if (isForgotten(error)) return false;
    throw error;
  } finally {
    await client.query('rollback');
  }
}
