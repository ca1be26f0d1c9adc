/** Waiting that Ctrl-C ends. */

/** The exit code of a wait that Ctrl-C ended. */
export const INTERRUPTED = 130;

/** What is waited for; null when the signal fires before. */
export async function unlessInterrupted<T>(awaited: Promise<T>, signal: AbortSignal): Promise<T | null> {
  // It fails when the store is closed under it, and nobody waits for it by then.
  awaited.catch(() => {});
  const { promise, resolve } = Promise.withResolvers<null>();
  signal.addEventListener('abort', () => resolve(null), { once: true });
  return Promise.race([awaited, promise]);
}
