/** What each layer of the tests needs of a run: a folder for all it writes, and PostgreSQL. */
import { spawnSync } from 'node:child_process';
import { chmodSync, existsSync, lstatSync, mkdtempSync, readdirSync, rmSync, statfsSync, writeFileSync } from 'node:fs';
import { freemem, tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { isAlive } from '../../workers/shared-targets.ts';
import { PostgresServer } from './postgres-server.ts';

declare global {
  /** What the run writes, and its tests: removed at its end. */
  var testFolder: string | undefined;
  var testPostgres: PostgresServer | undefined;
}

/** Where the processes that tests start find the code of those before them, compiled: they start in a third of the time. */
const COMPILED = fileURLToPath(new URL('../../node_modules/.cache/agentturn/compiled', import.meta.url));
/** How much the heap of Temporal's servers may grow until its garbage is collected, in per cent; four times the default, which saves processor time. */
const HEAP_GROWTH = '400';
/** What is written survives the death of any process; no test cuts the machine's power. */
const UNSYNCED = { fsync: 'off', full_page_writes: 'off' };
/** In the folder of the run, for what lies elsewhere nobody removes when the server is killed. */
const OWN_MEMORY = { dynamic_shared_memory_type: 'mmap' };

const RUN_FOLDER = 'agentturn-test-';
const LEFTOVER = new RegExp(`^${RUN_FOLDER}(\\d+)-`);
/** A run makes a file in its folder more often than this, in milliseconds. */
const LONGEST_IDLE_MS = 15 * 60_000;

/** A file system in memory, which waits for no disk. */
const MEMORY = '/dev/shm';
/** What a run may write, in bytes, and what the programs of the run need besides. */
const MOST_WRITTEN = 8 * 2 ** 30;
const MOST_USED = 8 * 2 ** 30;

/** The folder in which all temporary files of the run are made: in memory where there is enough of it, unless TMPDIR names another place. */
export function openFolder(): string {
  for (const place of [MEMORY, tmpdir()]) if (existsSync(place)) removeLeftovers(place);
  const place = process.env.TMPDIR || !hasMemory() ? tmpdir() : MEMORY;
  const folder = mkdtempSync(join(place, `${RUN_FOLDER}${process.pid}-`));
  // PostgreSQL may run as a user of its own.
  chmodSync(folder, 0o755);
  globalThis.testFolder = folder;
  process.env.TMPDIR = folder;
  process.env.NODE_COMPILE_CACHE ??= COMPILED;
  process.env.GOGC ??= HEAP_GROWTH;
  return folder;
}

/**
 * Removes the folders of runs that were killed, which may hold gigabytes of memory. A folder that has just been used is left: its run may be
 * that of another container, whose processes have other numbers. So is what cannot be removed: it is no reason not to test.
 */
export function removeLeftovers(place: string): void {
  for (const name of readdirSync(place)) {
    const [, pid] = LEFTOVER.exec(name) ?? [];
    if (pid === undefined || isAlive(Number(pid))) continue;
    const folder = join(place, name);
    try {
      const { uid, mtimeMs } = lstatSync(folder);
      const isOurs = uid === process.getuid?.();
      if (isOurs && mtimeMs < Date.now() - LONGEST_IDLE_MS) rmSync(folder, { recursive: true, force: true });
    } catch {}
  }
}

function hasMemory(): boolean {
  if (!existsSync(MEMORY) || freemem() < MOST_WRITTEN + MOST_USED) return false;
  const { bavail, bsize } = statfsSync(MEMORY);
  return bavail * bsize >= MOST_WRITTEN && runsPrograms(MEMORY);
}

/** Tests write programs and run them, which a file system may be told to refuse. */
function runsPrograms(folder: string): boolean {
  const own = mkdtempSync(join(folder, 'agentturn-program-'));
  const program = join(own, 'program');
  writeFileSync(program, '#!/bin/sh\n', { mode: 0o700 });
  const { status } = spawnSync(program);
  rmSync(own, { recursive: true });
  return status === 0;
}

/** A server of the run's own, unless AGENTTURN_TEST_POSTGRES names one. */
export async function startPostgres(folder: string): Promise<void> {
  if (process.env.AGENTTURN_TEST_POSTGRES) return;
  const postgres = await PostgresServer.start(folder, { ...UNSYNCED, ...OWN_MEMORY });
  globalThis.testPostgres = postgres;
  process.env.AGENTTURN_TEST_POSTGRES = postgres.url;
}
