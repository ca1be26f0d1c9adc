/**
 * Tells that some process committed, by LISTEN/NOTIFY.
 *
 * Notifications are sent after the commit and gathered: inside the transaction every commit of the database would queue up behind one
 * lock. A notification lost with its process does no harm: whoever waits looks again by himself.
 */
import type pg from 'pg';

const CHANNEL = 'agentturn';
const GATHER_MS = 3;

export class ChangeFeed {
  readonly #pool: pg.Pool;
  readonly #waiting = new Set<() => void>();
  #listener: Promise<pg.PoolClient | null> | null = null;
  #announcing: NodeJS.Timeout | null = null;
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
    this.#wake();
    (await this.#listener)?.release(true);
  }

  /** Keeps one connection; when it breaks, the next waiter opens another. */
  async #listen(): Promise<pg.PoolClient | null> {
    try {
      const client = await this.#pool.connect();
      client.on('notification', () => this.#wake());
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

  #wake(): void {
    for (const resolve of [...this.#waiting]) resolve();
  }
}
