/**
 * How long turns stand still when one of two workers freezes (SIGSTOP): each round, turns are started before and after a random moment at which
 * one of them freezes, and all must end on the other. What the frozen worker was handed is lost until its timeout.
 */
import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import SqliteDatabase from 'better-sqlite3';
import type { Child } from './child.ts';
import { type Facts, gatherFacts, loadNow } from './facts.ts';
import type { Lab, StoreKind } from './lab.ts';
import { section, short, table, whole } from './markdown.ts';
import { type Spread, spreadOf } from './numbers.ts';
import { machineLine } from './report.ts';
import { instructionOf, PROFILE } from './workload.ts';

export interface FrozenResults {
  readonly facts: Facts;
  readonly store: StoreKind;
  readonly freezes: number;
  /** Moments at which a worker held the lock of the SQLite file, where nobody could write until it was woken at once. */
  readonly inWrites: number;
  /** Milliseconds from the freeze to the end of turns that were open at that moment. */
  readonly before: Spread;
  /** Milliseconds from the start to the end of turns that were started while a worker was frozen. */
  readonly after: Spread;
  /** Milliseconds that a turn takes while both workers run. */
  readonly usual: Spread;
  /** Effects of a tool that may act once, beyond the first of a call. */
  readonly repeated: number;
  /** What the store finds wrong. */
  readonly violations: number;
}

const WORK = { tool: 'linger', calls: 4, bytes: 0 } as const;
const TURNS = 5;
/** Within which turns are started on either side of the freeze. */
const SPAN_MS = 2_000;
const LONGEST_MS = 120_000;
/** In which a worker that has woken up takes in what it was told meanwhile. */
const WAKE_MS = 2_000;
/** For a write to get its lock while nobody is frozen with it. */
const LOCK_MS = 500;
const LIMIT_MS = 45_000;

interface Round {
  readonly inWrites: number;
  readonly before: readonly number[];
  readonly after: readonly number[];
}

export async function measureFrozen(lab: Lab, freezes: number, say: (line: string) => void): Promise<FrozenResults> {
  const facts = await gatherFacts(lab, loadNow());
  const effectsPath = join(lab.dir, 'effects');
  const workers = [await lab.startWorker({ effectsPath }), await lab.startWorker({ effectsPath })];
  const usual: number[] = [];
  const rounds: Round[] = [];
  try {
    for (let turn = 0; turn < TURNS; turn += 1) usual.push(await turnMs(lab));
    for (let round = 1; round <= freezes; round += 1) {
      const ended = await freeze(lab, workers[round % 2] as Child);
      rounds.push(ended);
      const { before, after } = ended;
      say(`freeze ${round}: ${[...before, ...after].map((ms) => (ms / 1_000).toFixed(1)).join(' ')} s`);
    }
  } finally {
    await Promise.all(workers.map((worker) => worker.stop()));
  }
  const violations = (await lab.store.violations()).length;
  return {
    facts,
    store: lab.storeKind,
    freezes,
    inWrites: rounds.reduce((sum, { inWrites }) => sum + inWrites, 0),
    before: spreadOf(rounds.flatMap(({ before }) => before)),
    after: spreadOf(rounds.flatMap(({ after }) => after)),
    usual: spreadOf(usual),
    repeated: repeatedIn(effectsPath),
    violations,
  };
}

async function freeze(lab: Lab, worker: Child): Promise<Round> {
  const moments = Array.from({ length: TURNS }, () => Math.random() * SPAN_MS);
  const start = async (wait: number) => {
    await sleep(wait);
    const startedAt = performance.now();
    await turnMs(lab);
    return { startedAt, endedAt: performance.now() };
  };
  const early = Promise.all(moments.map(start));
  // Awaited below, and may fail before.
  early.catch(() => {});
  await sleep(Math.random() * SPAN_MS);
  const wake = () => process.kill(worker.pid, 'SIGCONT');
  // A frozen process would outlive a bench that is given up.
  process.once('exit', wake);
  try {
    const inWrites = await stop(lab, worker);
    const frozenAt = performance.now();
    const late = Promise.all(moments.map(start));
    const ended = (await Promise.all([early, late])).flat();
    const open = ended.filter(({ startedAt, endedAt }) => startedAt < frozenAt && endedAt > frozenAt);
    return {
      inWrites,
      before: open.map(({ endedAt }) => endedAt - frozenAt),
      after: ended
        .filter(({ startedAt }) => startedAt >= frozenAt)
        .map(({ startedAt, endedAt }) => endedAt - startedAt),
    };
  } finally {
    wake();
    process.off('exit', wake);
    await sleep(WAKE_MS);
  }
}

/** Freezes a worker, not while it holds the lock of a SQLite file; returns how often it did. */
async function stop({ storeKind, storeUrl }: Lab, { pid }: Child): Promise<number> {
  for (let inWrites = 0; ; inWrites += 1) {
    process.kill(pid, 'SIGSTOP');
    if (storeKind !== 'sqlite' || isFree(storeUrl.slice('sqlite:'.length))) return inWrites;
    process.kill(pid, 'SIGCONT');
    await sleep(Math.random() * LOCK_MS);
  }
}

/** Whether a write gets the lock; the other worker's writes are short. */
function isFree(path: string): boolean {
  const database = new SqliteDatabase(path, { timeout: LOCK_MS });
  try {
    database.exec('begin immediate; rollback');
    return true;
  } catch (error) {
    if (error instanceof SqliteDatabase.SqliteError && error.code === 'SQLITE_BUSY') return false;
    throw error;
  } finally {
    database.close();
  }
}

/** Milliseconds of a turn of a new agent. Throws when it does not succeed. */
async function turnMs({ client }: Lab): Promise<number> {
  const startedAt = performance.now();
  const turn = await client.run(PROFILE, { instruction: instructionOf(WORK) });
  const { status } = await turn.result({ timeoutMs: LONGEST_MS });
  if (status !== 'success') throw new Error(`a turn beside a frozen worker ended ${status}`);
  return performance.now() - startedAt;
}

function repeatedIn(effectsPath: string): number {
  if (!existsSync(effectsPath)) return 0;
  const calls = readFileSync(effectsPath, 'utf8').trim().split('\n');
  return calls.length - new Set(calls).size;
}

export function frozenBudget({ before, after, repeated, violations }: FrozenResults): string[] {
  // Few freezes may meet no open turn.
  const late = [before, after].filter(({ max }) => max > LIMIT_MS);
  return [
    ...late.map(({ max }) => `a turn stood still for ${whole(max / 1_000)} s, at most ${LIMIT_MS / 1_000}`),
    ...(repeated > 0 ? [`${repeated} calls acted twice`] : []),
    ...(violations > 0 ? [`${violations} violations`] : []),
  ];
}

export function frozenMarkdown({ facts, store, freezes, ...results }: FrozenResults): string {
  const seconds = (ms: number) => short(ms / 1_000);
  const row = (what: string, { n, p50, max }: Spread): string[] => [what, whole(n), seconds(p50), seconds(max)];
  return [
    machineLine(facts, store),
    section(
      `One of two workers frozen ${freezes} times; moved out of a write: ${results.inWrites}; calls that acted twice: ${results.repeated}, violations: ${results.violations}`,
      table(
        ['turns', 'n', 'p50 s', 'longest s'],
        [
          row('both workers run', results.usual),
          row('open when one freezes, until their end', results.before),
          row('started while one is frozen', results.after),
        ],
      ),
    ),
  ].join('\n\n');
}
