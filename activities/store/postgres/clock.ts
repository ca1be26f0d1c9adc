/**
 * The store's clock on PostgreSQL: that of the server, so that the processes of a fleet agree on what is due, whatever the clocks of their
 * machines show. It is read now and then, and in between the process's monotonic clock runs on from there.
 */
import type pg from 'pg';

const READ_EVERY_MS = 60_000;
/** A reading that took longer says too little: the answer may have been on its way for most of it. */
const MOST_ROUND_TRIP_MS = 1_000;

/** The server's clock, as this process knows it. */
export class ServerClock {
  readonly #pool: pg.Pool;
  readonly #machine: () => number;
  /** What the server's clock showed when this process's monotonic clock was at zero. */
  #origin = 0;
  #isKnown = false;
  #timer: NodeJS.Timeout | null = null;

  /** `machine` is only compared with the server: a machine's clock that is set meanwhile moves nothing here. */
  constructor(pool: pg.Pool, machine: () => number = Date.now) {
    this.#pool = pool;
    this.#machine = machine;
  }

  /** Epoch ms by the server's clock. */
  readonly now = (): number => Math.round(this.#origin + performance.now());

  /** By how many ms the server's clock is ahead of this machine's; negative when it is behind. */
  get aheadMs(): number {
    return this.now() - Math.round(this.#machine());
  }

  /** Reads the clock, and reads it again every minute. Errors: those of the first reading. */
  async start(): Promise<void> {
    // The first reading connects, which takes too long to tell the time by.
    await this.#read();
    await this.#read();
    this.#isKnown = true;
    this.#timer = setInterval(() => void this.#read().catch(() => {}), READ_EVERY_MS);
    this.#timer.unref();
  }

  /** Ends the readings. */
  stop(): void {
    if (this.#timer) clearInterval(this.#timer);
  }

  async #read(): Promise<void> {
    const askedAt = performance.now();
    const { rows } = await this.#pool.query<{ now: number }>(
      'select extract(epoch from clock_timestamp())::float8 * 1000 as now',
    );
    const took = performance.now() - askedAt;
    const [row] = rows;
    if (!row || (this.#isKnown && took > MOST_ROUND_TRIP_MS)) return;
    this.#origin = row.now - (askedAt + took / 2);
  }
}
