/**
 * The right to write one journal of a folder, which several processes may share.
 *
 * Invariant: the lock is the operating system's (through SQLite), so it ends with its process, however that ends. Without it a process could
 * take the line that another one is writing for a torn one, and cut it off.
 */
import { createHash } from 'node:crypto';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Database } from 'better-sqlite3';
import { isBusy } from '../../activities/store/sqlite/errors.ts';
import { CodedError } from '../../workflows/protocol/failures.ts';

/** How many sessions of a folder can be written at once: each shares its lock with others. */
const LOCKS = 64;
/** How long a lock is waited for, less than an attempt of a local activity may take. */
const WAIT_MS = 5_000;
const PAUSE_MS = 10;

/** Runs the body while no other process, and nobody else in this one, writes the session's journal. Errors: `journal_unavailable`. */
export async function withLock<T>(folder: string, sessionId: string, body: () => Promise<T>): Promise<T> {
  const place = (createHash('sha256').update(sessionId).digest()[0] ?? 0) % LOCKS;
  const lock = await take(join(folder, 'locks', `${place}.lock`));
  try {
    return await body();
  } finally {
    lock.close();
  }
}

async function take(file: string): Promise<Database> {
  // Only processes that keep a journal need the driver.
  const { default: Driver } = await import('better-sqlite3');
  const until = performance.now() + WAIT_MS;
  for (;;) {
    let lock: Database | undefined;
    try {
      lock = new Driver(file, { timeout: 0 });
      lock.exec('BEGIN EXCLUSIVE');
      return lock;
    } catch (error) {
      lock?.close();
      if (!isBusy(error))
        throw new CodedError('journal_unavailable', `${file} cannot be locked: ${String(error)}`, { cause: error });
      if (performance.now() > until)
        throw new CodedError('journal_unavailable', `${file} is held by another process, which may be frozen`);
      await sleep(PAUSE_MS);
    }
  }
}
