/** PostgreSQL's SQLSTATEs and the driver's connection errors, as codes of the catalogue. */
import { isNativeError } from 'node:util/types';
import { CodedError } from '../../../workflows/protocol/failures.ts';
import type { VainWait } from '../admission.ts';
import { shownUrl } from './url.ts';

/** SQLSTATEs that mean "not now": connection, resources, intervention, serialisation, deadlock, read-only standby. */
const PASSING = /^(08|53|57|58|XX|40|25006)/;
/** Codes of the operating system for a server that cannot be reached. */
const CONNECTION =
  /^(ECONNREFUSED|ECONNRESET|ECONNABORTED|EPIPE|ENOTFOUND|ETIMEDOUT|EAI_AGAIN|EHOSTUNREACH|EHOSTDOWN|ENETUNREACH|ENETDOWN)$/;
/** The driver's words where it has no code: for a statement under way, for the next one on a connection that is gone, and for no answer. */
const LOST = /Connection terminated|is not queryable|^Query read timeout$/;
/** Wrong password, no such role, no such database: an operator must act, but the store may well come back. */
const REFUSED = /^(28|3D)/;

/** TLS that cannot be agreed on: Node's codes, and the driver's words for a server that speaks none. */
const UNTRUSTED = /CERT|SIGNATURE|^ERR_(?:TLS|SSL)/;
const NO_TLS = /does not support SSL/;

/** The server takes no more connections, also where other processes hold them. */
const SERVER_FULL = '53300';
/** The server waited for a lock until `lock_timeout`. */
const LOCK_TIMEOUT = '55P03';
/** The server broke off a statement, mostly after `statement_timeout`. */
const CANCELED = '57014';
/** A transaction was idle, or open, for too long: the server has ended it with its connection. */
const STOOD_STILL = /^25P0[34]$/;

/** The pool's words for a caller that waited for a connection in vain; those for a server that does not answer are others. */
const POOL_EMPTY = /^timeout exceeded when trying to connect$/;

/** The store that an error is about. */
export interface StorePlace {
  readonly url: string;
  readonly connections: number;
  /** How long a caller waits for a lock or for a connection. */
  readonly waitMs: number;
}

/** The error as a code of the catalogue where it says that the store is away or locked; unchanged otherwise. */
export function mapPostgresError(error: unknown, place: StorePlace): unknown {
  // Not `instanceof Error`: the driver's may be of another realm.
  if (!isNativeError(error) || error instanceof CodedError) return error;
  const code = codeOf(error);
  const cause = { cause: error };
  const store = `the store ${shownUrl(place.url)}`;
  if (code === LOCK_TIMEOUT) {
    const message = `waited ${seconds(place.waitMs)} for rows in ${store} that another transaction has locked; ${WHO_LOCKS}`;
    return new CodedError('store_locked', message, cause);
  }
  if (POOL_EMPTY.test(error.message)) return new CodedError('store_unavailable', allBusy(place), cause);
  if (STOOD_STILL.test(code)) {
    const message =
      `${store} ended a transaction in which this process stood still, frozen or without processor time (${code}): ` +
      'nothing of it was written; try again';
    return new CodedError('store_unavailable', message, cause);
  }
  if (code === CANCELED) {
    const message = `${store} broke off a statement (${error.message}); see what the server is busy with (pg_stat_activity), then try again`;
    return new CodedError('store_unavailable', message, cause);
  }
  if (UNTRUSTED.test(code) || NO_TLS.test(error.message)) {
    const message = `${store} cannot be reached by TLS (${error.message}); check sslmode, sslrootcert and the name of the host in its URL`;
    return new CodedError('store_unavailable', message, cause);
  }
  if (!isLost(error) && !PASSING.test(code) && !CONNECTION.test(code) && !REFUSED.test(code)) return error;
  const message = `${store} does not answer (${code || error.message}); ${cureOf(code)}`;
  return new CodedError('store_unavailable', message, cause);
}

/** The error of a caller that stood in a line of this process until its time was up. */
export function waitedInVain({ name, others, waitMs }: VainWait, place: StorePlace): CodedError {
  if (name === null) return new CodedError('store_unavailable', allBusy(place));
  const message =
    `waited ${seconds(waitMs)} behind ${others} other writes of this process for ${name} to the store ${shownUrl(place.url)}, ` +
    `which is slow or has its rows locked; ${WHO_LOCKS}`;
  return new CodedError('store_locked', message);
}

const WHO_LOCKS =
  'a process that stands still loses its lock by itself after some seconds; end any other that holds one (pg_stat_activity, pg_blocking_pids), then try again';

const allBusy = ({ url, connections, waitMs }: StorePlace): string =>
  `all ${connections} connections of this process to the store ${shownUrl(url)} were busy for ${seconds(waitMs)}; ` +
  'the server is slow, or the process needs more of them: AGENTTURN_STORE_CONNECTIONS';

const seconds = (ms: number): string => `${ms / 1_000} s`;

function cureOf(code: string): string {
  if (REFUSED.test(code)) return 'check user, password and database in AGENTTURN_STORE';
  if (code === SERVER_FULL) return "raise the server's max_connections, or lower AGENTTURN_STORE_CONNECTIONS";
  return 'check that the server is up';
}

const codeOf = (error: Error): string => ('code' in error && typeof error.code === 'string' ? error.code : '');

/** Whether the driver says only that the connection is gone, not why. */
export const isLost = (error: unknown): boolean => isNativeError(error) && LOST.test(error.message);

/** Whether nothing more can be asked on the connection: it is gone, or the server closes it with this error. */
export const endsConnection = (error: unknown): boolean =>
  isLost(error) || (isNativeError(error) && 'severity' in error && /^(?:FATAL|PANIC)$/.test(String(error.severity)));

/** Classes of codes: the credentials are not taken, and there is no such database. */
const REFUSALS = /^(?:28|3D)/;

/** Whether the server answered, and lets nobody in by this URL. */
export const isRefused = (error: unknown): error is Error =>
  isNativeError(error) && REFUSALS.test(String(codeOf(error)));

/** Whether a lock could not be had in time: the transaction has written nothing. */
export const isLocked = (error: unknown): boolean => isNativeError(error) && codeOf(error) === LOCK_TIMEOUT;

/** Codes of a deadlock and of a serialisation failure: the server ended the transaction so that others can go on. */
const GIVEN_WAY: readonly unknown[] = ['40P01', '40001'];

/** Whether the transaction may be tried again at once. */
export const isConflict = (error: unknown): boolean =>
  isOutdatedPlan(error) || isForgotten(error) || (isNativeError(error) && GIVEN_WAY.includes(codeOf(error)));

/** A statement that was prepared is not known, or one of its name is. */
const FORGOTTEN: readonly unknown[] = ['26000', '42P05'];

/** Whether the connection does not keep what it prepares: a pooler gives each transaction another connection of the server. */
export const isForgotten = (error: unknown): boolean => isNativeError(error) && FORGOTTEN.includes(codeOf(error));

/** Whether a statement was prepared before another process changed the schema; the server has one code for all that it does not support. */
export const isOutdatedPlan = (error: unknown): boolean =>
  isNativeError(error) && codeOf(error) === '0A000' && error.message.startsWith('cached plan');
