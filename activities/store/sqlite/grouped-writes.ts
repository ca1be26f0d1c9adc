/**
 * Several writes in one transaction: each commit waits for the disk, so whoever has come meanwhile is committed together with the next one.
 *
 * Invariants
 * 1. Nobody is told how his write went before the transaction is committed; when that fails, all writes of the group have failed and none is
 *    in the file.
 * 2. A write that fails leaves nothing behind, and the others of its group as they are.
 * 3. Writes go one after the other, in the order in which they came.
 * 4. The event loop does not turn while a transaction is open: what else it has to run may take long, and other processes wait for the lock.
 */
import { setImmediate } from 'node:timers/promises';
import { CompiledQuery } from 'kysely';
import { type LockedByOthers, untilUnlocked } from '../context.ts';
import { inTransaction } from '../prepared.ts';
import type { Db, Trx } from '../schema/rows.ts';

/** Writes of one transaction at most. */
export const WRITES_TOGETHER = 16;

/** For how long a transaction takes in more writes: other processes wait for the lock meanwhile. */
const LONGEST_MS = 10;

interface Write {
  /** Until when it may wait for the lock, by `performance.now()`. */
  readonly deadline: number;
  /** Writes; returns what tells the caller. Errors: those of what is written. */
  readonly perform: (trx: Trx) => Promise<() => void>;
  readonly fail: (error: unknown) => void;
}

/** The writes of a process to one file. */
export class GroupedWrites {
  readonly #db: Db;
  readonly #locked: LockedByOthers;
  readonly #longestMs: number;
  readonly #waiting: Write[] = [];
  #isWorking = false;

  /** `longestMs`: for how long a transaction takes in more writes. */
  constructor(db: Db, locked: LockedByOthers, longestMs = LONGEST_MS) {
    this.#db = db;
    this.#locked = locked;
    this.#longestMs = longestMs;
  }

  /** Runs a body in a transaction, and resolves when it is committed. Errors: those of the body, and of the transaction. */
  run<T>(deadline: number, body: (trx: Trx) => Promise<T>): Promise<T> {
    const { promise, resolve, reject } = Promise.withResolvers<T>();
    const perform = async (trx: Trx): Promise<() => void> => {
      const value = await body(trx);
      return () => resolve(value);
    };
    this.#waiting.push({ deadline, perform, fail: reject });
    if (!this.#isWorking) void this.#work();
    return promise;
  }

  /** Runs until nobody waits. */
  async #work(): Promise<void> {
    this.#isWorking = true;
    while (this.#waiting.length > 0) {
      // What the event loop has ready may write too. Not within a transaction: code of others would run under the lock.
      await setImmediate();
      const first = this.#waiting.shift();
      if (first) await this.#transact(first);
    }
    this.#isWorking = false;
  }

  async #transact(first: Write): Promise<void> {
    const group = [first];
    try {
      const outcomes = await untilUnlocked(this.#locked, first.deadline, () =>
        inTransaction(this.#db, (trx) => this.#perform(trx, group)),
      );
      for (const tell of outcomes) tell();
    } catch (error) {
      for (const { fail } of group) fail(error);
    }
  }

  /** Performs the writes of the group, which grows by those that wait. */
  async #perform(trx: Trx, group: Write[]): Promise<readonly (() => void)[]> {
    const until = performance.now() + this.#longestMs;
    const outcomes: (() => void)[] = [];
    for (const write of group) {
      // Nothing stands before the first one: when it fails, the transaction is taken back with it.
      outcomes.push(await (write === group[0] ? write.perform(trx) : performApart(trx, write)));
      const next = group.length < WRITES_TOGETHER && performance.now() < until ? this.#waiting.shift() : undefined;
      if (next) group.push(next);
    }
    return outcomes;
  }
}

/** Performs a write that leaves those before it as they are when it fails, which is told like the rest. */
async function performApart(trx: Trx, { perform, fail }: Write): Promise<() => void> {
  await trx.executeQuery(SAVEPOINT);
  try {
    const tell = await perform(trx);
    await trx.executeQuery(RELEASE);
    return tell;
  } catch (error) {
    await undo(trx, error);
    return () => fail(error);
  }
}

const SAVEPOINT = CompiledQuery.raw('savepoint write_of_group');
const RELEASE = CompiledQuery.raw('release write_of_group');
const UNDO = CompiledQuery.raw('rollback to write_of_group');

/** Takes back what a write has done. Errors: its own, where the whole transaction is lost already, as when the disk is full. */
async function undo(trx: Trx, error: unknown): Promise<void> {
  try {
    await trx.executeQuery(UNDO);
    await trx.executeQuery(RELEASE);
  } catch {
    throw error;
  }
}
