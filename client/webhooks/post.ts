/**
 * One try to tell a receiver.
 *
 * Invariants
 * 1. It has an end, whatever the receiver does, and follows no redirect: a signed message goes nowhere else.
 * 2. Of what the receiver answers, only its status counts, and no more is taken from the wire than keeps the connection in use.
 */

/** A message that is to be sent. */
export interface SignedMessage {
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
}

/** How a try went: null when the receiver has it, or why not, and how long it wants to be left alone. */
export type PostFailure = { readonly error: string; readonly retryAfterMs: number } | null;

/** An answer is read up to there, so that the next message finds the connection open. */
const READ_BYTES = 16 * 1024;

/** Sends a message. `stopping` gives it up. */
export async function post(message: SignedMessage, timeoutMs: number, stopping: AbortSignal): Promise<PostFailure> {
  const { url, headers, body } = message;
  const late = new AbortController();
  const timer = setTimeout(() => late.abort(), timeoutMs);
  try {
    const response = await fetch(url, {
      method: 'POST',
      headers,
      body,
      redirect: 'manual',
      signal: AbortSignal.any([late.signal, stopping]),
    });
    const { status, ok } = response;
    if (ok) await drained(response).catch(() => {});
    else await response.body?.cancel().catch(() => {});
    return ok ? null : { error: `status ${status}`, retryAfterMs: retryAfterOf(response) };
  } catch (error) {
    const reason = late.signal.aborted ? `no answer within ${timeoutMs} ms` : reasonOf(error);
    return { error: reason, retryAfterMs: 0 };
  } finally {
    clearTimeout(timer);
  }
}

async function drained({ body }: Response): Promise<void> {
  if (!body) return;
  let read = 0;
  // The end of the loop gives the rest up.
  for await (const chunk of body) {
    read += chunk.byteLength;
    if (read > READ_BYTES) break;
  }
}

/** Why no answer came, as the system says it: never with what was sent. */
function reasonOf(error: unknown): string {
  const { cause } = error as { readonly cause?: { readonly code?: unknown } };
  return typeof cause?.code === 'string' ? cause.code : 'the request failed';
}

const retryAfterOf = ({ headers }: Response): number => {
  const seconds = Number(headers.get('retry-after') ?? 0);
  return Number.isFinite(seconds) && seconds > 0 ? seconds * 1_000 : 0;
};
