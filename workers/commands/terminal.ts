/** The person at this process's terminal, if there is one. */
import { createInterface } from 'node:readline/promises';

/** Where a person can be asked. */
export interface Terminal {
  /** Whether both ends are terminals, so that a question can be shown and answered. */
  readonly interactive: boolean;
  /** Shows the prompt and reads one line; undefined when the input ended or the signal fired first. */
  ask(prompt: string, signal: AbortSignal): Promise<string | undefined>;
}

/** The terminal of this process. */
export const terminal: Terminal = {
  interactive: Boolean(process.stdin.isTTY && process.stdout.isTTY),
  async ask(prompt, signal) {
    // In terminal mode readline would swallow Ctrl-C.
    const lines = createInterface({ input: process.stdin, output: process.stdout, terminal: false });
    const ended = new AbortController();
    lines.once('close', () => ended.abort());
    try {
      return await lines.question(prompt, { signal: AbortSignal.any([signal, ended.signal]) });
    } catch {
      return undefined;
    } finally {
      lines.close();
      // An input that stays open would keep the process alive.
      process.stdin.unref();
    }
  },
};
