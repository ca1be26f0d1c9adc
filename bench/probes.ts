/** Looks at the machine, and at the processes and files of the installation, from outside. What is read in /proc needs Linux. */
import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import pg from 'pg';
import type { Child } from './child.ts';
import type { Lab } from './lab.ts';
import { percentile } from './numbers.ts';

const SAMPLE_MS = 500;

/** Linux shows times in /proc in hundredths of a second. */
const TICKS_PER_SECOND = 100;

export interface MemorySpread {
  readonly medianBytes: number;
  readonly peakBytes: number;
}

export interface Watched<T> {
  readonly value: T;
  readonly seconds: number;
  readonly cpuSeconds: number;
  readonly memory: MemorySpread;
}

/** Watches a process while `work` runs; its resident memory is read twice a second. */
export async function watch<T>(pid: number, work: () => Promise<T>): Promise<Watched<T>> {
  const samples = [residentBytes(pid)];
  const timer = setInterval(() => {
    // Whoever waits for the work of a process that has ended learns of its end without this sample.
    if (existsSync(`/proc/${pid}`)) samples.push(residentBytes(pid));
  }, SAMPLE_MS);
  const startedAt = performance.now();
  const cpuBefore = cpuSeconds(pid);
  try {
    const value = await work();
    samples.push(residentBytes(pid));
    return {
      value,
      seconds: (performance.now() - startedAt) / 1_000,
      cpuSeconds: cpuSeconds(pid) - cpuBefore,
      memory: { medianBytes: percentile(samples, 0.5), peakBytes: Math.max(...samples) },
    };
  } finally {
    clearInterval(timer);
  }
}

export function residentBytes(pid: number): number {
  const [, kilobytes] = /^VmRSS:\s+(\d+) kB/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8')) ?? [];
  return Number(kilobytes) * 1024;
}

/** The processor time of one process, all its threads together. */
export const cpuSeconds = (pid: number): number => statOf(pid).ownTicks / TICKS_PER_SECOND;

/** The processor time of a process and of all children it has or had. */
function treeCpuSeconds(pid: number): number {
  let { ownTicks: ticks, reapedTicks } = statOf(pid);
  ticks += reapedTicks;
  for (const name of readdirSync('/proc')) {
    const child = /^\d+$/.test(name) ? statIfThere(Number(name)) : null;
    if (child?.parent === pid) ticks += child.ownTicks;
  }
  return ticks / TICKS_PER_SECOND;
}

interface ProcessStat {
  readonly parent: number;
  readonly ownTicks: number;
  /** The time of children that have ended. */
  readonly reapedTicks: number;
}

function statOf(pid: number): ProcessStat {
  const text = readFileSync(`/proc/${pid}/stat`, 'utf8');
  // The fields from the third on: the second is the program's name in parentheses, and may hold spaces.
  const fields = text.slice(text.lastIndexOf(')') + 2).split(' ');
  const [parent = 0, user = 0, system = 0, childUser = 0, childSystem = 0] = [1, 11, 12, 13, 14].map((index) =>
    Number(fields[index]),
  );
  return { parent, ownTicks: user + system, reapedTicks: childUser + childSystem };
}

/** Null for a process that has ended since it was listed. */
function statIfThere(pid: number): ProcessStat | null {
  try {
    return statOf(pid);
  } catch {
    return null;
  }
}

/** The processes whose processor time a turn takes. On SQLite there is none for the database. */
export const PARTS = ['engine', 'worker', 'client', 'model', 'database'] as const;
export type PartTimes = Readonly<Record<(typeof PARTS)[number], number>>;

/** The processor time of each part until now, in seconds. */
export function partSeconds(lab: Lab, worker: Child, callers: Child): PartTimes {
  return {
    engine: cpuSeconds(serverPid(lab)),
    worker: cpuSeconds(worker.pid),
    client: cpuSeconds(callers.pid),
    model: cpuSeconds(lab.model.pid),
    database: lab.storeKind === 'postgres' ? treeCpuSeconds(postgresPid(lab)) + poolerSeconds(lab) : 0,
  };
}

export function serverPid({ server }: Lab): number {
  if (server.pid === undefined) throw new TypeError('the Temporal server of a bench is started by the bench');
  return server.pid;
}

const poolerSeconds = ({ pooler }: Lab): number => (pooler?.pid === undefined ? 0 : treeCpuSeconds(pooler.pid));

/** PostgreSQL writes the id of its first process into its data folder. */
const postgresPid = ({ dir }: Lab): number =>
  Number(readFileSync(join(dir, 'postgres', 'postmaster.pid'), 'utf8').split('\n')[0]);

/** The machine's processor time since it was started, in seconds of all cores; `stolen` is what its host gave to other machines. */
export function machineSeconds(): { readonly idle: number; readonly stolen: number; readonly all: number } {
  const [line = ''] = readFileSync('/proc/stat', 'utf8').split('\n');
  // user, nice, system, idle, iowait, irq, softirq, steal; the times of guests that follow are in user and nice already.
  const ticks = line.trim().split(/\s+/).slice(1, 9).map(Number);
  const [, , , idle = 0, waiting = 0, , , stolen = 0] = ticks.map((value) => value / TICKS_PER_SECOND);
  return { idle: idle + waiting, stolen, all: ticks.reduce((sum, value) => sum + value, 0) / TICKS_PER_SECOND };
}

/** What is on disk, write-ahead logs included. */
export async function databaseBytes(lab: Lab): Promise<{ store: number; temporal: number }> {
  const temporal = sizeOf(join(lab.dir, 'temporal'), 'temporal.db');
  if (lab.storeKind === 'sqlite') return { store: sizeOf(lab.dir, 'agentturn.db'), temporal };
  return { store: await numberFrom(lab, 'select pg_database_size(current_database())'), temporal };
}

/** Where the header of SQLite's WAL index counts the transactions that were committed, each with an fsync of the log. */
const WAL_COMMITS_AT = 8;

const WAL_SYNCS_FROM_18 = "select sum(fsyncs) from pg_stat_io where object = 'wal'";

/** How often the store has waited for its disk until now, checkpoints left out: PostgreSQL tells of it up to a second later. */
export async function storeSyncs(lab: Lab): Promise<number> {
  if (lab.storeKind === 'postgres') {
    const version = await numberFrom(lab, "select current_setting('server_version_num')");
    return numberFrom(lab, version >= 18_00_00 ? WAL_SYNCS_FROM_18 : 'select wal_sync from pg_stat_wal');
  }
  return readFileSync(join(lab.dir, 'agentturn.db-shm')).readUInt32LE(WAL_COMMITS_AT);
}

/** The one value of a statement's one row, from the database of the store. */
async function numberFrom({ storeUrl }: Lab, statement: string): Promise<number> {
  const client = new pg.Client({ connectionString: storeUrl });
  await client.connect();
  try {
    const { rows } = await client.query({ text: statement, rowMode: 'array' });
    return Number(rows[0]?.[0]);
  } finally {
    await client.end();
  }
}

const sizeOf = (dir: string, prefix: string): number =>
  readdirSync(dir)
    .filter((name) => name.startsWith(prefix))
    .reduce((sum, name) => sum + statSync(join(dir, name)).size, 0);
