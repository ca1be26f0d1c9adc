/** SQLite's result codes, as codes of the catalogue. */
import SqliteDatabase from 'better-sqlite3';
import { CodedError } from '../../../workflows/protocol/failures.ts';

export function mapSqliteError(error: unknown, path: string): unknown {
  if (!(error instanceof SqliteDatabase.SqliteError)) return error;
  const detail = `${error.code}: ${error.message}`;
  if (error.code.startsWith('SQLITE_CORRUPT') || error.code === 'SQLITE_NOTADB') {
    const cure = 'restore a backup, or move the file aside to start with an empty store';
    return new CodedError('store_corrupt', `${path} is damaged or not a SQLite database (${detail}); ${cure}`, {
      cause: error,
    });
  }
  if (error.code.startsWith('SQLITE_BUSY') || error.code.startsWith('SQLITE_LOCKED')) {
    const cure = 'find and stop the process that holds it, then try again';
    return new CodedError('store_locked', `${path} is locked by another process (${detail}); ${cure}`, {
      cause: error,
    });
  }
  if (error.code.startsWith('SQLITE_CONSTRAINT')) return error;
  const cure = 'check that the folder exists, is writable and has space';
  return new CodedError('store_unavailable', `${path} cannot be used (${detail}); ${cure}`, { cause: error });
}
