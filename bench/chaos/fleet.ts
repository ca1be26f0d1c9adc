/** The workers of a run, and what replaces each one that ends, however it ended. */
import { setTimeout as sleep } from 'node:timers/promises';
import { type ChaosChild, lastLines, signal, startScript } from './processes.ts';
import type { Random } from './random.ts';
import { type ChaosWorker, READY } from './worker-process.ts';

const READY_MS = 60_000;
/** Between the end of a worker and its replacement, as a process manager would wait. */
const RESTART_MS = 500;
const LINES = 6;

interface Slot {
  child: ChaosChild;
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

  thawAll(): void {
    for (const slot of this.#slots) this.#thaw(slot);
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
    const child = startScript('./worker-process.ts', this.#argument, logPath, (how, stopping) => {
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
