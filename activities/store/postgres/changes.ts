/**
 * Tells that some process committed, by LISTEN/NOTIFY.
 *
 * Notifications are sent after the commit and gathered: inside the transaction every commit of the database would queue up behind one
 * lock. A notification lost with its process does no harm: whoever waits looks again by himself. The end of a turn is told at once and by
 * name, because a caller waits for it; of the other commits of a turn, which are many, only who follows events must know.
 *
 * Whoever is woken looks into the store. The more there are, the more commits they are woken for at once: what they do together stays
 * within bounds, however many wait and however busy the store is.
 */
import type pg from 'pg';

const CHANNEL = 'agentturn';
const TURN_ENDED = 'turn_ended';
const GATHER_MS = 25;
const GATHER_ENDS_MS = 3;
/** Five hundred waiters look once a second, sixteen some thirty times. */
const LOOK_MS = 2;

class Waiters {
  readonly #waiting = new Set<() => void>();
  #waking: NodeJS.Timeout | null = null;
  #quietUntil = 0;

  async wait(timeoutMs: number): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    const timeout = setTimeout(resolve, timeoutMs);
    this.#waiting.add(resolve);
    await promise;
    clearTimeout(timeout);
    this.#waiting.delete(resolve);
  }

  wakeSoon(): void {
    const left = this.#quietUntil - performance.now();
    if (left <= 0) this.wake();
    else this.#waking ??= setTimeout(() => this.wake(), left);
  }

  wake(): void {
    if (this.#waking) clearTimeout(this.#waking);
    this.#waking = null;
    this.#quietUntil = performance.now() + this.#waiting.size * LOOK_MS;
    for (const resolve of [...this.#waiting]) resolve();
  }
}

export class ChangeFeed {
  readonly #pool: pg.Pool;
  readonly #forEnds = new Waiters();
  readonly #forAny = new Waiters();
  #listener: Promise<pg.PoolClient | null> | null = null;
  #announcing: { readonly turnEnded: boolean; readonly timer: NodeJS.Timeout } | null = null;
  #closed = false;

  constructor(pool: pg.Pool) {
    this.#pool = pool;
  }

  announce(turnEnded: boolean): void {
    if (this.#closed || this.#announcing?.turnEnded || (this.#announcing && !turnEnded)) return;
    clearTimeout(this.#announcing?.timer);
    const send = () => {
      this.#announcing = null;
      this.#pool.query(turnEnded ? `notify ${CHANNEL}, '${TURN_ENDED}'` : `notify ${CHANNEL}`).catch(() => {});
    };
    this.#announcing = { turnEnded, timer: setTimeout(send, turnEnded ? GATHER_ENDS_MS : GATHER_MS) };
  }

  async wait(timeoutMs: number, turnEndsOnly = false): Promise<void> {
    if (this.#closed) return;
    const waited = (turnEndsOnly ? this.#forEnds : this.#forAny).wait(timeoutMs);
    this.#listener ??= this.#listen();
    await waited;
  }

  async close(): Promise<void> {
    this.#closed = true;
    clearTimeout(this.#announcing?.timer);
    this.#wakeAll();
    (await this.#listener)?.release(true);
  }

  /** Keeps one connection; when it breaks, the next waiter opens another. */
  async #listen(): Promise<pg.PoolClient | null> {
    try {
      const client = await this.#pool.connect();
      client.on('notification', ({ payload }) => {
        this.#forAny.wakeSoon();
        if (payload === TURN_ENDED) this.#forEnds.wakeSoon();
      });
      client.once('error', () => {
        this.#listener = null;
        client.release(true);
      });
      await client.query(`listen ${CHANNEL}`);
      // Whatever was committed before the subscription stood is seen by looking once more.
      this.#wakeAll();
      return client;
    } catch {
      this.#listener = null;
      return null;
    }
  }

  #wakeAll(): void {
    this.#forAny.wake();
    this.#forEnds.wake();
  }
}
