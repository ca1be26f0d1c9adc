/** What bounds the time of one model call: until the first chunk, between chunks and in all (T23). */
import { APIConnectionError } from 'openai';

/** How long a model call may take, in ms. */
export interface CallTimes {
  /** From the request to the first chunk; 10 minutes when left out (T23). */
  readonly firstByteTimeoutMs?: number;
  /** Between two chunks; 60 seconds when left out. */
  readonly streamIdleTimeoutMs?: number;
  /** From the request to the last chunk; 20 minutes when left out, which is less than the activity may take. */
  readonly callTimeoutMs?: number;
}

/** How long the first chunk may take when nothing else is said. */
export const FIRST_BYTE_TIMEOUT_MS = 10 * 60_000;
const STREAM_IDLE_TIMEOUT_MS = 60_000;
const CALL_TIMEOUT_MS = 20 * 60_000;

/** A stream that failed, in words of ours; what others said of it is the `cause`. */
export class StreamFailure extends APIConnectionError {
  constructor(message: string, cause?: Error) {
    super({ message, cause });
  }
}

/** A stream that went on beyond a bound: what came until then is an answer that was cut short. */
export class Overlong extends StreamFailure {}

/** Aborts a stream that does not start, does not go on or does not end. */
export class StreamGuard {
  readonly #controller = new AbortController();
  readonly #idleMs: number;
  /** Fires with the caller's signal, or when a time is over. */
  readonly signal: AbortSignal;
  readonly #end: NodeJS.Timeout;
  #next: NodeJS.Timeout;

  constructor(outer: AbortSignal, { firstByteTimeoutMs, streamIdleTimeoutMs, callTimeoutMs }: CallTimes) {
    this.#idleMs = streamIdleTimeoutMs ?? STREAM_IDLE_TIMEOUT_MS;
    this.#next = this.#silence(firstByteTimeoutMs ?? FIRST_BYTE_TIMEOUT_MS);
    const most = callTimeoutMs ?? CALL_TIMEOUT_MS;
    this.#end = setTimeout(() => this.#controller.abort(new Overlong(`the model was not done after ${most} ms`)), most);
    this.signal = AbortSignal.any([outer, this.#controller.signal]);
  }

  /** Takes note of a chunk: the next one has its time from here on. */
  moved(): void {
    clearTimeout(this.#next);
    this.#next = this.#silence(this.#idleMs);
  }

  /** Why the guard aborted the stream; null when it did not. */
  reason(): StreamFailure | null {
    return this.#controller.signal.aborted ? (this.#controller.signal.reason as StreamFailure) : null;
  }

  /** Ends the watch, however the call ended. */
  done(): void {
    clearTimeout(this.#next);
    clearTimeout(this.#end);
  }

  #silence(ms: number): NodeJS.Timeout {
    return setTimeout(() => this.#controller.abort(new StreamFailure(`the model sent nothing for ${ms} ms`)), ms);
  }
}
