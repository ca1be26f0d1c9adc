/**
 * SIGINT and SIGTERM: the first asks a command to end in good order, the second ends the process at once.
 */
export class Interrupt {
  readonly #controller = new AbortController();
  readonly #handler = (signal: NodeJS.Signals) => this.#interrupt(signal);

  constructor() {
    process.on('SIGINT', this.#handler).on('SIGTERM', this.#handler);
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  /** Resolves at the first signal. */
  requested(): Promise<void> {
    const { signal } = this;
    return new Promise((resolve) => {
      if (signal.aborted) resolve();
      else signal.addEventListener('abort', () => resolve(), { once: true });
    });
  }

  release(): void {
    process.off('SIGINT', this.#handler).off('SIGTERM', this.#handler);
  }

  #interrupt(name: NodeJS.Signals): void {
    if (this.signal.aborted) process.exit(name === 'SIGINT' ? 130 : 143);
    this.#controller.abort();
  }
}
