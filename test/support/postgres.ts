/** A PostgreSQL server of the test run's own, from the system's packages, unless AGENTTURN_TEST_POSTGRES names one. */
import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { chownSync, mkdtempSync, readdirSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import pg from 'pg';

const run = promisify(execFile);
const PACKAGES = '/usr/lib/postgresql';
const READY_MS = 20_000;

export interface TestPostgres {
  readonly url: string;
  stop(): Promise<void>;
}

/** Null when there are no binaries: the suites that need them say so and fail. */
export async function startPostgres(): Promise<TestPostgres | null> {
  const bin = newestBin();
  if (bin === null) return null;
  const dataDir = mkdtempSync(join(tmpdir(), 'agentturn-postgres-'));
  const identity = await serverIdentity();
  if (identity.uid !== undefined) chownSync(dataDir, identity.uid, identity.gid ?? identity.uid);
  await run(join(bin, 'initdb'), ['-D', dataDir, '-U', 'agentturn', '-A', 'trust', '-E', 'UTF8'], {
    ...identity,
    cwd: dataDir,
  });
  const port = await freePort();
  const settings = ['-c', 'listen_addresses=127.0.0.1', '-c', 'max_connections=200', '-k', dataDir];
  const child = spawn(join(bin, 'postgres'), ['-D', dataDir, '-p', String(port), ...settings], {
    ...identity,
    stdio: 'ignore',
    cwd: dataDir,
  });
  const url = `postgres://agentturn@127.0.0.1:${port}/postgres`;
  await ready(url, child);
  return { url, stop: () => stop(child) };
}

function newestBin(): string | null {
  try {
    const [newest] = readdirSync(PACKAGES).sort((a, b) => Number(b) - Number(a));
    return newest === undefined ? null : join(PACKAGES, newest, 'bin');
  } catch {
    return null;
  }
}

/** PostgreSQL refuses to run as root. */
async function serverIdentity(): Promise<{ uid?: number; gid?: number }> {
  if (process.getuid?.() !== 0) return {};
  const id = async (flag: string) => Number((await run('id', [flag, 'postgres'])).stdout);
  return { uid: await id('-u'), gid: await id('-g') };
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1');
  await new Promise((resolve) => server.once('listening', resolve));
  const address = server.address();
  await new Promise((resolve) => server.close(resolve));
  if (address === null || typeof address === 'string') throw new Error('no free port');
  return address.port;
}

async function ready(url: string, child: ChildProcess): Promise<void> {
  const deadline = Date.now() + READY_MS;
  for (;;) {
    const client = new pg.Client({ connectionString: url });
    try {
      await client.connect();
      await client.end();
      return;
    } catch (error) {
      if (child.exitCode !== null || Date.now() > deadline) throw error;
      await sleep(50);
    }
  }
}

async function stop(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null) return;
  const exited = new Promise((resolve) => child.once('exit', resolve));
  child.kill('SIGINT');
  await exited;
}

/** The server's URL with a schema of its own: as good as a database of its own, and made at once. */
export async function freshSchemaUrl(): Promise<string> {
  const base = process.env.AGENTTURN_TEST_POSTGRES;
  if (!base) {
    throw new Error(
      'these tests need PostgreSQL: install it (apt-get install postgresql) or set AGENTTURN_TEST_POSTGRES',
    );
  }
  const schema = `test_${crypto.randomUUID().replaceAll('-', '')}`;
  const client = new pg.Client({ connectionString: base });
  await client.connect();
  await client.query(`create schema ${schema}`);
  await client.end();
  return `${base}?options=${encodeURIComponent(`-csearch_path=${schema}`)}`;
}
