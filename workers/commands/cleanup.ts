/**
 * What has been opened, to be closed in the opposite order, each once, whatever fails between.
 *
 * Invariant: a closer that throws keeps no other from running.
 */
export class Cleanup {
  readonly #closers: (() => Promise<unknown> | unknown)[] = [];

  add(close: () => Promise<unknown> | unknown): void {
    this.#closers.push(close);
  }

  /** Resolves with what went wrong; empty when all is closed. */
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

/** Runs the body and closes what it opened; an error of the body wins over one of a closer. */
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
