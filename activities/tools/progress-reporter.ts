/**
 * What a tool says of its progress while it works, on its way to the store.
 *
 * Invariants
 * 1. Nothing that a tool says of its progress can fail it or hold it up: what cannot be written is left out.
 * 2. However often a tool says something, little is written: the latest value, when there was none for a second, and for a hundredth of the
 *    time that the tool has worked. An hour of work is some 460 events.
 */
import type { JsonValue } from '../../workflows/protocol/json.ts';
import { clip, SIZES, utf8Bytes } from '../../workflows/protocol/sizes.ts';
import { describeError } from '../failure.ts';
import { throughJson } from '../serialisable.ts';
import type { ToolLogger } from '../tool.ts';

const LEAST_PAUSE_MS = 1_000;
const SHARE_OF_WORK = 0.01;
/** Bytes of the quotes around a text. */
const QUOTES = 2;

/** The progress of one attempt at a call, from its start to the end of its last execution. */
export class ProgressReporter {
  readonly #write: (progress: JsonValue) => Promise<void>;
  readonly #logger: ToolLogger;
  readonly #startedAt = performance.now();
  #writtenAt = Number.NEGATIVE_INFINITY;
  #written: string | undefined;
  #latest: JsonValue | undefined;
  #timer: NodeJS.Timeout | undefined;
  #writing = false;
  #closed = false;

  /** `write` puts a value into the store; what it throws goes to the log. */
  constructor(write: (progress: JsonValue) => Promise<void>, logger: ToolLogger) {
    this.#write = write;
    this.#logger = logger;
  }

  /** Takes the place of what was said before and is not written yet. */
  report(value: unknown): void {
    if (this.#closed) return;
    try {
      this.#latest = bounded(throughJson(value));
    } catch (error) {
      this.#logger.warn('progress of the tool is left out', { reason: describeError(error) });
      return;
    }
    this.#schedule();
  }

  /** Ends it: what is not written by now is overtaken by the result, before which the store takes it or refuses it. */
  close(): void {
    this.#closed = true;
    clearTimeout(this.#timer);
  }

  #schedule(): void {
    if (this.#closed || this.#writing || this.#timer) return;
    const now = performance.now();
    const pauseMs = Math.max(LEAST_PAUSE_MS, (now - this.#startedAt) * SHARE_OF_WORK);
    const waitMs = this.#writtenAt + pauseMs - now;
    if (waitMs <= 0) {
      this.#flush();
      return;
    }
    this.#timer = setTimeout(() => {
      this.#timer = undefined;
      this.#flush();
    }, waitMs);
    this.#timer.unref();
  }

  #flush(): void {
    const value = this.#latest;
    this.#latest = undefined;
    const text = JSON.stringify(value);
    if (value === undefined || text === this.#written) return;
    this.#written = text;
    this.#writtenAt = performance.now();
    this.#writing = true;
    this.#write(value)
      .catch((error: unknown) => {
        this.#written = undefined;
        this.#logger.debug('progress of the tool was not written', { reason: describeError(error) });
      })
      .finally(() => {
        this.#writing = false;
        if (this.#latest !== undefined) this.#schedule();
      });
  }
}

/** A text that is too long loses its end; anything else that is too large throws a TypeError. */
function bounded(value: JsonValue): JsonValue {
  if (utf8Bytes(JSON.stringify(value)) <= SIZES.progressBytes) return value;
  if (typeof value !== 'string') throw new TypeError(`it has more than ${SIZES.progressBytes} bytes of JSON`);
  // What JSON escapes takes up to six bytes for one.
  const plain = clip(value, SIZES.progressBytes - QUOTES);
  return utf8Bytes(JSON.stringify(plain)) <= SIZES.progressBytes
    ? plain
    : clip(value, SIZES.progressBytes / 6 - QUOTES);
}
