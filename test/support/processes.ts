/** Running programs of our own and the official Temporal CLI in tests. */
import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { findTemporalBinary } from '../../workers/temporal/binary.ts';
import { type Harness, testBundlePath } from './harness.ts';
import type { WorkerProcessArgument } from './worker-process.ts';

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

export interface WorkerProcess {
  readonly pid: number;
  /** Resolves when it is gone. */
  end(signal: 'SIGKILL' | 'SIGTERM'): Promise<void>;
  signal(name: 'SIGSTOP' | 'SIGCONT'): void;
  /** Makes it throw where nobody catches it, and no tool is to blame. */
  fault(): void;
  /** What it wrote to standard error so far. */
  errors(): string;
  isRunning(): boolean;
  /** Resolves when it says that it freezes, for one with `freezeAfterClaim`. */
  readonly frozen: Promise<unknown>;
  /** Resolves when it has ended, however that was. */
  readonly gone: Promise<unknown>;
}

/** Resolves when it polls. `dir` is where the tools of holding-app.ts write what they did. */
/** Another version of the sources. */
export interface Release {
  /** Its worker-process.ts. */
  readonly program: string;
  readonly bundlePath: string;
}

export async function startWorkerProcess(
  { address, namespace, storeUrl }: Harness,
  modelUrl: string,
  dir: string,
  {
    acceptor = false,
    capacity = {},
    release,
    ...faults
  }: Partial<Omit<WorkerProcessArgument, 'dir' | 'modelUrl' | 'bundlePath' | keyof Harness>> & {
    release?: Release;
  } = {},
): Promise<WorkerProcess> {
  const bundlePath = release?.bundlePath ?? testBundlePath();
  const place = { address, namespace, storeUrl, modelUrl, bundlePath, dir };
  const argument: WorkerProcessArgument = { ...place, acceptor, capacity, ...faults };
  const path = release?.program ?? fileURLToPath(new URL('worker-process.ts', import.meta.url));
  const child = spawn(process.execPath, [path, JSON.stringify(argument)], { stdio: ['pipe', 'pipe', 'pipe'] });
  let errors = '';
  child.stderr.on('data', (chunk) => {
    errors += String(chunk);
    process.stderr.write(chunk);
  });
  const gone = once(child, 'exit');
  await Promise.race([once(child.stdout, 'data'), gone]);
  if (child.exitCode !== null || child.pid === undefined) throw new Error(`the worker ended: ${child.exitCode}`);
  return {
    pid: child.pid,
    gone,
    frozen: once(child.stdout, 'data'),
    errors: () => errors,
    isRunning: () => isRunning(child),
    fault: () => void child.stdin.write('\n'),
    signal: (name) => void child.kill(name),
    async end(signal) {
      if (isRunning(child)) child.kill(signal);
      await gone;
    },
  };
}

const isRunning = ({ exitCode, signalCode }: ChildProcess): boolean => exitCode === null && signalCode === null;
