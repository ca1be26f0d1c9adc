/** PostgreSQL's SQLSTATEs and the driver's connection errors, as codes of the catalogue. */
import { isNativeError } from 'node:util/types';
import { CodedError } from '../../../workflows/protocol/failures.ts';

/** Classes that mean "not now": connection, resources, intervention, serialisation, deadlock, read-only standby. */
const PASSING = /^(08|53|57|40|25006)/;
const CONNECTION = /^(ECONNREFUSED|ECONNRESET|EPIPE|ENOTFOUND|ETIMEDOUT|EAI_AGAIN)$/;
/** The driver's words, without a code: for a statement under way, and for the next one on a connection that is gone. */
const LOST = /Connection terminated|is not queryable/;
/** Wrong password, no such role, no such database: an operator must act, but the store may well come back. */
const REFUSED = /^(28|3D)/;

/** The server takes no more connections, whoever holds them. */
const SERVER_FULL = '53300';

/** The pool's words for a caller that waited for a connection in vain; those for a server that does not answer are others. */
const POOL_EMPTY = /^timeout exceeded when trying to connect$/;

export interface Pool {
  readonly url: string;
  readonly connections: number;
  readonly waitMs: number;
}

export function mapPostgresError(error: unknown, { url, connections, waitMs }: Pool): unknown {
  // Not `instanceof Error`: the driver's may be of another realm.
  if (!isNativeError(error) || error instanceof CodedError) return error;
  const code = 'code' in error && typeof error.code === 'string' ? error.code : '';
  if (POOL_EMPTY.test(error.message)) {
    const message =
      `all ${connections} connections of this process to the store ${withoutPassword(url)} were busy for ${waitMs / 1_000} s; ` +
      'the server is slow, or the process needs more of them: AGENTTURN_STORE_CONNECTIONS';
    return new CodedError('store_unavailable', message, { cause: error });
  }
  const lost = LOST.test(error.message);
  if (!lost && !PASSING.test(code) && !CONNECTION.test(code) && !REFUSED.test(code)) return error;
  const message = `the store ${withoutPassword(url)} does not answer (${code || error.message}); ${cureOf(code)}`;
  return new CodedError('store_unavailable', message, { cause: error });
}

function cureOf(code: string): string {
  if (REFUSED.test(code)) return 'check user, password and database in AGENTTURN_STORE';
  if (code === SERVER_FULL) return "raise the server's max_connections, or lower AGENTTURN_STORE_CONNECTIONS";
  return 'check that the server is up';
}

/** A deadlock, or a serialisation failure: the server ended this transaction so that others can go on. */
const GIVEN_WAY: readonly unknown[] = ['40P01', '40001'];

/** Whether the transaction may be tried again at once. */
export const isConflict = (error: unknown): boolean =>
  isOutdatedPlan(error) || (isNativeError(error) && 'code' in error && GIVEN_WAY.includes(error.code));

/** A statement was prepared before another process changed the schema; the server has one code for all it does not support. */
export const isOutdatedPlan = (error: unknown): boolean =>
  isNativeError(error) && 'code' in error && error.code === '0A000' && error.message.startsWith('cached plan');

export function withoutPassword(url: string): string {
  try {
    const parsed = new URL(url);
    parsed.password = '';
    return parsed.href;
  } catch {
    return 'postgres://(malformed URL)';
  }
}
