/**
 * Finds out that some process committed, by asking: behind a pooler nobody can listen.
 *
 * What is asked is which transactions are under way. Each that has written changes the answer when it ends, and to give it costs the server
 * no read of a table.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import type pg from 'pg';

/** How often the server is asked: a reader that waits for a change has it after half of that on average. */
const POLL_MS = 100;

/** The pause after a question that was not answered. */
const AWAY_MS = 1_000;

/** Asks as long as somebody waits. */
export class Poll {
  readonly #pool: pg.Pool;
  readonly #isAwaited: () => boolean;
  readonly #changed: () => void;
  #isRunning = false;
  #seen: string | null = null;

  constructor(pool: pg.Pool, { isAwaited, changed }: { isAwaited(): boolean; changed(): void }) {
    this.#pool = pool;
    this.#isAwaited = isAwaited;
    this.#changed = changed;
  }

  /** Begins to ask, unless it does already. */
  start(): void {
    if (this.#isRunning) return;
    this.#isRunning = true;
    void this.#run();
  }

  async #run(): Promise<void> {
    while (this.#isAwaited()) {
      await sleep((await this.#ask()) ? POLL_MS : AWAY_MS);
    }
    this.#isRunning = false;
  }

  /** Returns whether the server answered. */
  async #ask(): Promise<boolean> {
    try {
      const { rows } = await this.#pool.query<{ state: string }>('select pg_current_snapshot()::text as state');
      const { state = null } = rows[0] ?? {};
      if (state !== this.#seen) this.#changed();
      this.#seen = state;
      return true;
    } catch {
      // Whoever waits reads the store at the end of its time all the same, and learns there what is wrong.
      return false;
    }
  }
}
