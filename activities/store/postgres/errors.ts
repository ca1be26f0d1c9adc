/** PostgreSQL's SQLSTATEs and the driver's connection errors, as codes of the catalogue. */
import { CodedError } from '../../../workflows/protocol/failures.ts';

/** Classes that mean "not now": connection, resources, intervention, serialisation, deadlock, read-only standby. */
const PASSING = /^(08|53|57|40|25006)/;
const CONNECTION = /^(ECONNREFUSED|ECONNRESET|EPIPE|ENOTFOUND|ETIMEDOUT|EAI_AGAIN)$/;
/** Wrong password, no such role, no such database: an operator must act, but the store may well come back. */
const REFUSED = /^(28|3D)/;

export function mapPostgresError(error: unknown, url: string): unknown {
  if (!(error instanceof Error) || error instanceof CodedError) return error;
  const code = 'code' in error && typeof error.code === 'string' ? error.code : '';
  const lost =
    /Connection terminated|connection error and is not queryable|timeout exceeded when trying to connect/.test(
      error.message,
    );
  if (!lost && !PASSING.test(code) && !CONNECTION.test(code) && !REFUSED.test(code)) return error;
  const cure = REFUSED.test(code)
    ? 'check user, password and database in AGENTTURN_STORE'
    : 'check that the server is up';
  const message = `the store ${withoutPassword(url)} does not answer (${code || error.message}); ${cure}`;
  return new CodedError('store_unavailable', message, { cause: error });
}

export function withoutPassword(url: string): string {
  try {
    const parsed = new URL(url);
    parsed.password = '';
    return parsed.href;
  } catch {
    return 'postgres://(malformed URL)';
  }
}
