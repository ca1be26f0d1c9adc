/** A short run of `npm run bench:kernel`: every kind of event at every size, and what does not depend on the machine. */
import { execFile } from 'node:child_process';
import { mkdtempSync, readFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { expect, test } from '@jest/globals';
import type { BudgetLine } from '../../bench/budget.ts';
import type { KernelResults } from '../../bench/kernel/measure.ts';
import { LEGAL } from '../../workflows/kernel/legality.ts';

const run = promisify(execFile);
const main = fileURLToPath(new URL('../../bench/kernel/main.ts', import.meta.url));

test('the kernel is measured at three sizes, with every kind of event', async () => {
  const json = join(mkdtempSync(join(tmpdir(), 'agentturn-kernel-bench-')), 'results.json');
  // So few rounds that its times say nothing, and it may end with 1.
  await run(process.execPath, [main, '--rounds', '3', '--json', json]).catch(() => {});
  const { sizes, targets } = JSON.parse(readFileSync(json, 'utf8')) as KernelResults & { targets: BudgetLine[] };
  expect(sizes.map(({ handles }) => handles)).toEqual([100, 1_000, 10_000]);
  for (const { timings } of sizes) {
    const kinds = new Set(timings.map(({ name }) => name.split(/[,:]/)[0]));
    expect([...kinds]).toEqual(expect.arrayContaining(Object.keys(LEGAL.ready)));
    for (const { micros } of timings) expect(micros).toMatchObject({ n: 3, p50: expect.any(Number) });
  }
  expect(targets.slice(1)).toMatchObject([{ ok: true }, { ok: true }, { ok: true }]);
});
