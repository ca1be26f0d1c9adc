/** A short chaos run, as `npm run chaos` does it: crashes, outages and endings from outside, and no promise broken. */
import { execFile } from 'node:child_process';
import { mkdtempSync, readFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { expect, test } from '@jest/globals';
import type { ChaosReport } from './report.ts';

const run = promisify(execFile);
const main = fileURLToPath(new URL('./main.ts', import.meta.url));

test('a short chaos run breaks no promise, and every ending has its cause', async () => {
  const report = await chaos(['--minutes', '0.75', '--seed', '7', '--endings', '12', '--drain', '150']);
  expect(report.faults.length).toBeGreaterThan(5);
  expect(report.turns).toBeGreaterThan(20);
  expect(report.untouchedSuccess).toBe(report.untouched);
  expect(report.counts['runs that continued as new']).toBeGreaterThan(0);
  expect(report.counts['foreign requests to an acceptor']).toBeGreaterThan(0);
  expect(report.counts['turns without a count of tokens']).toBeGreaterThan(0);
  expect(Object.keys(report.counts).some((name) => name.startsWith('hostile answers'))).toBe(true);
}, 360_000);

test('with few slots, frozen clients and requests that nobody can run, all others are done', async () => {
  const faults = ['--faults', 'backlog,client,poison', '--endings', '0', '--drain', '150'];
  const report = await chaos(['--minutes', '0.75', '--seed', '3', '--agents', '12', ...faults]);
  expect(Object.keys(report.faultsByKind)).toEqual(
    expect.arrayContaining(['few slots', 'freeze a client in a transaction', 'poisoned queue']),
  );
  expect(report.endings['failed/box_unavailable']).toBe(report.counts['requests that nobody can run']);
  expect(report.counts['requests that nobody can run']).toBeGreaterThan(50);
  expect(report.untouchedSuccess).toBe(report.untouched);
}, 360_000);

/** The report of a run on SQLite in which no promise was broken. */
async function chaos(args: readonly string[]): Promise<ChaosReport> {
  const json = join(mkdtempSync(join(tmpdir(), 'agentturn-chaos-test-')), 'report.json');
  // It ends with 1 on any problem; the report says more than the exit code.
  const { stderr } = await run(process.execPath, [main, ...args, '--json', json]).catch(
    (error: { stderr: string }) => error,
  );
  const report = readReport(json, stderr);
  expect(report.violations).toEqual([]);
  expect(report.unexplained).toEqual([]);
  return report;
}

function readReport(path: string, stderr: string): ChaosReport {
  try {
    return JSON.parse(readFileSync(path, 'utf8')) as ChaosReport;
  } catch {
    throw new Error(`the run left no report:\n${stderr}`);
  }
}
