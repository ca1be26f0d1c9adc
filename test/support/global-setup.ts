/**
 * Once for the whole test run: a real Temporal dev server on free ports, with its data in a folder of its own, PostgreSQL, and the
 * workflow bundle. Servers that AGENTTURN_TEST_TEMPORAL and AGENTTURN_TEST_POSTGRES name are used and left running.
 */
import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { findOrStartTemporal, type TemporalServer } from '../../workers/temporal-server.ts';
import { bundleWorkflows } from '../../workers/worker.ts';
import { SEARCH_ATTRIBUTES } from '../../workflows/protocol/ids.ts';
import { startPostgres, type TestPostgres } from './postgres.ts';

declare global {
  var testTemporal: TemporalServer | undefined;
  var testPostgres: TestPostgres | undefined;
}

export default async function setup(): Promise<void> {
  const dataDir = mkdtempSync(join(tmpdir(), 'agentturn-test-'));
  if (!process.env.AGENTTURN_TEST_TEMPORAL) {
    const server = await findOrStartTemporal({
      dataDir,
      port: 0,
      pathEnv: process.env.PATH ?? '',
      searchAttributes: SEARCH_ATTRIBUTES,
      log: () => {},
    });
    globalThis.testTemporal = server;
    process.env.AGENTTURN_TEST_TEMPORAL = server.address;
    process.env.AGENTTURN_TEST_TEMPORAL_UI = server.uiUrl;
  }
  const bundle = await bundleWorkflows();
  const bundlePath = join(dataDir, 'workflow-bundle.js');
  writeFileSync(bundlePath, bundle.code);
  if (!process.env.AGENTTURN_TEST_POSTGRES) {
    const postgres = await startPostgres();
    if (postgres) {
      globalThis.testPostgres = postgres;
      process.env.AGENTTURN_TEST_POSTGRES = postgres.url;
    }
  }
  process.env.AGENTTURN_TEST_BUNDLE = bundlePath;
}
