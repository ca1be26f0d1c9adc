/** PgBouncer in front of a PostgreSQL server: npm has none, so that of the system, where there is one. */
import { execFileSync } from 'node:child_process';
import { existsSync, mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import pg from 'pg';
import { freePort } from '../../workers/temporal/probe.ts';
import { asServer, ownedByServer } from './postgres-server.ts';
import { lastLines, type Program, signal, startProgram } from './programs.ts';

const READY_MS = 10_000;
const LOOK_MS = 50;

/** A program of PgBouncer. */
export interface PgBouncerProgram {
  readonly path: string;
  /** As `1.24`. */
  readonly version: string;
  /** Whether it can keep what its clients prepare. */
  readonly keepsPrepared: boolean;
}

/** The programs that AGENTTURN_TEST_PGBOUNCER names, with `:` between them; else that of the system. */
function findPrograms(): readonly PgBouncerProgram[] {
  const named = process.env.AGENTTURN_TEST_PGBOUNCER;
  const folders = [...(process.env.PATH ?? '').split(delimiter), '/usr/sbin'];
  const system = folders.map((folder) => join(folder, 'pgbouncer')).find((path) => existsSync(path));
  const paths = named ? named.split(delimiter) : system ? [system] : [];
  return paths.map(asProgram);
}

function asProgram(path: string): PgBouncerProgram {
  const [, major = '', minor = ''] = /(\d+)\.(\d+)/.exec(execFileSync(path, ['--version'], { encoding: 'utf8' })) ?? [];
  return { path, version: `${major}.${minor}`, keepsPrepared: Number(major) > 1 || Number(minor) >= 21 };
}

/** The programs of this machine. */
export const pgbouncers = findPrograms();

/** The first of them. Errors: there is none. */
export function aPgBouncer(): PgBouncerProgram {
  const [program] = pgbouncers;
  if (program) return program;
  throw new Error('there is no pgbouncer: install it, or name one by AGENTTURN_TEST_PGBOUNCER');
}

/** A pooler on loopback. */
export class PgBouncer {
  /** As `1.24`. */
  readonly version: string;
  readonly #serverUrl: string;
  readonly #port: number;
  readonly #dir: string;
  readonly #command: readonly string[];
  #program: Program;

  private constructor(version: string, serverUrl: string, port: number, dir: string, command: readonly string[]) {
    this.version = version;
    this.#serverUrl = serverUrl;
    this.#port = port;
    this.#dir = dir;
    this.#command = command;
    this.#program = this.#spawn();
  }

  /** Resolves when it answers. `settings` are of its section `[pgbouncer]`. `serverUrl` is that of a server that asks for no password. */
  static async start(
    { path, version }: PgBouncerProgram,
    serverUrl: string,
    settings: Readonly<Record<string, string | number>> = {},
  ): Promise<PgBouncer> {
    const { hostname, port: serverPort, username } = new URL(serverUrl);
    const dir = mkdtempSync(join(tmpdir(), 'agentturn-pgbouncer-'));
    const port = await freePort(0);
    const all = {
      listen_addr: '127.0.0.1',
      listen_port: port,
      unix_socket_dir: '',
      auth_type: 'any',
      pool_mode: 'transaction',
      max_client_conn: 500,
      default_pool_size: 10,
      ...settings,
    };
    const lines = Object.entries(all).map(([name, value]) => `${name} = ${value}`);
    const server = `* = host=${hostname} port=${serverPort} user=${username}`;
    const config = join(dir, 'pgbouncer.ini');
    writeFileSync(config, ['[databases]', server, '[pgbouncer]', ...lines, ''].join('\n'));
    ownedByServer(dir, config);
    const started = new PgBouncer(version, serverUrl, port, dir, asServer([path, config]));
    await started.#ready();
    return started;
  }

  get pid(): number | undefined {
    return this.#program.pid;
  }

  /** The URL of a server by way of the pooler. */
  to(serverUrl: string): string {
    const url = new URL(serverUrl);
    url.port = String(this.#port);
    return url.href;
  }

  stop(): Promise<void> {
    return this.#program.stop();
  }

  /** Kills it, and starts it again after `ms`. Resolves when it answers. */
  async restart(ms: number): Promise<void> {
    signal(this.#program.pid, 'SIGKILL');
    await this.#program.stop();
    await sleep(ms);
    this.#program = this.#spawn();
    await this.#ready();
  }

  #spawn(): Program {
    return startProgram(this.#command, join(this.#dir, 'log'), () => {});
  }

  async #ready(): Promise<void> {
    const deadline = Date.now() + READY_MS;
    const url = new URL(this.to(this.#serverUrl));
    url.search = '';
    for (;;) {
      const client = new pg.Client({ connectionString: url.href });
      try {
        await client.connect();
        return await client.end();
      } catch (error) {
        if (this.#program.ended() !== undefined || Date.now() > deadline)
          throw new Error(`PgBouncer does not answer:\n${lastLines(join(this.#dir, 'log'), 10)}`, { cause: error });
        await sleep(LOOK_MS);
      }
    }
  }
}
