/** What each layer of the tests needs of a run: a folder for all it writes, and PostgreSQL. */
import { chmodSync, mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { PostgresServer } from './postgres-server.ts';

declare global {
  /** What the run writes, and its tests: removed at its end. */
  var testFolder: string | undefined;
  var testPostgres: PostgresServer | undefined;
}

/** Where the processes that tests start find the code of those before them, compiled: they start in a third of the time. */
const COMPILED = fileURLToPath(new URL('../../node_modules/.cache/agentturn/compiled', import.meta.url));
/** What is written survives the death of any process; no test cuts the machine's power. */
const UNSYNCED = { fsync: 'off', full_page_writes: 'off' };

/** The folder in which all temporary files of the run are made. */
export function openFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'agentturn-test-'));
  // PostgreSQL may run as a user of its own.
  chmodSync(folder, 0o755);
  globalThis.testFolder = folder;
  process.env.TMPDIR = folder;
  process.env.NODE_COMPILE_CACHE ??= COMPILED;
  return folder;
}

/** A server of the run's own, unless AGENTTURN_TEST_POSTGRES names one. */
export async function startPostgres(folder: string): Promise<void> {
  if (process.env.AGENTTURN_TEST_POSTGRES) return;
  const postgres = await PostgresServer.start(folder, UNSYNCED);
  globalThis.testPostgres = postgres;
  process.env.AGENTTURN_TEST_POSTGRES = postgres.url;
}
