/**
 * Tells that some connection committed: `PRAGMA data_version` on a connection of its own changes with every commit of any other connection,
 * in this process or another, and costs microseconds. It is polled only while somebody waits, and the less often the longer nothing was
 * committed.
 *
 * A waiter that is woken reads the store. The more waiters there are, the more commits they are woken for at once: what they do together
 * stays within bounds, however many wait and however busy the store is.
 */
import type SqliteDatabase from 'better-sqlite3';

const FASTEST_POLL_MS = 2;
const SLOWEST_POLL_MS = 20;
/** Polls in a time as long as nothing has been committed: the longer it was quiet, the less often it is polled. */
const POLLS_PER_QUIET = 20;
/** The quiet time after a wake-up, for each waiter: five hundred waiters read once a second, sixteen some thirty times. */
const QUIET_MS_PER_WAITER = 2;

/** Wakes waiters for the commits of all connections to a file. */
export class ChangeWatcher {
  readonly #open: () => SqliteDatabase.Database;
  readonly #waiting = new Set<() => void>();
  #database: SqliteDatabase.Database | null = null;
  #askVersion: SqliteDatabase.Statement<[], number> | null = null;
  #timer: NodeJS.Timeout | null = null;
  #version = -1;
  #quietUntil = 0;
  #changedAt = 0;
  #closed = false;

  constructor(open: () => SqliteDatabase.Database) {
    this.#open = open;
  }

  /** Resolves soon after a commit, at the latest after `timeoutMs`. */
  async wait(timeoutMs: number): Promise<void> {
    if (this.#closed) return;
    const { promise, resolve } = Promise.withResolvers<void>();
    const timeout = setTimeout(resolve, timeoutMs);
    this.#waiting.add(resolve);
    try {
      this.#start();
      await promise;
    } finally {
      clearTimeout(timeout);
      this.#waiting.delete(resolve);
      if (this.#waiting.size === 0) this.#stop();
    }
  }

  /** Wakes all waiters, and closes the connection that was polled. */
  close(): void {
    this.#closed = true;
    this.#stop();
    this.#wake();
    this.#database?.close();
    this.#database = null;
    this.#askVersion = null;
  }

  #start(): void {
    if (this.#timer) return;
    this.#database ??= this.#open();
    // The version is kept while nobody waits, so a commit between two waits is seen at once.
    this.#poll();
    this.#pollSoon();
  }

  #pollSoon(): void {
    const pause = (performance.now() - this.#changedAt) / POLLS_PER_QUIET;
    const next = () => {
      this.#poll();
      this.#pollSoon();
    };
    this.#timer = setTimeout(next, Math.min(Math.max(pause, FASTEST_POLL_MS), SLOWEST_POLL_MS));
  }

  #stop(): void {
    if (this.#timer) clearTimeout(this.#timer);
    this.#timer = null;
  }

  #poll(): void {
    if (performance.now() < this.#quietUntil) return;
    const version = this.#versionOf();
    if (version === undefined || version === this.#version) return;
    this.#version = version;
    this.#changedAt = performance.now();
    this.#quietUntil = this.#changedAt + this.#waiting.size * QUIET_MS_PER_WAITER;
    this.#wake();
  }

  /** The version; undefined while it cannot be read, as when another process recovers the log: the next poll comes soon. */
  #versionOf(): number | undefined {
    try {
      // Prepared once: the driver's `pragma()` compiles it each time, which costs more than asking.
      this.#askVersion ??= this.#database?.prepare<[], number>('pragma data_version').pluck() ?? null;
      return this.#askVersion?.get();
    } catch {
      return undefined;
    }
  }

  #wake(): void {
    for (const resolve of [...this.#waiting]) resolve();
  }
}
