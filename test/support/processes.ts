/** Running programs of our own and the official Temporal CLI in tests. */
import { execFile } from 'node:child_process';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { findTemporalBinary } from '../../workers/temporal-binary.ts';
import type { Harness } from './harness.ts';

const run = promisify(execFile);

/** Runs a TypeScript file of this repository and returns its stdout. */
export async function runScript(file: string, args: readonly string[]): Promise<string> {
  const path = fileURLToPath(new URL(`../../${file}`, import.meta.url));
  const { stdout } = await run(process.execPath, [path, ...args]);
  return stdout;
}

/** Runs the Temporal CLI against the harness's namespace. */
export async function temporalCli(harness: Harness, args: readonly string[]): Promise<string> {
  const { path } = await findTemporalBinary({ pathEnv: process.env.PATH ?? '', log: () => {}, tried: [] });
  const where = ['--address', harness.address, '--namespace', harness.namespace];
  const { stdout } = await run(path, [...args, ...where]);
  return stdout;
}
