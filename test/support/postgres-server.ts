/** A PostgreSQL server of our own on loopback, with its data in a folder of the caller. */
import { execFile } from 'node:child_process';
import { chownSync, mkdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import pg from 'pg';
import { freePort } from '../../workers/temporal/probe.ts';
import { postgresBin } from './postgres-programs.ts';
import { lastLines, type Program, signal, startProgram } from './programs.ts';

const run = promisify(execFile);
const READY_MS = 30_000;

/** Becomes the user of the first argument, and the program of those after it. */
const BECOME = `
  const [identity, program, ...args] = process.argv.slice(1);
  const { uid, gid } = JSON.parse(identity);
  process.setgroups([]);
  process.setgid(gid);
  process.setuid(uid);
  process.execve(program, [program, ...args], process.env);
`;

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

  /** Resolves when it answers. `dir` may be entered by other users. `settings` are of postgresql.conf. Errors: no server for this platform. */
  static async start(dir: string, settings: Readonly<Record<string, string>> = {}): Promise<PostgresServer> {
    const bin = await postgresBin(dir);
    const dataDir = join(dir, 'postgres');
    mkdirSync(dataDir, { mode: 0o700 });
    const identity = serverIdentity();
    ownedByServer(dataDir);
    const init = ['-D', dataDir, '-U', 'agentturn', '-A', 'trust', '-E', 'UTF8', '--locale', 'C', '--no-sync'];
    await run(join(bin, 'initdb'), init, { cwd: dataDir, ...identity });
    // Never one that others may look for as well: while this server is away, they would take its port.
    const port = await freePort(0);
    const all = { listen_addresses: '127.0.0.1', max_connections: '200', ...settings };
    const given = Object.entries(all).flatMap(([name, value]) => ['-c', `${name}=${value}`]);
    const server = [join(bin, 'postgres'), '-D', dataDir, '-p', String(port), '-k', dataDir, ...given];
    const started = new PostgresServer(dir, `postgres://agentturn@127.0.0.1:${port}/postgres`, asServer(server));
    await started.#ready();
    return started;
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
    const pids = [this.#program.pid, ...(await this.#forked())];
    for (const id of pids) signal(id, 'SIGSTOP');
    await sleep(ms);
    for (const id of pids.reverse()) signal(id, 'SIGCONT');
  }

  async #forked(): Promise<readonly number[]> {
    const client = new pg.Client({ connectionString: this.url });
    await client.connect();
    try {
      const { rows } = await client.query<{ pid: number }>('select pid from pg_stat_activity');
      return rows.map(({ pid }) => pid);
    } finally {
      await client.end();
    }
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

/** The command of a program that refuses to run as root, as another user where we are root. */
export function asServer(command: readonly string[]): readonly string[] {
  const identity = serverIdentity();
  return identity ? [process.execPath, '-e', BECOME, JSON.stringify(identity), ...command] : command;
}

/** Gives files to the user that servers run as. */
export function ownedByServer(...paths: string[]): void {
  const identity = serverIdentity();
  if (!identity) return;
  for (const path of paths) chownSync(path, identity.uid, identity.gid);
}

/** PostgreSQL and its poolers refuse to run as root. */
function serverIdentity(): Identity | null {
  if (process.getuid?.() !== 0) return null;
  const users = readFileSync('/etc/passwd', 'utf8')
    .split('\n')
    .map((line) => line.split(':'));
  const user = ['postgres', 'nobody'].flatMap((name) => users.filter(([known]) => known === name))[0];
  if (user) return { uid: Number(user[2]), gid: Number(user[3]) };
  throw new Error('PostgreSQL does not run as root, and there is no user `postgres` or `nobody`: run as another user');
}
