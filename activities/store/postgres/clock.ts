/**
 * The store's clock on PostgreSQL: that of the server, so that the processes of a fleet agree on what is due, whatever the clocks of their
 * machines show. It is read now and then, and in between this machine's clock runs on from there.
 */
import type pg from 'pg';

const READ_EVERY_MS = 60_000;
/** What took longer says too little: the answer may have been on its way for most of it. */
const MOST_ROUND_TRIP_MS = 1_000;

export class ServerClock {
  readonly #pool: pg.Pool;
  readonly #local: () => number;
  #aheadMs = 0;
  #timer: NodeJS.Timeout | null = null;

  constructor(pool: pg.Pool, local: () => number = Date.now) {
    this.#pool = pool;
    this.#local = local;
  }

  /** Epoch ms by the server. */
  readonly now = (): number => this.#local() + this.#aheadMs;

  /** By how many ms the server's clock is ahead of this machine's; negative when it is behind. */
  get aheadMs(): number {
    return this.#aheadMs;
  }

  /** Reads the clock, and again every minute. Errors: those of the first read. */
  async start(): Promise<void> {
    // The first one connects, which takes too long to tell the time by.
    await this.#read();
    await this.#read();
    this.#timer = setInterval(() => void this.#read().catch(() => {}), READ_EVERY_MS);
    this.#timer.unref();
  }

  stop(): void {
    if (this.#timer) clearInterval(this.#timer);
  }

  async #read(): Promise<void> {
    const askedAt = this.#local();
    const { rows } = await this.#pool.query<{ now: number }>(
      'select extract(epoch from clock_timestamp())::float8 * 1000 as now',
    );
    const answeredAt = this.#local();
    const took = answeredAt - askedAt;
    const isKnown = this.#timer !== null;
    if (isKnown && (took < 0 || took > MOST_ROUND_TRIP_MS)) return;
    this.#aheadMs = Math.round((rows[0]?.now ?? askedAt) - (askedAt + took / 2));
  }
}
