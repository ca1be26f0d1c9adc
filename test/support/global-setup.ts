/** One real Temporal dev server for the whole test run, on free ports, with its data in a folder of its own. */
import { mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { findOrStartTemporal, type TemporalServer } from '../../workers/temporal-server.ts';
import { SEARCH_ATTRIBUTES } from '../../workflows/protocol/ids.ts';

declare global {
  var testTemporal: TemporalServer | undefined;
}

export default async function setup(): Promise<void> {
  const server = await findOrStartTemporal({
    dataDir: mkdtempSync(join(tmpdir(), 'agentturn-test-')),
    port: 0,
    pathEnv: process.env.PATH ?? '',
    searchAttributes: SEARCH_ATTRIBUTES,
    log: () => {},
  });
  globalThis.testTemporal = server;
  process.env.AGENTTURN_TEST_TEMPORAL = server.address;
  process.env.AGENTTURN_TEST_TEMPORAL_UI = server.uiUrl;
}
