/**
 * Which callers may use the store, and when: a process has few connections, and a caller that waits for a lock holds one for as long.
 *
 * Invariants
 * 1. Of the writes that name the same thing, an agent mostly, one is under way; the others stand in a line and hold no connection. So an
 *    agent whose rows are locked by a process that stands still costs one connection, and not all of them.
 * 2. Writes leave connections to reads.
 * 3. Callers go in the order in which they came.
 * 4. No caller waits for a name while it holds a place, and several names are taken in one order: no two can wait for each other.
 * 5. No caller stands in lines for longer than `waitMs`, all of them together.
 */
import type { CodedError } from '../../workflows/protocol/failures.ts';

/** How long a caller stands in lines where it does not say. It is long, for a caller that is refused would mostly ask again. */
export const DEFAULT_WAIT_MS = 30_000;

/** What a caller waited for until its time was up. */
export interface VainWait {
  /** The name whose line did not move; null for a connection. */
  readonly name: string | null;
  /** How many callers went first, or hold what is waited for. */
  readonly others: number;
  readonly waitMs: number;
}

/** How many callers a process lets in at a time. */
export interface AdmissionOptions {
  /** Reads and writes that may be under way; as many as come when left out. */
  readonly places?: number;
  /** Writes that may be under way; as many as there are places when left out. */
  readonly writes?: number;
  /** Writes stand in one line whatever they name, because the backend has one lock; so many are let out of it at a time. */
  readonly oneLine?: number;
  /** How long a caller stands in lines. */
  readonly waitMs: number;
  /** The error of a caller that waited in vain. */
  readonly inVain: (wait: VainWait) => CodedError;
}

interface Waiter {
  readonly admit: () => void;
  readonly refuse: (error: Error) => void;
}

/** A number of places, given out in the order of asking. */
class Line {
  #free: number;
  readonly #places: number;
  readonly #waiting = new Set<Waiter>();

  constructor(places: number) {
    this.#places = places;
    this.#free = places;
  }

  get isEmpty(): boolean {
    return this.#free === this.#places;
  }

  /**
   * Waits for a place. Errors: what `inVain` makes of the number of callers that went first or hold the places, when the deadline has
   * passed.
   */
  async enter(deadline: number, inVain: (others: number) => Error): Promise<void> {
    if (this.#free > 0) {
      this.#free -= 1;
      return;
    }
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    // A caller that is admitted or refused is out of the line at once: a place must not go to one that does not wait any more.
    const waiter: Waiter = {
      admit: () => {
        this.#waiting.delete(waiter);
        resolve();
      },
      refuse: (error) => {
        this.#waiting.delete(waiter);
        reject(error);
      },
    };
    const others = this.#places + this.#waiting.size;
    const late = setTimeout(() => waiter.refuse(inVain(others)), Math.max(0, deadline - performance.now()));
    this.#waiting.add(waiter);
    await promise.finally(() => clearTimeout(late));
  }

  exit(): void {
    const [next] = this.#waiting;
    if (next) next.admit();
    else this.#free += 1;
  }

  refuseAll(error: Error): void {
    for (const { refuse } of [...this.#waiting]) refuse(error);
  }
}

/** Who of a process may use the store now, and who waits for a place or for a name that another one uses. */
export class Admission {
  readonly #options: AdmissionOptions;
  readonly #named = new Map<string, Line>();
  readonly #places: Line;
  readonly #writes: Line;
  #closed: CodedError | null = null;

  constructor(options: AdmissionOptions) {
    const { places = Number.POSITIVE_INFINITY, writes = Number.POSITIVE_INFINITY } = options;
    this.#options = options;
    this.#places = new Line(places);
    this.#writes = new Line(writes);
  }

  /** Until when a caller that comes at this moment may wait, by `performance.now()`. */
  get deadline(): number {
    return performance.now() + this.#options.waitMs;
  }

  /** Runs when no other write holds one of the names, and holds them until it has ended. */
  async inLine<T>(names: readonly string[], deadline: number, run: () => Promise<T>): Promise<T> {
    const [name, ...others] = this.#options.oneLine ? [''] : [...new Set(names)].sort();
    if (name === undefined) return run();
    const line = this.#named.get(name) ?? new Line(this.#options.oneLine ?? 1);
    this.#named.set(name, line);
    const further = () => (others.length === 0 ? run() : this.inLine(others, deadline, run));
    try {
      return await this.#within(line, name, deadline, further);
    } finally {
      if (line.isEmpty && this.#named.get(name) === line) this.#named.delete(name);
    }
  }

  /** Runs in one of the places for writes, which is one of all places too. */
  writing<T>(deadline: number, run: () => Promise<T>): Promise<T> {
    return this.#within(this.#writes, null, deadline, () => this.reading(deadline, run));
  }

  /** Runs in one of all places. */
  reading<T>(deadline: number, run: () => Promise<T>): Promise<T> {
    return this.#within(this.#places, null, deadline, run);
  }

  /** Refuses with this error who stands in a line or comes later; what is under way goes on. */
  close(error: CodedError): void {
    this.#closed = error;
    for (const line of [...this.#named.values(), this.#writes, this.#places]) line.refuseAll(error);
  }

  /** The error with which it was closed; null while it is open. */
  get closed(): CodedError | null {
    return this.#closed;
  }

  async #within<T>(line: Line, name: string | null, deadline: number, run: () => Promise<T>): Promise<T> {
    if (this.#closed) throw this.#closed;
    const { waitMs, inVain } = this.#options;
    await line.enter(deadline, (others) => inVain({ name, others, waitMs }));
    try {
      return await run();
    } finally {
      line.exit();
    }
  }
}
