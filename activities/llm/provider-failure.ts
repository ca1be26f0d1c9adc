/**
 * What the provider's errors mean (W14).
 *
 * Invariant: no word of the provider leaves for Temporal, where it would stay in the history: it may echo the key or the prompt.
 */
import { APIConnectionError, APIConnectionTimeoutError, APIError, APIUserAbortError } from 'openai';
import { CodedError } from '../../workflows/protocol/failures.ts';
import { causesOf, describeError, type RetryHint } from '../failure.ts';
import { saysRefused, saysTooLong } from './provider-words.ts';
import { StreamFailure } from './stream-guard.ts';

/** A failure of the provider in our words, and what it said itself. */
export interface ProviderFailure {
  /** `provider_auth`, `provider_refusal`, `context_overflow` or `provider_error`. */
  readonly error: CodedError;
  readonly hint: RetryHint;
  /** Whether it refused the request (400) and did not say why in words that we know. */
  readonly isUnknown: boolean;
  /** The words of the provider, secrets included: for `redact`, and for the worker's log alone. */
  readonly said: string;
}

/** What an error of a model call says about the provider; null when the error is none of the provider's. */
export function providerFailure(error: unknown): ProviderFailure | null {
  if (!(error instanceof APIError) || error instanceof APIUserAbortError) return null;
  const said = [error, ...causesOf(error)].map(describeError).join(': ');
  return { ...meaningOf(error), said };
}

/**
 * What may pass, or an operator can mend while the turn waits: time-outs, conflicts, rates, and 402, a balance that is used up. All other
 * statuses below 500 are the request's own fault.
 */
const MENDED_OUTSIDE: ReadonlySet<number> = new Set([402, 408, 409, 429]);

function meaningOf(error: APIError): Omit<ProviderFailure, 'said'> {
  const { status } = error;
  // Asked first: some refuse a prompt by the status that is others' word for a bad key.
  if (saysRefused(error)) {
    const message = `the model provider refused the prompt for what it says (${answered(error)})`;
    return { error: new CodedError('provider_refusal', message), hint: { nonRetryable: true }, isUnknown: false };
  }
  if (status === 401 || status === 403) {
    const message = `the model provider refused the credentials (${answered(error)}): set a valid OPENAI_API_KEY for the worker`;
    return { error: new CodedError('provider_auth', message), hint: { nonRetryable: true }, isUnknown: false };
  }
  if (saysTooLong(error)) {
    const message = `the prompt is longer than the model takes (${answered(error)})`;
    return { error: new CodedError('context_overflow', message), hint: { nonRetryable: true }, isUnknown: false };
  }
  const transient = status === undefined || status >= 500 || MENDED_OUTSIDE.has(status);
  const message =
    error instanceof APIConnectionError
      ? `cannot reach the model (${whyUnreached(error)}); check OPENAI_BASE_URL`
      : `the model provider failed (${answered(error)}): ${cureOf(status)}; its own words are in the worker's log`;
  return {
    error: new CodedError('provider_error', message),
    hint: { nonRetryable: !transient, retryAfterMs: transient ? retryAfterMs(error.headers) : undefined },
    isUnknown: status === 400,
  };
}

/** A code of a protocol, such as `rate_limit_exceeded`: it has no digits, and keys do. */
const PLAIN_WORD = /^[a-z]+(?:[._][a-z]+){0,6}$/i;
/** Characters of a code that is repeated. */
const MOST_CHARACTERS = 48;

/** The status of the answer, and the provider's code or type where that is a plain word. */
function answered({ status, code, type }: APIError): string {
  const word = [code, type].find(
    (name) => typeof name === 'string' && name.length <= MOST_CHARACTERS && PLAIN_WORD.test(name),
  );
  return [status ?? 'in the middle of the stream', ...(word ? [word] : [])].join(', ');
}

function cureOf(status: number | undefined): string {
  if (status === 404) return 'check the name of the model and OPENAI_BASE_URL';
  if (status === 402) return 'the balance of the account is used up: pay, and the turn goes on by itself';
  if (status === 429) return 'its rate limit or the quota of the account is used up';
  if (status === undefined || status >= 500) return 'check its status page';
  return 'it does not take this request';
}

/** Why there was no connection, as the platform's code says it. */
function whyUnreached(error: APIConnectionError): string {
  const code = causesOf(error)
    .map((cause) => (cause instanceof Error && 'code' in cause ? cause.code : undefined))
    .find((found) => typeof found === 'string' && /^[A-Z_]{1,48}$/.test(found));
  const failure = [error, ...causesOf(error)].find((cause) => cause instanceof StreamFailure);
  const what =
    failure instanceof StreamFailure
      ? [failure.message]
      : error instanceof APIConnectionTimeoutError
        ? ['it timed out']
        : [];
  const parts = [...what, ...(typeof code === 'string' ? [code] : [])];
  return parts.length > 0 ? parts.join(', ') : 'the connection failed';
}

/**
 * How long the provider asks to wait, in ms, an hour at most: by its header `retry-after-ms`, or `retry-after` in seconds or as a date. Undefined
 * when it asks for nothing, which is what no time at all means.
 */
function retryAfterMs(headers: Headers | undefined): number | undefined {
  const value = headers?.get('retry-after');
  const ms = Number(headers?.get('retry-after-ms'));
  const seconds = Number(value);
  const until = value ? Date.parse(value) - Date.now() : Number.NaN;
  const delay = [ms, seconds * 1000, until].find((candidate) => Number.isFinite(candidate) && candidate > 0);
  return delay === undefined ? undefined : Math.min(Math.round(delay), 3_600_000);
}
