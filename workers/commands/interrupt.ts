/**
 * SIGINT and SIGTERM, while a command runs.
 *
 * Invariant: the first signal asks the command to end in good order, the second ends the process at once.
 */

/** Takes the signals of the process from its construction until `release`. */
export class Interrupt {
  readonly #controller = new AbortController();
  readonly #handler = (signal: NodeJS.Signals) => this.#interrupt(signal);

  constructor() {
    process.on('SIGINT', this.#handler).on('SIGTERM', this.#handler);
  }

  /** Fires at the first signal of the process. */
  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  /** Resolves at the first signal of the process. */
  requested(): Promise<void> {
    const { signal } = this;
    return new Promise((resolve) => {
      if (signal.aborted) resolve();
      else signal.addEventListener('abort', () => resolve(), { once: true });
    });
  }

  /** Gives the signals back to Node, which then ends the process at the first. */
  release(): void {
    process.off('SIGINT', this.#handler).off('SIGTERM', this.#handler);
  }

  #interrupt(name: NodeJS.Signals): void {
    if (this.signal.aborted) process.exit(name === 'SIGINT' ? 130 : 143);
    this.#controller.abort();
  }
}
