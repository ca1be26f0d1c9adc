/**
 * Something that is waited for again and again until it comes. `Promise.race` would leave a part of each wait with a promise that stays
 * pending, so a reader of a quiet stream would hold more by the hour.
 */
export class Pending<T> {
  /** Resolves when it has come or failed; never rejects. */
  readonly done: Promise<void>;
  #outcome: { readonly value: T } | { readonly error: unknown } | null = null;

  /** `wake` is called when it has come or failed. */
  constructor(promise: Promise<T>, wake: () => void) {
    this.done = promise
      .then(
        (value) => {
          this.#outcome = { value };
        },
        (error: unknown) => {
          this.#outcome = { error };
        },
      )
      .then(wake);
  }

  /** Whether it has come or failed. */
  get isDone(): boolean {
    return this.#outcome !== null;
  }

  /** What has come. Throws the error it failed with, and when nothing has come yet. */
  take(): T {
    if (this.#outcome === null) throw new Error('nothing has come yet');
    if ('error' in this.#outcome) throw this.#outcome.error;
    return this.#outcome.value;
  }
}
