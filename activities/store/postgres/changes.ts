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
const ANYTHING = 'anything';
const GATHER_MS = 25;
const GATHER_ENDS_MS = 1;
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
  /** Gives the connection back. */
  #listener: Promise<() => void> | null = null;
  readonly #announcing = new Map<string, NodeJS.Timeout>();
  #closed = false;

  constructor(pool: pg.Pool) {
    this.#pool = pool;
  }

  announce(turnEnded: boolean): void {
    const what = turnEnded ? TURN_ENDED : ANYTHING;
    if (this.#closed || this.#announcing.has(what)) return;
    const send = () => {
      this.#announcing.delete(what);
      this.#pool.query(`notify ${CHANNEL}, '${what}'`).catch(() => {});
    };
    this.#announcing.set(what, setTimeout(send, turnEnded ? GATHER_ENDS_MS : GATHER_MS));
  }

  async wait(timeoutMs: number, turnEndsOnly = false): Promise<void> {
    if (this.#closed) return;
    const waited = (turnEndsOnly ? this.#forEnds : this.#forAny).wait(timeoutMs);
    this.#listener ??= this.#listen();
    await waited;
  }

  async close(): Promise<void> {
    this.#closed = true;
    for (const timer of this.#announcing.values()) clearTimeout(timer);
    this.#wakeAll();
    (await this.#listener)?.();
  }

  /** Keeps one connection; when it breaks, the next waiter opens another. */
  async #listen(): Promise<() => void> {
    const client = await this.#pool.connect().catch(() => null);
    let isHeld = true;
    const release = () => {
      if (!isHeld) return;
      isHeld = false;
      this.#listener = null;
      client?.release(true);
    };
    if (client === null) {
      release();
      return release;
    }
    client.once('error', release);
    client.on('notification', ({ payload }) => {
      this.#forAny.wakeSoon();
      if (payload === TURN_ENDED) this.#forEnds.wakeSoon();
    });
    // Whatever was committed before the subscription stood is seen by looking once more. A standby listens to nothing.
    await client.query(`listen ${CHANNEL}`).then(() => this.#wakeAll(), release);
    return release;
  }

  #wakeAll(): void {
    this.#forAny.wake();
    this.#forEnds.wake();
  }
}
