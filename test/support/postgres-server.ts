/** A PostgreSQL server of our own on loopback, from the system's packages, with its data in a folder of the caller. */
import { execFile } from 'node:child_process';
import { chownSync, mkdirSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import pg from 'pg';
import { freePort } from '../../workers/temporal/probe.ts';
import { lastLines, type Program, signal, startProgram } from './programs.ts';

const run = promisify(execFile);
const PACKAGES = '/usr/lib/postgresql';
const READY_MS = 30_000;

interface Identity {
  readonly uid: number;
  readonly gid: number;
}

export class PostgresServer {
  /** With a superuser that needs no password. */
  readonly url: string;
  readonly #dir: string;
  readonly #command: readonly string[];
  #program: Program;

  private constructor(dir: string, url: string, command: readonly string[]) {
    this.#dir = dir;
    this.url = url;
    this.#command = command;
    this.#program = this.#spawn();
  }

  /** Resolves when it answers. `dir` may be entered by other users. Errors: none of its programs is installed. */
  static async start(dir: string): Promise<PostgresServer> {
    const bin = newestBin();
    if (bin === null) throw new Error(`PostgreSQL's server is not in ${PACKAGES} (apt-get install postgresql)`);
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
    const server = new PostgresServer(dir, `postgres://agentturn@127.0.0.1:${port}/postgres`, command);
    await server.#ready();
    return server;
  }

  stop(): Promise<void> {
    return this.#program.stop();
  }

  /** `SIGINT` lets it write down what it holds, `SIGQUIT` does not. Resolves when it answers again, `ms` after it went. */
  async restart(how: 'SIGINT' | 'SIGQUIT', ms: number): Promise<void> {
    signal(this.#program.pid, how);
    await this.#program.stop();
    await sleep(ms);
    this.#program = this.#spawn();
    await this.#ready();
  }

  /** Stops the clock of the server with the processes it has forked, which do the work, for `ms`. */
  async freeze(ms: number): Promise<void> {
    const { pid } = this.#program;
    const { stdout } = await run('ps', ['-o', 'pid=', '--ppid', String(pid)]);
    const pids = [pid, ...stdout.split('\n').map(Number)].filter((id) => id !== undefined && id > 0);
    for (const id of pids) signal(id, 'SIGSTOP');
    await sleep(ms);
    for (const id of pids.reverse()) signal(id, 'SIGCONT');
  }

  #spawn(): Program {
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
        if (this.#program.ended() !== undefined || Date.now() > deadline) {
          throw new Error(`PostgreSQL does not answer:\n${lastLines(join(this.#dir, 'postgres.log'), 10)}`, {
            cause: error,
          });
        }
        await sleep(100);
      }
    }
  }
}

export const postgresIsInstalled = (): boolean => newestBin() !== null;

function newestBin(): string | null {
  try {
    const [newest] = readdirSync(PACKAGES).sort((a, b) => Number(b) - Number(a));
    return newest === undefined ? null : join(PACKAGES, newest, 'bin');
  } catch {
    return null;
  }
}

/** PostgreSQL refuses to run as root. */
async function serverIdentity(): Promise<Identity | null> {
  if (process.getuid?.() !== 0) return null;
  const id = async (flag: string) => Number((await run('id', [flag, 'postgres'])).stdout);
  return { uid: await id('-u'), gid: await id('-g') };
}
