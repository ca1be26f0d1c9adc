/**
 * The data folder of the dev server: its SQLite file, who holds it, and where its server answers.
 *
 * Invariants
 * 1. At most one server runs on a data folder. Two on one SQLite file do start, then steal the history shard from each other and fail calls
 *    with SQLITE_BUSY, so the process that starts a server holds an exclusive lock meanwhile.
 * 2. The lock is the operating system's (through SQLite), so it ends with its process, however that ends.
 * 3. While no process holds the lock, the record of the running server means nothing.
 */
import { join, resolve } from 'node:path';
import Database from 'better-sqlite3';
import { makeFolder } from '../../activities/folder.ts';
import { isBusy } from '../../activities/store/sqlite/errors.ts';
import { CodedError } from '../../workflows/protocol/failures.ts';
import { readServerRecord, removeServerRecord, type ServerRecord, writeServerRecord } from './server-record.ts';

/** The sole right to run a server on a data folder. */
export interface DataDirClaim {
  /** The path of the server's SQLite file. */
  readonly dbFile: string;
  /** The server of an owner that died without cleaning up, whose process may still be on its way out; undefined when there was none. */
  readonly orphan: ServerRecord | undefined;
  /** Writes down where the server answers, for other processes that use the data folder. */
  publish(record: ServerRecord): void;
  /** Gives the folder up, and removes the record of its server. A second time does nothing. */
  release(): void;
}

/**
 * The claim, or undefined while another process (or another server of this one) holds the folder. Throws `temporal_start_failed` when the
 * folder cannot be used.
 */
export function claimDataDir(dataDir: string): DataDirClaim | undefined {
  const dir = resolve(dataDir);
  const lock = takeLock(dir);
  if (lock === undefined) return undefined;
  const orphan = readServerRecord(dir);
  removeServerRecord(dir);
  return {
    dbFile: join(dir, 'temporal.db'),
    orphan,
    publish: (server) => writeServerRecord(dir, server),
    release: () => {
      if (lock.open) removeServerRecord(dir);
      lock.close();
    },
  };
}

function takeLock(dir: string): Database.Database | undefined {
  let lock: Database.Database | undefined;
  try {
    makeFolder(dir);
    lock = new Database(join(dir, 'temporal.lock'), { timeout: 0 });
    lock.exec('BEGIN EXCLUSIVE');
    return lock;
  } catch (error) {
    lock?.close();
    if (isBusy(error)) return undefined;
    const reason = error instanceof Error ? error.message : String(error);
    throw new CodedError(
      'temporal_start_failed',
      `Cannot use ${dir} for Temporal's data: ${reason}. Make the folder writable or name another one.`,
      { cause: error },
    );
  }
}
