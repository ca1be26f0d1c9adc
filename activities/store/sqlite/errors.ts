/** SQLite's result codes, as codes of the catalogue. */
import { CodedError } from '../../../workflows/protocol/failures.ts';
import type { VainWait } from '../admission.ts';

/**
 * The result code of an error of SQLite; null for any other error. An error is known by its code alone: the native addon is shared by all
 * copies of its JavaScript in a process, its error class and realm are not.
 */
function sqliteCode(error: unknown): string | null {
  if (typeof error !== 'object' || error === null || !('code' in error) || typeof error.code !== 'string') return null;
  return error.code.startsWith('SQLITE_') ? error.code : null;
}

const CURE = 'find the process that holds it (fuser FILE), let it go on or stop it, then try again';

/** Whether another connection holds the lock of the file: nothing was written. */
export const isBusy = (error: unknown): boolean => /^SQLITE_(BUSY|LOCKED)/.test(sqliteCode(error) ?? '');

/** The file that an error is about. */
export interface StoreFile {
  readonly path: string;
  /** How long a caller waits for the lock, ms. */
  readonly waitMs: number;
}

/** The error as a code of the catalogue; unchanged where it is none of SQLite's, or a constraint that a statement broke. */
export function mapSqliteError(error: unknown, { path, waitMs }: StoreFile): unknown {
  const code = sqliteCode(error);
  if (code === null) return error;
  const detail = `${code}: ${String(error)}`;
  if (code.startsWith('SQLITE_CORRUPT') || code === 'SQLITE_NOTADB') {
    const cure = 'restore a backup, or move the file aside to start with an empty store';
    return new CodedError('store_corrupt', `${path} is damaged or not a SQLite database (${detail}); ${cure}`, {
      cause: error,
    });
  }
  if (isBusy(error)) {
    const message = `${path} was locked by another process for ${waitMs / 1_000} s (${detail}); ${CURE}`;
    return new CodedError('store_locked', message, { cause: error });
  }
  if (code.startsWith('SQLITE_CONSTRAINT')) return error;
  const cure = 'check that the folder exists, is writable and has space';
  return new CodedError('store_unavailable', `${path} cannot be used (${detail}); ${cure}`, { cause: error });
}

/** `store_locked`, for a write that waited too long behind other writes of this process. */
export function waitedInVain({ others, waitMs }: VainWait, path: string): CodedError {
  const message = `waited ${waitMs / 1_000} s behind ${others} other writes of this process to ${path}, which is slow or locked by another process; ${CURE}`;
  return new CodedError('store_locked', message);
}
