/** SQLite's result codes, as codes of the catalogue. */
import { CodedError } from '../../../workflows/protocol/failures.ts';

/** By its code alone: the native addon is shared by all copies of its JavaScript in a process, its error class and realm are not. */
function sqliteCode(error: unknown): string | null {
  if (typeof error !== 'object' || error === null || !('code' in error) || typeof error.code !== 'string') return null;
  return error.code.startsWith('SQLITE_') ? error.code : null;
}

export const isBusy = (error: unknown): boolean => /^SQLITE_(BUSY|LOCKED)/.test(sqliteCode(error) ?? '');

export function mapSqliteError(error: unknown, path: string): unknown {
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
    const cure = 'find and stop the process that holds it, then try again';
    return new CodedError('store_locked', `${path} is locked by another process (${detail}); ${cure}`, {
      cause: error,
    });
  }
  if (code.startsWith('SQLITE_CONSTRAINT')) return error;
  const cure = 'check that the folder exists, is writable and has space';
  return new CodedError('store_unavailable', `${path} cannot be used (${detail}); ${cure}`, { cause: error });
}
