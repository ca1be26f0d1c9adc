/** The person at this process's terminal, if there is one. */
import { createInterface } from 'node:readline/promises';

export interface Terminal {
  /** Both ends are terminals: a question can be shown and answered. */
  readonly interactive: boolean;
  /** One line; undefined when the input ended or the signal fired first. */
  ask(prompt: string, signal: AbortSignal): Promise<string | undefined>;
}

export const terminal: Terminal = {
  interactive: Boolean(process.stdin.isTTY && process.stdout.isTTY),
  async ask(prompt, signal) {
    // Not in terminal mode: there readline would swallow Ctrl-C.
    const lines = createInterface({ input: process.stdin, output: process.stdout, terminal: false });
    const ended = new AbortController();
    lines.once('close', () => ended.abort());
    try {
      return await lines.question(prompt, { signal: AbortSignal.any([signal, ended.signal]) });
    } catch {
      return undefined;
    } finally {
      lines.close();
      // Else the open input keeps the process alive.
      process.stdin.unref();
    }
  },
};
