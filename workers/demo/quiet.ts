/** Tells a person who watches that something still goes on, when nothing has been said for a while. */

const SILENCE_MS = 3_000;

/** What is said, and how long ago that was. */
export class Quiet {
  readonly #out: (line: string) => void;
  readonly #begun = performance.now();
  #timer: NodeJS.Timeout | undefined;
  #isOver = false;

  constructor(out: (line: string) => void) {
    this.#out = out;
    this.#wait();
  }

  /** Says a line. */
  readonly say = (line: string): void => {
    this.#out(line);
    this.#wait();
  };

  /** From then on nothing is said but what is to be said. */
  end(): void {
    this.#isOver = true;
    clearTimeout(this.#timer);
  }

  #wait(): void {
    clearTimeout(this.#timer);
    if (this.#isOver) return;
    this.#timer = setTimeout(() => {
      const seconds = ((performance.now() - this.#begun) / 1_000).toFixed(0);
      this.say(`            ... still at it, after ${seconds} s`);
    }, SILENCE_MS);
  }
}
