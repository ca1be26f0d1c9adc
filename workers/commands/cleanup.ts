/**
 * Closing what a command has opened.
 *
 * Invariants
 * 1. What was opened last is closed first, and each closer runs once.
 * 2. A closer that throws keeps no other from running.
 */

/** What has been opened, to be closed in the opposite order. */
export class Cleanup {
  readonly #closers: (() => Promise<unknown> | unknown)[] = [];

  /** Has `close` called when the command ends, before all that was added earlier. */
  add(close: () => Promise<unknown> | unknown): void {
    this.#closers.push(close);
  }

  /** Closes all of it. Resolves with the errors of closers; empty when all is closed. */
  async run(): Promise<unknown[]> {
    const errors: unknown[] = [];
    for (let close = this.#closers.pop(); close; close = this.#closers.pop()) {
      try {
        await close();
      } catch (error) {
        errors.push(error);
      }
    }
    return errors;
  }
}

/** Runs the body and closes what it opened. Throws the error of the body, or else the first error of a closer. */
export async function withCleanup<T>(body: (cleanup: Cleanup) => Promise<T>): Promise<T> {
  const cleanup = new Cleanup();
  let result: T;
  try {
    result = await body(cleanup);
  } catch (error) {
    await cleanup.run();
    throw error;
  }
  const [failure] = await cleanup.run();
  if (failure !== undefined) throw failure;
  return result;
}
