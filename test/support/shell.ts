/** Commands as a person types them, in tests of what the documents say. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';

export interface Ran {
  readonly code: number | null;
  readonly output: string;
}

export interface ShellPlace {
  readonly cwd: string;
  readonly env: NodeJS.ProcessEnv;
}

/** A command in a shell, with a process group of its own so that npm's children end with it. */
export class Shell {
  readonly #child: ChildProcess;
  readonly #closed: Promise<unknown>;
  #output = '';

  constructor(line: string, { cwd, env }: ShellPlace) {
    this.#child = spawn('sh', ['-c', line], { cwd, env, detached: true, stdio: ['ignore', 'pipe', 'pipe'] });
    this.#closed = once(this.#child, 'close');
    for (const stream of [this.#child.stdout, this.#child.stderr]) {
      stream?.setEncoding('utf8').on('data', (text: string) => {
        this.#output += text;
      });
    }
  }

  async until(pattern: RegExp): Promise<void> {
    const data = () => Promise.race([once(this.#child.stdout ?? this.#child, 'data'), this.#closed]);
    while (!pattern.test(this.#output)) {
      // One that a signal ended has no exit code.
      if (this.#child.exitCode !== null || this.#child.signalCode !== null)
        throw new Error(`ended without ${pattern}:\n${this.#output}`);
      await data();
    }
  }

  async ended(): Promise<Ran> {
    await this.#closed;
    return { code: this.#child.exitCode, output: this.#output };
  }

  stop(): Promise<Ran> {
    if (this.#child.exitCode === null && this.#child.signalCode === null && this.#child.pid)
      process.kill(-this.#child.pid, 'SIGTERM');
    return this.ended();
  }
}
