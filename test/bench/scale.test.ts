/** A short run of `npm run bench -- --scale`: what is measured, on stores as they should be. How rows are found: plans.test.ts. */
import { chmodSync, mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from '@jest/globals';
import { STORES } from '../../bench/lab.ts';
import { measureScale, seededStore } from '../../bench/scale/measure.ts';
import { scaleMarkdown } from '../../bench/scale/report.ts';
import { everyAgent } from '../../client/agent-pages.ts';
import { openStore } from '../../workers/open-store.ts';
import { PostgresServer } from '../support/postgres-server.ts';

const LONGEST_MS = 240_000;

test.each(STORES)(
  'a store of many turns on %s keeps the promise, and its agents are listed to the last',
  async (kind) => {
    const dir = mkdtempSync(join(tmpdir(), 'agentturn-scale-test-'));
    // PostgreSQL may run as a user of its own.
    chmodSync(dir, 0o755);
    const server = kind === 'postgres' ? await PostgresServer.start(dir) : null;
    const url = server?.url ?? `sqlite:${join(dir, 'agentturn.db')}`;
    const { agents } = await seededStore(url, 20_000);
    const store = await openStore(url);
    try {
      expect(await store.violations()).toEqual([]);
      const ids = new Set<string>();
      for await (const { agentId } of everyAgent(store)) ids.add(agentId);
      // Also the one that all others are copies of.
      expect(ids.size).toBe(agents + 1);
    } finally {
      await store.close();
      await server?.stop();
    }
  },
  LONGEST_MS,
);

test.each(STORES)(
  'the same operations are measured on each size of a store on %s',
  async (kind) => {
    const results = await measureScale({ store: kind, sizes: [1_000, 20_000], rounds: 3 }, () => {});
    const [small = {}, large = {}] = results.sizes.map(({ spreads }) => spreads);
    expect(Object.keys(large)).toEqual(Object.keys(small));
    for (const spread of Object.values(large)) expect(spread).toMatchObject({ n: 3, p99: expect.any(Number) });
    expect(scaleMarkdown(results)).toMatch(/^\| accept and lease, 10,000 cards behind it +\|/m);
  },
  LONGEST_MS,
);
