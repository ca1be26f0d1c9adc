/**
 * The data folder of the dev server: its SQLite file, who holds it, and where its server answers.
 *
 * Invariants
 * 1. At most one server runs on a data folder. Two on one SQLite file do start, then steal the history shard from each
 *    other and fail calls with SQLITE_BUSY, so the process that starts a server holds an exclusive lock meanwhile.
 * 2. The lock is the operating system's (through SQLite), so it ends with its process, however that ends.
 * 3. The record of the running server is replaced whole; without the lock held by somebody it means nothing.
 */
import { readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';
import Database from 'better-sqlite3';
import { makeFolder } from '../../activities/folder.ts';
import { isBusy } from '../../activities/store/sqlite/errors.ts';
import { CodedError } from '../../workflows/protocol/failures.ts';

export interface ServerRecord {
  port: number;
  uiUrl?: string | undefined;
}

export interface DataDirClaim {
  readonly dbFile: string;
  /** The server of an owner that died without cleaning up; its process may still be on its way out. */
  readonly orphan: ServerRecord | undefined;
  publish(record: ServerRecord): void;
  release(): void;
}

/** The claim, or undefined while another process (or another server of this one) holds the folder. */
export function claimDataDir(dataDir: string): DataDirClaim | undefined {
  const dir = resolve(dataDir);
  const lock = takeLock(dir);
  if (lock === undefined) return undefined;
  const orphan = readServerRecord(dir);
  const record = recordFile(dir);
  rmSync(record, { force: true });
  return {
    dbFile: join(dir, 'temporal.db'),
    orphan,
    publish: (server) => {
      writeFileSync(`${record}.new`, JSON.stringify(server));
      renameSync(`${record}.new`, record);
    },
    release: () => {
      if (lock.open) rmSync(record, { force: true });
      lock.close();
    },
  };
}

export function readServerRecord(dataDir: string): ServerRecord | undefined {
  try {
    const { port, uiUrl } = JSON.parse(readFileSync(recordFile(resolve(dataDir)), 'utf8')) as Record<string, unknown>;
    if (typeof port !== 'number') return undefined;
    return { port, ...(typeof uiUrl === 'string' ? { uiUrl } : {}) };
  } catch {
    // No record, or one that says nothing: nobody has published a server here.
    return undefined;
  }
}

function recordFile(dir: string): string {
  return join(dir, 'temporal-server.json');
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
