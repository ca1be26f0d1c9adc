/** A short run of `npm run bench -- --suspended`: all turns wait, cost their worker little, and end with success. */
import { execFile } from 'node:child_process';
import { mkdtempSync, readFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { expect, test } from '@jest/globals';
import { STORES } from '../../bench/lab.ts';
import type { SuspendedResults } from '../../bench/suspended.ts';

const run = promisify(execFile);
const main = fileURLToPath(new URL('../../bench/main.ts', import.meta.url));

test.each(STORES)(
  '50 suspended turns on %s are answered, and all end with success',
  async (store) => {
    const json = join(mkdtempSync(join(tmpdir(), 'agentturn-suspended-test-')), 'results.json');
    // It ends with 1 when a turn failed or the worker is over its budget.
    await run(process.execPath, [main, '--store', store, '--suspended', '50', '--rest', '1', '--json', json]);
    const results = JSON.parse(readFileSync(json, 'utf8')) as SuspendedResults;
    expect(results).toMatchObject({ store, turns: 50, failed: 0 });
    // Waiting adds nothing to a history: the figures are those of the budget, a little more where tasks were split.
    expect(results.events.waitingTurn).toBeLessThanOrEqual(20);
    expect(results.events.turn).toBeLessThanOrEqual(37);
  },
  240_000,
);
