/** The store of a run, SQLite or PostgreSQL, and the outages each can have. */
import { execFile } from 'node:child_process';
import { chownSync, mkdirSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import pg from 'pg';
import { freePort } from '../../workers/temporal-probe.ts';
import type { LockHolder } from './lock-holder.ts';
import { type ChaosChild, lastLines, signal, startProgram, startScript } from './processes.ts';
import type { Random } from './random.ts';

const run = promisify(execFile);
const PACKAGES = '/usr/lib/postgresql';
const READY_MS = 30_000;

export interface ChaosDatabase {
  readonly url: string;
  /** Takes the store away for a while; resolves with what was done when it is back. */
  outage(random: Random): Promise<string>;
  /** Takes the store away for so long: the write lock of a file, a server as a whole. */
  away(ms: number): Promise<void>;
  stop(): Promise<void>;
}

export const startDatabase = (kind: 'sqlite' | 'postgres', dir: string): Promise<ChaosDatabase> =>
  kind === 'sqlite' ? Promise.resolve(sqlite(dir)) : Postgres.start(dir);

function sqlite(dir: string): ChaosDatabase {
  const url = `sqlite:${join(dir, 'agentturn.db')}`;
  const away = (ms: number) =>
    new Promise<void>((ended) => {
      const holder: LockHolder = { storeUrl: url, agentId: '', ms };
      startScript('./lock-holder.ts', holder, join(dir, 'lock-holder.log'), () => ended());
    });
  return {
    url,
    away,
    async outage(random) {
      const ms = random.int(1_000, 8_000);
      await away(ms);
      return `write lock held for ${ms} ms`;
    },
    stop: async () => {},
  };
}

interface Identity {
  readonly uid: number;
  readonly gid: number;
}

class Postgres implements ChaosDatabase {
  readonly url: string;
  readonly #dir: string;
  readonly #command: readonly string[];
  #child: ChaosChild;

  private constructor(dir: string, url: string, command: readonly string[]) {
    this.#dir = dir;
    this.url = url;
    this.#command = command;
    this.#child = this.#spawn();
  }

  static async start(dir: string): Promise<Postgres> {
    const bin = newestBin();
    const dataDir = join(dir, 'postgres');
    mkdirSync(dataDir, { mode: 0o700 });
    const identity = await serverIdentity();
    if (identity) chownSync(dataDir, identity.uid, identity.gid);
    const as = identity
      ? ['setpriv', '--reuid', String(identity.uid), '--regid', String(identity.gid), '--clear-groups']
      : [];
    const init = [...as, join(bin, 'initdb'), '-D', dataDir, '-U', 'agentturn', '-A', 'trust', '-E', 'UTF8'];
    const [program = '', ...args] = init;
    await run(program, args, { cwd: dataDir });
    // Never one that others may look for as well: while this server is away, they would take its port.
    const port = await freePort(0);
    const settings = ['-c', 'listen_addresses=127.0.0.1', '-c', 'max_connections=200', '-k', dataDir];
    const command = [...as, join(bin, 'postgres'), '-D', dataDir, '-p', String(port), ...settings];
    const postgres = new Postgres(dir, `postgres://agentturn@127.0.0.1:${port}/postgres`, command);
    await postgres.#ready();
    return postgres;
  }

  async outage(random: Random): Promise<string> {
    const ms = random.int(1_000, 10_000);
    const kind = random.weighted({ frozen: 1, stopped: 1, crashed: 1 });
    if (kind === 'frozen') await this.#freeze(ms);
    else await this.#restart(kind === 'stopped' ? 'SIGINT' : 'SIGQUIT', ms);
    return `PostgreSQL ${kind} for ${ms} ms`;
  }

  away(ms: number): Promise<void> {
    return this.#restart('SIGINT', ms);
  }

  stop(): Promise<void> {
    return this.#child.stop();
  }

  async #restart(how: 'SIGINT' | 'SIGQUIT', ms: number): Promise<void> {
    signal(this.#child.pid, how);
    await this.#child.stop();
    await sleep(ms);
    this.#child = this.#spawn();
    await this.#ready();
  }

  /** The server with the processes it has forked, which do the work. */
  async #freeze(ms: number): Promise<void> {
    const { pid } = this.#child;
    const { stdout } = await run('ps', ['-o', 'pid=', '--ppid', String(pid)]);
    const pids = [pid, ...stdout.split('\n').map(Number)].filter((id) => id !== undefined && id > 0);
    for (const id of pids) signal(id, 'SIGSTOP');
    await sleep(ms);
    for (const id of pids.reverse()) signal(id, 'SIGCONT');
  }

  #spawn(): ChaosChild {
    return startProgram(this.#command, join(this.#dir, 'postgres.log'), () => {});
  }

  async #ready(): Promise<void> {
    const deadline = Date.now() + READY_MS;
    for (;;) {
      const client = new pg.Client({ connectionString: this.url });
      try {
        await client.connect();
        const { rows } = await client.query<{ data_directory: string }>('show data_directory');
        await client.end();
        if (rows[0]?.data_directory === join(this.#dir, 'postgres')) return;
        throw new Error(`${this.url} is another server's`);
      } catch (error) {
        if (this.#child.ended() !== undefined || Date.now() > deadline) {
          throw new Error(`PostgreSQL does not answer:\n${lastLines(join(this.#dir, 'postgres.log'), 10)}`, {
            cause: error,
          });
        }
        await sleep(100);
      }
    }
  }
}

function newestBin(): string {
  try {
    const [newest] = readdirSync(PACKAGES).sort((a, b) => Number(b) - Number(a));
    if (newest !== undefined) return join(PACKAGES, newest, 'bin');
  } catch {
    // Said below.
  }
  throw new Error(`--store postgres needs PostgreSQL's server in ${PACKAGES} (apt-get install postgresql)`);
}

/** PostgreSQL refuses to run as root. */
async function serverIdentity(): Promise<Identity | null> {
  if (process.getuid?.() !== 0) return null;
  const id = async (flag: string) => Number((await run('id', [flag, 'postgres'])).stdout);
  return { uid: await id('-u'), gid: await id('-g') };
}
