/**
 * Tells that some process committed, by LISTEN/NOTIFY.
 *
 * Notifications are sent after the commit and gathered: inside the transaction every commit of the database would queue up behind one
 * lock. A notification lost with its process does no harm: whoever waits looks again by himself.
 *
 * Whoever is woken looks into the store. The more there are, the more commits they are woken for at once: what they do together stays
 * within bounds, however many wait and however busy the store is.
 */
import type pg from 'pg';

const CHANNEL = 'agentturn';
const GATHER_MS = 3;
/** Five hundred waiters look once a second, sixteen some thirty times. */
const LOOK_MS = 2;

export class ChangeFeed {
  readonly #pool: pg.Pool;
  readonly #waiting = new Set<() => void>();
  #listener: Promise<pg.PoolClient | null> | null = null;
  #announcing: NodeJS.Timeout | null = null;
  #waking: NodeJS.Timeout | null = null;
  #quietUntil = 0;
  #closed = false;

  constructor(pool: pg.Pool) {
    this.#pool = pool;
  }

  announce(): void {
    if (this.#closed) return;
    this.#announcing ??= setTimeout(() => {
      this.#announcing = null;
      this.#pool.query(`notify ${CHANNEL}`).catch(() => {});
    }, GATHER_MS);
  }

  async wait(timeoutMs: number): Promise<void> {
    if (this.#closed) return;
    const { promise, resolve } = Promise.withResolvers<void>();
    const timeout = setTimeout(resolve, timeoutMs);
    this.#waiting.add(resolve);
    this.#listener ??= this.#listen();
    await promise;
    clearTimeout(timeout);
    this.#waiting.delete(resolve);
  }

  async close(): Promise<void> {
    this.#closed = true;
    if (this.#announcing) clearTimeout(this.#announcing);
    if (this.#waking) clearTimeout(this.#waking);
    this.#wake();
    (await this.#listener)?.release(true);
  }

  /** Keeps one connection; when it breaks, the next waiter opens another. */
  async #listen(): Promise<pg.PoolClient | null> {
    try {
      const client = await this.#pool.connect();
      client.on('notification', () => this.#wakeSoon());
      client.once('error', () => {
        this.#listener = null;
        client.release(true);
      });
      await client.query(`listen ${CHANNEL}`);
      // Whatever was committed before the subscription stood is seen by looking once more.
      this.#wake();
      return client;
    } catch {
      this.#listener = null;
      return null;
    }
  }

  #wakeSoon(): void {
    const left = this.#quietUntil - performance.now();
    if (left <= 0) this.#wake();
    else this.#waking ??= setTimeout(() => this.#wake(), left);
  }

  #wake(): void {
    if (this.#waking) clearTimeout(this.#waking);
    this.#waking = null;
    this.#quietUntil = performance.now() + this.#waiting.size * LOOK_MS;
    for (const resolve of [...this.#waiting]) resolve();
  }
}
