/** How much memory the workers of a run take at most. */
import { readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import type { Problem } from './ledger.ts';

const EVERY_MS = 500;
const MIB = 1024 * 1024;
/** Whatever a model sends, a worker needs no more. */
const MOST_WORKER_BYTES = 1_024 * MIB;

/** The most that a process has ever had in memory, bytes; null where the system does not say, or the process is gone. */
export function peakBytes(pid: number): number | null {
  try {
    const [, kilobytes] = /^VmHWM:\s+(\d+) kB/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8')) ?? [];
    return kilobytes === undefined ? null : Number(kilobytes) * 1024;
  } catch {
    return null;
  }
}

export class WorkerMemory {
  readonly #pids: () => readonly number[];
  readonly #cut = new AbortController();
  #loop: Promise<void> = Promise.resolve();
  #peak: number | null = null;

  constructor(pids: () => readonly number[]) {
    this.#pids = pids;
  }

  start(): void {
    this.#loop = this.#run();
  }

  /** The peak of the largest worker, bytes; null where nothing could be measured. */
  async stop(): Promise<number | null> {
    this.#cut.abort();
    await this.#loop;
    return this.#peak;
  }

  async #run(): Promise<void> {
    const { signal } = this.#cut;
    do {
      for (const pid of this.#pids()) {
        const bytes = peakBytes(pid);
        if (bytes !== null) this.#peak = Math.max(this.#peak ?? 0, bytes);
      }
      await sleep(EVERY_MS, undefined, { signal }).catch(() => {});
    } while (!signal.aborted);
  }
}

export function memoryProblems(workerPeakBytes: number | null): readonly Problem[] {
  if (workerPeakBytes === null || workerPeakBytes <= MOST_WORKER_BYTES) return [];
  const detail = `a worker took ${Math.round(workerPeakBytes / MIB)} MiB, more than ${MOST_WORKER_BYTES / MIB}`;
  return [{ check: 'worker_memory', detail }];
}
