import type { Store } from '../../workflows/contract/store.ts';

/** How long a test waits for what is to happen: a bound for what hangs, on machines that are busy with other things. It asserts no speed. */
export const WAIT = { timeoutMs: 240_000 };

/** Looks again whenever something was committed, until there is something to see; bounds a hang. */
export async function seen<T>(store: Pick<Store, 'changed'>, look: () => Promise<T | undefined>): Promise<T> {
  const deadline = Date.now() + WAIT.timeoutMs;
  for (;;) {
    const found = await look();
    if (found !== undefined) return found;
    if (Date.now() > deadline) throw new Error('it was not seen in time');
    await store.changed(1_000);
  }
}
