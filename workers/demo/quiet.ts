/** Tells a person who watches that something still goes on, when nothing has been said for a while. */
import type { Terminal } from '../commands/terminal.ts';

const SILENCE_MS = 3_000;

/** What is said, and how long ago that was. */
export class Quiet {
  readonly #out: (line: string) => void;
  /** When something else than this was said last. */
  #saidAt = performance.now();
  #timer: NodeJS.Timeout | undefined;
  #isOver = false;
  /** How many questions are before the person. */
  #open = 0;

  constructor(out: (line: string) => void) {
    this.#out = out;
    this.#wait();
  }

  /** Says a line. */
  readonly say = (line: string): void => {
    this.#saidAt = performance.now();
    this.#out(line);
    this.#wait();
  };

  /** The terminal, at which nothing is said of itself while a person writes an answer. */
  around({ interactive, ask }: Terminal): Terminal {
    const asking = async (prompt: string, signal: AbortSignal): Promise<string | undefined> => {
      this.#open += 1;
      clearTimeout(this.#timer);
      try {
        return await ask(prompt, signal);
      } finally {
        this.#open -= 1;
        this.#wait();
      }
    };
    return { interactive, ask: asking };
  }

  /** From then on nothing is said but what is to be said. */
  end(): void {
    this.#isOver = true;
    clearTimeout(this.#timer);
  }

  #wait(): void {
    clearTimeout(this.#timer);
    if (this.#isOver || this.#open > 0) return;
    this.#timer = setTimeout(() => {
      const seconds = ((performance.now() - this.#saidAt) / 1_000).toFixed(0);
      this.#out(`            ... still at it, ${seconds} s after the last of these`);
      this.#wait();
    }, SILENCE_MS);
  }
}
