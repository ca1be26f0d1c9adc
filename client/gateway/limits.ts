/** How much a caller may ask at once: requests in a time, and streams that are open. */
import { CodedError } from '../../workflows/protocol/failures.ts';

/** The limits of a gateway; every figure has a default. */
export interface GatewayLimits {
  /** Requests a second of one token, on average. */
  readonly requestsPerSecond?: number;
  /** Requests of one token at once. */
  readonly burst?: number;
  /** Streams of one token that are open at once. */
  readonly streams?: number;
  /** Streams of all tokens together. */
  readonly streamsInAll?: number;
}

const REQUESTS_PER_SECOND = 100;
const BURST = 400;
const STREAMS = 500;
const STREAMS_IN_ALL = 2_000;

/** As many accounts are kept without a look at which of them are still needed. */
const FEW_ACCOUNTS = 1_000;

interface Account {
  /** Requests that may be made now. */
  tokens: number;
  at: number;
  streams: number;
}

/** Counts what callers do. */
export class Accounts {
  readonly #limits: Required<GatewayLimits>;
  readonly #accounts = new Map<string, Account>();
  #streams = 0;

  constructor(limits: GatewayLimits = {}) {
    const { requestsPerSecond = REQUESTS_PER_SECOND, burst = BURST } = limits;
    const { streams = STREAMS, streamsInAll = STREAMS_IN_ALL } = limits;
    this.#limits = { requestsPerSecond, burst, streams, streamsInAll };
  }

  /** Counts a request; returns how many seconds to wait where there are too many, and 0 where it may go on. */
  request(name: string): number {
    const account = this.#of(name);
    const now = performance.now();
    const { requestsPerSecond, burst } = this.#limits;
    account.tokens = Math.min(burst, account.tokens + ((now - account.at) / 1_000) * requestsPerSecond);
    account.at = now;
    if (account.tokens < 1) return Math.ceil((1 - account.tokens) / requestsPerSecond);
    account.tokens -= 1;
    return 0;
  }

  /** Counts a stream; returns what is called once at its end. Errors: `too_many_requests`. */
  stream(name: string): () => void {
    const account = this.#of(name);
    const { streams, streamsInAll } = this.#limits;
    if (account.streams >= streams || this.#streams >= streamsInAll) {
      const most = account.streams >= streams ? `${streams} of this token` : `${streamsInAll} in all`;
      throw new CodedError('too_many_requests', `too many streams are open, ${most}: close some, or read less often`);
    }
    account.streams += 1;
    this.#streams += 1;
    return () => {
      account.streams -= 1;
      this.#streams -= 1;
    };
  }

  #of(name: string): Account {
    const known = this.#accounts.get(name);
    if (known) return known;
    if (this.#accounts.size >= FEW_ACCOUNTS) this.#forgetRested();
    const account = { tokens: this.#limits.burst, at: performance.now(), streams: 0 };
    this.#accounts.set(name, account);
    return account;
  }

  /** Forgets accounts that are like new ones: callers by the thousand, each of which asks once, leave nothing behind. */
  #forgetRested(): void {
    const { requestsPerSecond, burst } = this.#limits;
    const rested = performance.now() - (burst / requestsPerSecond) * 1_000;
    for (const [name, { at, streams }] of this.#accounts) if (streams === 0 && at < rested) this.#accounts.delete(name);
  }
}
