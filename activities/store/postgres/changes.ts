/**
 * Tells that some process committed: by LISTEN/NOTIFY, or by asking where a pooler stands between, which gives what is heard to nobody.
 *
 * Notifications are sent after the commit and gathered: inside the transaction every commit of the database would queue up behind one lock.
 * A notification lost with its process does no harm, for a waiter reads the store again after a while all the same. The end of a turn is
 * announced at once and by name, because a caller waits for it; of the other commits of a turn, which are many, only those who follow
 * events must know.
 *
 * A waiter that is woken reads the store. The more waiters there are, the more commits they are woken for at once: what they do together
 * stays within bounds, however many wait and however busy the store is.
 */
import { isDeepStrictEqual } from 'node:util';
import type pg from 'pg';
import type { Commit } from '../context.ts';
import { Poll } from './poll.ts';
import { databaseOf, isPooled } from './server.ts';

const CHANNEL = 'agentturn';
const TURN_ENDED = 'turn_ended';
/** How long commits are gathered before one notification tells of them. */
const GATHER_MS = 25;
/** How long ends of turns, and chunks, are gathered: those of one moment come together. Chunks were gathered before they were written. */
const GATHER_BRIEFLY_MS = 1;
/** How long after a try to listen that failed the next one is made. */
const LISTEN_AGAIN_MS = 2_000;
/** The quiet time after a wake-up, for each waiter: five hundred waiters read once a second, sixteen some thirty times. */
const QUIET_MS_PER_WAITER = 2;

/** Callers that wait for one kind of change. */
class Waiters {
  readonly #waiting = new Set<() => void>();
  #waking: NodeJS.Timeout | null = null;
  #quietUntil = 0;

  get areThere(): boolean {
    return this.#waiting.size > 0;
  }

  /** Resolves with the next wake-up, at the latest after `timeoutMs`. */
  async wait(timeoutMs: number): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>();
    const timeout = setTimeout(resolve, timeoutMs);
    this.#waiting.add(resolve);
    await promise;
    clearTimeout(timeout);
    this.#waiting.delete(resolve);
  }

  /** Wakes all when the quiet time is over. */
  wakeSoon(): void {
    const left = this.#quietUntil - performance.now();
    if (left <= 0) this.wake();
    else this.#waking ??= setTimeout(() => this.wake(), left);
  }

  /** Wakes all at once, and begins a quiet time. */
  wake(): void {
    if (this.#waking) clearTimeout(this.#waking);
    this.#waking = null;
    this.#quietUntil = performance.now() + this.#waiting.size * QUIET_MS_PER_WAITER;
    for (const resolve of [...this.#waiting]) resolve();
  }
}

/** Announces the commits of this process, and wakes waiters for those of all processes. */
export class ChangeFeed {
  readonly #pool: pg.Pool;
  #listening: pg.Pool | null;
  readonly #poll: Poll;
  readonly #forEnds = new Waiters();
  readonly #forAny = new Waiters();
  /** What gives the listening connection back; null while nobody has waited. */
  #listener: Promise<() => void> | null = null;
  /** Whether it hears of changes. */
  #hears = false;
  /** When it may try to listen again, by `performance.now()`. */
  #listenNotBefore = 0;
  readonly #announcing = new Map<Commit, NodeJS.Timeout>();
  #closed = false;

  /** `listening` is where one can listen; null where one cannot. */
  constructor(pool: pg.Pool, listening: pg.Pool | null) {
    this.#pool = pool;
    this.#listening = listening;
    this.#poll = new Poll(pool, {
      isAwaited: () => !this.#hears && (this.#forEnds.areThere || this.#forAny.areThere),
      changed: () => {
        this.#forAny.wakeSoon();
        this.#forEnds.wakeSoon();
      },
    });
  }

  /** Tells all processes of a commit. */
  announce(what: Commit): void {
    if (this.#closed || this.#announcing.has(what)) return;
    const send = () => {
      this.#announcing.delete(what);
      this.#pool.query(`notify ${CHANNEL}, '${what}'`).catch(() => {});
    };
    this.#announcing.set(what, setTimeout(send, what === 'anything' ? GATHER_MS : GATHER_BRIEFLY_MS));
  }

  /** Resolves soon after a commit, at the latest after `timeoutMs`. */
  async wait(timeoutMs: number, turnEndsOnly = false): Promise<void> {
    if (this.#closed) return;
    const waited = (turnEndsOnly ? this.#forEnds : this.#forAny).wait(timeoutMs);
    if (this.#listening && performance.now() >= this.#listenNotBefore) this.#listener ??= this.#listen(this.#listening);
    if (!this.#hears) this.#poll.start();
    await waited;
  }

  /** Wakes all waiters, and gives the connection back. */
  async close(): Promise<void> {
    this.#closed = true;
    for (const timer of this.#announcing.values()) clearTimeout(timer);
    this.#wakeAll();
    (await this.#listener)?.();
  }

  /** Keeps one connection that listens. When it breaks, or cannot listen, changes are asked for until another can. */
  async #listen(pool: pg.Pool): Promise<() => void> {
    const client = await pool.connect().catch(() => null);
    let isHeld = true;
    const release = () => {
      if (!isHeld) return;
      isHeld = false;
      this.#listener = null;
      this.#hears = false;
      this.#listenNotBefore = performance.now() + LISTEN_AGAIN_MS;
      client?.release(true);
      this.#poll.start();
    };
    if (client === null) {
      release();
      return release;
    }
    client.on('error', release);
    // A pooler takes the subscription, and tells nobody of what it hears.
    if (await isPooled(client).catch(() => false)) {
      this.#listening = null;
      release();
      return release;
    }
    client.on('notification', ({ payload }) => {
      this.#forAny.wakeSoon();
      if (payload === TURN_ENDED) this.#forEnds.wakeSoon();
    });
    try {
      // What happens in another database is no news, whoever named it.
      if (pool !== this.#pool && !isDeepStrictEqual(await databaseOf(client), await databaseOf(this.#pool)))
        throw new Error('it leads to another database');
      await client.query(`listen ${CHANNEL}`);
      this.#hears = isHeld;
      // What was committed before the subscription stood is seen by reading once more.
      this.#wakeAll();
    } catch {
      // A standby listens to nothing.
      release();
    }
    return release;
  }

  #wakeAll(): void {
    this.#forAny.wake();
    this.#forEnds.wake();
  }
}
