/**
 * Once for the whole test run: a folder for all it writes, a real Temporal dev server on free ports, PostgreSQL, and the workflow bundle.
 * Servers that AGENTTURN_TEST_TEMPORAL and AGENTTURN_TEST_POSTGRES name are used and left running.
 */
import { chmodSync, mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { keptBundle } from '../../workers/kept-bundle.ts';
import { findOrStartTemporal, type TemporalServer } from '../../workers/temporal/server.ts';
import { SEARCH_ATTRIBUTES } from '../../workflows/protocol/ids.ts';
import { PostgresServer } from './postgres-server.ts';

declare global {
  /** What the run writes, and its tests: removed at its end. */
  var testFolder: string | undefined;
  var testTemporal: TemporalServer | undefined;
  var testPostgres: PostgresServer | undefined;
}

/** Where the processes that tests start find the code of those before them, compiled: they start in a third of the time. */
const COMPILED = fileURLToPath(new URL('../../node_modules/.cache/agentturn/compiled', import.meta.url));
/** What is written survives the death of any process; no test cuts the machine's power. */
const UNSYNCED = { fsync: 'off', full_page_writes: 'off' };

export default async function setup(): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), 'agentturn-test-'));
  // PostgreSQL may run as a user of its own.
  chmodSync(folder, 0o755);
  globalThis.testFolder = folder;
  process.env.TMPDIR = folder;
  process.env.NODE_COMPILE_CACHE ??= COMPILED;
  if (!process.env.AGENTTURN_TEST_TEMPORAL) {
    const server = await findOrStartTemporal({
      dataDir: folder,
      port: 0,
      pathEnv: process.env.PATH ?? '',
      searchAttributes: SEARCH_ATTRIBUTES,
      log: () => {},
    });
    globalThis.testTemporal = server;
    process.env.AGENTTURN_TEST_TEMPORAL = server.address;
    process.env.AGENTTURN_TEST_TEMPORAL_UI = server.uiUrl;
  }
  const bundle = await keptBundle('WARN');
  const bundlePath = 'codePath' in bundle ? bundle.codePath : join(folder, 'workflow-bundle.js');
  if ('code' in bundle) writeFileSync(bundlePath, bundle.code);
  if (!process.env.AGENTTURN_TEST_POSTGRES) {
    const postgres = await PostgresServer.start(folder, UNSYNCED);
    globalThis.testPostgres = postgres;
    process.env.AGENTTURN_TEST_POSTGRES = postgres.url;
  }
  process.env.AGENTTURN_TEST_BUNDLE = bundlePath;
}
