/** Looks at the processes and files of the installation from outside. */
import { execFile } from 'node:child_process';
import { readdirSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import pg from 'pg';
import type { Child } from './child.ts';
import type { Lab } from './lab.ts';
import { percentile } from './numbers.ts';
import type { WorkerLook } from './worker-process.ts';

const run = promisify(execFile);

const SAMPLE_MS = 500;

export interface MemorySpread {
  readonly medianBytes: number;
  readonly peakBytes: number;
}

/** Reads the resident memory of a worker twice a second, for as long as something is measured. */
export class MemoryProbe {
  readonly #worker: Child;
  readonly #timer: NodeJS.Timeout;
  #samples: number[] = [];
  #asking: Promise<void> = Promise.resolve();
  #busy = false;

  constructor(worker: Child) {
    this.#worker = worker;
    this.#timer = setInterval(() => this.#sample(), SAMPLE_MS);
  }

  async now(): Promise<number> {
    return ((await this.#worker.ask('look')) as WorkerLook).rssBytes;
  }

  async during<T>(work: () => Promise<T>): Promise<{ value: T; seconds: number; memory: MemorySpread }> {
    this.#samples = [await this.now()];
    const startedAt = performance.now();
    const value = await work();
    const seconds = (performance.now() - startedAt) / 1_000;
    const samples = [...this.#samples, await this.now()];
    return { value, seconds, memory: { medianBytes: percentile(samples, 0.5), peakBytes: Math.max(...samples) } };
  }

  async stop(): Promise<void> {
    clearInterval(this.#timer);
    await this.#asking;
  }

  #sample(): void {
    if (this.#busy) return;
    this.#busy = true;
    this.#asking = this.now()
      .then((bytes) => void this.#samples.push(bytes))
      // A worker that ended is missed by whoever waits for its work.
      .catch(() => {})
      .finally(() => {
        this.#busy = false;
      });
  }
}

/** Resident memory and processor time of the Temporal server. */
export async function serverLook({ server }: Lab): Promise<WorkerLook> {
  const { stdout } = await run('ps', ['-o', 'rss=,time=', '-p', String(server.pid)]);
  const [kilobytes, time = '0'] = stdout.trim().split(/\s+/);
  // [[days-]hours:]minutes:seconds
  const [seconds = 0, minutes = 0, hours = 0, days = 0] = time.split(/[-:]/).reverse().map(Number);
  return { rssBytes: Number(kilobytes) * 1024, cpuSeconds: ((days * 24 + hours) * 60 + minutes) * 60 + seconds };
}

/** What is on disk, write-ahead logs included. */
export async function databaseBytes(lab: Lab): Promise<{ store: number; temporal: number }> {
  const temporal = sizeOf(join(lab.dir, 'temporal'), 'temporal.db');
  if (lab.storeKind === 'sqlite') return { store: sizeOf(lab.dir, 'agentturn.db'), temporal };
  const client = new pg.Client({ connectionString: lab.storeUrl });
  await client.connect();
  try {
    const { rows } = await client.query('select pg_database_size(current_database()) as bytes');
    return { store: Number(rows[0].bytes), temporal };
  } finally {
    await client.end();
  }
}

const sizeOf = (dir: string, prefix: string): number =>
  readdirSync(dir)
    .filter((name) => name.startsWith(prefix))
    .reduce((sum, name) => sum + statSync(join(dir, name)).size, 0);
