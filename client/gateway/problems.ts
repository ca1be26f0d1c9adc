/** Errors on the wire: RFC 9457 problems with the codes of the catalogue. */
import { CodedError, FAILURES, type FailureCode } from '../../workflows/protocol/failures.ts';

/** The statuses of codes; that of every other code is 500. */
const STATUS: Partial<Record<FailureCode, number>> = {
  invalid_input: 400,
  invalid_request: 400,
  unauthenticated: 401,
  permission_denied: 403,
  not_found: 404,
  agent_not_found: 404,
  turn_not_found: 404,
  call_not_found: 404,
  callback_unknown: 404,
  trigger_unknown: 404,
  callbacks_not_configured: 404,
  method_not_allowed: 405,
  agent_busy: 409,
  agent_stopped: 409,
  budget_refused: 409,
  call_answered: 409,
  turn_ended: 409,
  idempotency_conflict: 409,
  payload_too_large: 413,
  unsupported_media_type: 415,
  approval_refused: 422,
  box_unavailable: 422,
  profile_not_found: 422,
  inbox_full: 429,
  too_many_requests: 429,
  store_locked: 503,
  store_unavailable: 503,
  temporal_unreachable: 503,
  namespace_not_found: 503,
  store_mismatch: 503,
};

/** An error as it goes out. */
export interface Problem {
  /** A URI of the code. */
  readonly type: string;
  /** What the catalogue says has happened. */
  readonly title: string;
  readonly status: number;
  /** What was expected, what came, and what to do. */
  readonly detail: string;
  readonly code: FailureCode;
  /** Whether the same request may succeed later. */
  readonly retryable: boolean;
  readonly cure: string;
}

const PROBLEM_TYPE = 'https://agentturn.dev/errors/';

/** How long a caller waits before it repeats what may succeed later, in seconds. */
const RETRY_AFTER_S = 5;

/** An error of the catalogue as a problem; any other is told without its words, which are for the log. */
export function problemOf(error: unknown): Problem {
  const code = error instanceof CodedError ? error.code : 'internal_error';
  const { message: title, retryable } = FAILURES[code];
  const detail = error instanceof CodedError ? error.message : 'the gateway failed; its log has more';
  const cure = error instanceof CodedError ? error.cure : FAILURES[code].cure;
  return { type: `${PROBLEM_TYPE}${code}`, title, status: STATUS[code] ?? 500, detail, code, retryable, cure };
}

/** The response that tells of an error; `retryAfterS` is how long to wait where that is known. */
export function problemResponse(error: unknown, retryAfterS = RETRY_AFTER_S): Response {
  const problem = problemOf(error);
  const { status, code } = problem;
  return new Response(JSON.stringify(problem), {
    status,
    headers: {
      'content-type': 'application/problem+json',
      ...(status === 401 ? { 'www-authenticate': 'Bearer realm="agentturn"' } : {}),
      // What of the body was not read stands in the way of another request.
      ...(status === 413 ? { connection: 'close' } : {}),
      ...(status === 503 || code === 'too_many_requests' ? { 'retry-after': String(retryAfterS) } : {}),
    },
  });
}
