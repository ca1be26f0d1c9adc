/**
 * Once for the whole test run: a folder for all it writes, a real Temporal dev server on free ports, PostgreSQL, and the workflow bundle.
 * Servers that AGENTTURN_TEST_TEMPORAL and AGENTTURN_TEST_POSTGRES name are used and left running.
 */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { keptBundle } from '../../workers/kept-bundle.ts';
import { findOrStartTemporal, type TemporalServer } from '../../workers/temporal/server.ts';
import { SEARCH_ATTRIBUTES } from '../../workflows/protocol/ids.ts';
import teardown from './global-teardown.ts';
import { openFolder, startPostgres } from './run-parts.ts';

declare global {
  var testTemporal: TemporalServer | undefined;
}

export default async function setup(): Promise<void> {
  const folder = openFolder();
  const parts = await Promise.allSettled([startPostgres(folder), startTemporal(folder), writeBundle(folder)]);
  const failed = parts.find((part) => part.status === 'rejected');
  if (!failed) return;
  // Jest tears nothing down that was not set up.
  await teardown();
  throw failed.reason;
}

async function startTemporal(folder: string): Promise<void> {
  if (process.env.AGENTTURN_TEST_TEMPORAL) return;
  const server = await findOrStartTemporal({
    dataDir: folder,
    port: 0,
    pathEnv: process.env.PATH ?? '',
    searchAttributes: SEARCH_ATTRIBUTES,
    log: () => {},
    unsynced: true,
  });
  globalThis.testTemporal = server;
  process.env.AGENTTURN_TEST_TEMPORAL = server.address;
  process.env.AGENTTURN_TEST_TEMPORAL_UI = server.uiUrl;
}

async function writeBundle(folder: string): Promise<void> {
  const bundle = await keptBundle('WARN');
  const bundlePath = 'codePath' in bundle ? bundle.codePath : join(folder, 'workflow-bundle.js');
  if ('code' in bundle) writeFileSync(bundlePath, bundle.code);
  process.env.AGENTTURN_TEST_BUNDLE = bundlePath;
}
