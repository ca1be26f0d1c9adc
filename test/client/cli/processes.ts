/** Real `agentturn` processes: started with nothing of this process's environment but what a test names. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { Terminal } from '../../support/terminal.ts';

const PROGRAM = fileURLToPath(new URL('../../../workers/main.ts', import.meta.url));
/** The rest of the environment would make a test depend on the machine it runs on. */
const KEPT = ['PATH', 'HOME', 'XDG_CACHE_HOME', 'NODE_COMPILE_CACHE'];

export interface CliOptions {
  readonly env?: Readonly<Record<string, string>>;
  readonly cwd?: string;
  readonly input?: string;
}

export interface Finished {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

export const emptyFolder = (): string => mkdtempSync(join(tmpdir(), 'agentturn-cli-'));

/** The server of the whole test run. The harness would bring Temporal's native library, which many tests here do not need. */
export function sharedTemporal(): string {
  const address = process.env.AGENTTURN_TEST_TEMPORAL;
  if (address) return address;
  throw new Error('AGENTTURN_TEST_TEMPORAL is not set: test/support/global-setup.ts starts that server');
}

export class CliProcess {
  readonly #child: ChildProcess;
  readonly #closed: Promise<unknown>;
  #stdout = '';
  #stderr = '';
  #onOutput: () => void = () => {};

  constructor(child: ChildProcess) {
    this.#child = child;
    this.#closed = once(child, 'close');
    child.stdout?.setEncoding('utf8').on('data', (text: string) => {
      this.#stdout += text;
      this.#onOutput();
    });
    child.stderr?.setEncoding('utf8').on('data', (text: string) => {
      this.#stderr += text;
      this.#onOutput();
    });
  }

  type(text: string): void {
    this.#child.stdin?.write(text);
  }

  get output(): string {
    return this.#stdout + this.#stderr;
  }

  /** Resolves when the output matches; rejects when the process ends before. */
  async until(pattern: RegExp): Promise<RegExpExecArray> {
    const { promise, resolve } = Promise.withResolvers<RegExpExecArray>();
    this.#onOutput = () => {
      const match = pattern.exec(this.output);
      if (match) resolve(match);
    };
    this.#onOutput();
    const ended = this.#closed.then(() => {
      throw new Error(`ended without ${pattern}:\n${this.output}`);
    });
    return Promise.race([promise, ended]);
  }

  async finished(): Promise<Finished> {
    await this.#closed;
    return { code: this.#child.exitCode, stdout: this.#stdout, stderr: this.#stderr };
  }

  /** Sends a signal. */
  signal(signal: NodeJS.Signals): void {
    this.#child.kill(signal);
  }

  /** Sends a signal unless it has ended, and waits for its end. */
  async end(signal: NodeJS.Signals = 'SIGTERM'): Promise<Finished> {
    if (this.#child.exitCode === null && this.#child.signalCode === null) this.#child.kill(signal);
    return this.finished();
  }
}

/** What of this process's environment every process needs. */
export const keptEnvironment = (): Record<string, string> =>
  Object.fromEntries(KEPT.flatMap((name) => (process.env[name] === undefined ? [] : [[name, process.env[name]]])));

const placeOf = ({ env = {}, cwd = emptyFolder() }: CliOptions) => ({ cwd, env: { ...keptEnvironment(), ...env } });

export function startCli(args: readonly string[], options: CliOptions = {}): CliProcess {
  const stdin = options.input === undefined ? 'ignore' : 'pipe';
  const child = spawn(process.execPath, [PROGRAM, ...args], { ...placeOf(options), stdio: [stdin, 'pipe', 'pipe'] });
  child.stdin?.end(options.input);
  return new CliProcess(child);
}

/** At a terminal wide enough that no line of it is broken. */
export const startInTerminal = (args: readonly string[], options: CliOptions = {}): Terminal =>
  new Terminal([process.execPath, PROGRAM, ...args], { ...placeOf(options), columns: 400 });

export const runCli = (args: readonly string[], options: CliOptions = {}): Promise<Finished> =>
  startCli(args, options).finished();

/** The one JSON object on standard output. */
export function jsonOf<T>({ stdout, stderr }: Finished): T {
  try {
    return JSON.parse(stdout) as T;
  } catch {
    throw new Error(`standard output is not one JSON value:\n${stdout}\n${stderr}`);
  }
}
