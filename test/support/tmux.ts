/** A real terminal of a known size: a program in a session of a tmux server of the test's own. */
import { execFile } from 'node:child_process';
import { mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';
import { WAIT } from './wait.ts';

const run = promisify(execFile);
const SESSION = 'chat';
const POLL_MS = 50;

export interface TerminalOptions {
  readonly cwd: string;
  readonly env: Readonly<Record<string, string>>;
  readonly columns?: number;
  readonly rows?: number;
}

/** A program in a terminal; what it shows is read as a person sees it. */
export class TmuxTerminal {
  readonly #folder = mkdtempSync(join(tmpdir(), 'agentturn-tmux-'));

  /** Starts the program. The terminal stays when it has ended, so that its last words can be read. */
  async start(words: readonly string[], { cwd, env, columns = 80, rows = 24 }: TerminalOptions): Promise<void> {
    const quoted = words.map((word) => `'${word.replaceAll("'", `'\\''`)}'`).join(' ');
    const given = Object.entries(env).flatMap(([name, value]) => ['-e', `${name}=${value}`]);
    const size = ['-x', String(columns), '-y', String(rows)];
    // One server for each program: it has nothing of this process's environment but what it needs.
    await this.#tmux(
      'new-session',
      '-d',
      '-s',
      SESSION,
      '-c',
      cwd,
      ...size,
      ...given,
      `${quoted}; echo "ended: $?"; cat`,
    );
  }

  /** Types a text as keys. */
  async type(text: string): Promise<void> {
    await this.#tmux('send-keys', '-t', SESSION, '-l', text);
  }

  /** Presses keys by their names, `Enter` or `C-c` say. */
  async press(...keys: readonly string[]): Promise<void> {
    await this.#tmux('send-keys', '-t', SESSION, ...keys);
  }

  /** Types a line and sends it. */
  async send(line: string): Promise<void> {
    await this.type(line);
    await this.press('Enter');
  }

  /** Pastes a text as a terminal does that marks what is pasted. */
  async paste(text: string): Promise<void> {
    await this.#tmux('set-buffer', text);
    await this.#tmux('paste-buffer', '-p', '-t', SESSION);
  }

  async resize(columns: number, rows: number): Promise<void> {
    await this.#tmux('resize-window', '-t', SESSION, '-x', String(columns), '-y', String(rows));
  }

  /** What is to be seen, with what has scrolled away; with its colours as ANSI sequences where they are asked for. */
  async screen({ colours = false, scrolled = true } = {}): Promise<string> {
    const { stdout } = await this.#tmux(
      ...['capture-pane', '-p', '-t', SESSION],
      ...(colours ? ['-e'] : []),
      ...(scrolled ? ['-S', '-'] : []),
    );
    return stdout.trimEnd();
  }

  /** Resolves with the screen once it matches; bounds a hang. */
  async until(pattern: RegExp): Promise<string> {
    const deadline = Date.now() + WAIT.timeoutMs;
    for (;;) {
      const screen = await this.screen();
      if (pattern.test(screen)) return screen;
      if (Date.now() > deadline) throw new Error(`the terminal did not show ${pattern}:\n${screen}`);
      await sleep(POLL_MS);
    }
  }

  async close(): Promise<void> {
    await this.#tmux('kill-server').catch(() => {});
  }

  #tmux(...args: readonly string[]): Promise<{ readonly stdout: string }> {
    const { PATH = '' } = process.env;
    return run('tmux', ['-f', '/dev/null', '-S', join(this.#folder, 'socket'), ...args], {
      env: { PATH, LANG: 'C.UTF-8', TERM: 'xterm-256color' },
    });
  }
}
