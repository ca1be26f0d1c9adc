/** The workers of a run, and what replaces each one that ends, however it ended. */
import { setTimeout as sleep } from 'node:timers/promises';
import { lastLines, type Program, signal, startScript } from '../support/programs.ts';
import type { Random } from './random.ts';
import { type ChaosWorker, READY } from './worker-process.ts';

const READY_MS = 60_000;
/** Between the end of a worker and its replacement, as a process manager would wait. */
const RESTART_MS = 500;
const LINES = 6;
/** The least that a worker of turns can do with. */
const FEW_SLOTS = { activities: 2, workflowTasks: 2 } as const;
/** For a worker to end when it is asked to; longer than its grace. */
const ENDING_MS = 15_000;

interface Slot {
  child: Program;
  logPath: string;
  frozen: boolean;
  /** We ended it. */
  killed: boolean;
}

/** What was done to which process. */
export interface Hit {
  readonly pid: number | undefined;
  readonly words: string;
}

export class Fleet {
  readonly #argument: ChaosWorker;
  readonly #dir: string;
  readonly #slots: Slot[] = [];
  readonly #onUnasked: (how: string) => void;
  /** Which of them have few slots, and those that take their place too. */
  readonly #narrow = new Set<number>();
  #started = 0;
  #stopping = false;

  /** `onUnasked` hears of workers that ended without having been killed. */
  constructor(argument: ChaosWorker, dir: string, onUnasked: (how: string) => void) {
    this.#argument = argument;
    this.#dir = dir;
    this.#onUnasked = onUnasked;
  }

  /** Resolves when all poll. */
  async start(count: number): Promise<void> {
    for (let index = 0; index < count; index += 1) this.#slots.push(this.#spawn(index));
    const deadline = Date.now() + READY_MS;
    while (!this.#slots.every(({ logPath }) => lastLines(logPath, 1_000).includes(READY))) {
      if (Date.now() > deadline) {
        throw new Error(`workers are not ready after ${READY_MS / 1_000} s:\n${this.#words()}`);
      }
      await sleep(100);
    }
  }

  /** Kills the worker of this process id where it is up, else any; undefined when none was up. */
  kill(random: Random, pid: number | undefined): Hit | undefined {
    const any = random.pick(this.#slots);
    const slot = this.#slots.find(({ child }) => child.pid === pid) ?? any;
    if (!slot || slot.killed) return undefined;
    slot.killed = true;
    signal(slot.child.pid, 'SIGKILL');
    return { pid: slot.child.pid, words: `worker ${slot.child.pid}${slot.frozen ? ', frozen' : ''}` };
  }

  /** Stops a worker's clock for a while: that of this process id where it runs, else any. One always keeps running. */
  freeze(random: Random, ms: number, pid: number | undefined): Hit | undefined {
    const running = this.#slots.filter((slot) => !slot.frozen && !slot.killed);
    const any = random.pick(running);
    const slot = running.find(({ child }) => child.pid === pid) ?? any;
    if (!slot || running.length < 2) return undefined;
    slot.frozen = true;
    signal(slot.child.pid, 'SIGSTOP');
    setTimeout(() => this.#thaw(slot), ms).unref();
    return { pid: slot.child.pid, words: `worker ${slot.child.pid} for ${ms} ms` };
  }

  /** Replaces so many workers by some with few slots, and these by others after a while: more turns are at work than can be served. */
  narrow(ms: number, count: number): Hit {
    const indexes = this.#slots.map((_, index) => index).slice(0, count);
    for (const index of indexes) this.#narrow.add(index);
    this.#replace(indexes);
    setTimeout(() => this.#widen(), ms).unref();
    return { pid: undefined, words: `${indexes.length} workers with ${FEW_SLOTS.activities} slots for ${ms} ms` };
  }

  /** The process ids of the workers that are up. */
  pids(): readonly number[] {
    return this.#slots.flatMap(({ child }) =>
      child.pid === undefined || child.ended() !== undefined ? [] : [child.pid],
    );
  }

  /** No worker is frozen any more or has few slots. */
  thawAll(): void {
    for (const slot of this.#slots) this.#thaw(slot);
    this.#widen();
  }

  #widen(): void {
    const indexes = [...this.#narrow];
    this.#narrow.clear();
    if (!this.#stopping) this.#replace(indexes);
  }

  /** As a deployment does: each is asked to end, and another one is started in its place. */
  #replace(indexes: readonly number[]): void {
    for (const index of indexes) {
      const slot = this.#slots[index];
      if (!slot || slot.killed) continue;
      slot.killed = true;
      signal(slot.child.pid, 'SIGTERM');
      setTimeout(() => {
        if (slot.child.ended() === undefined) signal(slot.child.pid, 'SIGKILL');
      }, ENDING_MS).unref();
    }
  }

  async stop(): Promise<void> {
    this.#stopping = true;
    this.thawAll();
    await Promise.all(this.#slots.map(({ child }) => child.stop()));
  }

  #thaw(slot: Slot): void {
    if (!slot.frozen) return;
    slot.frozen = false;
    if (slot.child.ended() === undefined) signal(slot.child.pid, 'SIGCONT');
  }

  #spawn(index: number): Slot {
    this.#started += 1;
    const logPath = `${this.#dir}/worker-${index}-${this.#started}.log`;
    const argument = this.#narrow.has(index) ? { ...this.#argument, slots: FEW_SLOTS } : this.#argument;
    const child = startScript(new URL('./worker-process.ts', import.meta.url), argument, logPath, (how, stopping) => {
      if (stopping || this.#stopping) return;
      if (!slot.killed) this.#onUnasked(`${how}: ${lastLines(logPath, LINES)}`);
      setTimeout(() => {
        if (!this.#stopping) this.#slots[index] = this.#spawn(index);
      }, RESTART_MS).unref();
    });
    const slot: Slot = { child, logPath, frozen: false, killed: false };
    return slot;
  }

  #words(): string {
    return this.#slots.map(({ logPath }) => lastLines(logPath, LINES)).join('\n');
  }
}
