/** What all views have, and how they are kept up to date. */
import { messageOf } from './dom.ts';

/** One view of the page. */
export interface PageView {
  readonly title: string;
  readonly element: HTMLElement;
  /** Ends what keeps it up to date. */
  close(): void;
  /** Calls back with the error each time that it could not be brought up to date, and with null when it could again. */
  failed(listener: (error: unknown) => void): void;
}

/** What is read again and again. */
export interface Poll {
  /** Reads now. */
  now(): void;
  close(): void;
  failed(listener: (error: unknown) => void): void;
}

/** Reads now, and again so long after each reading; not while nobody looks at the page. */
export function poll(everyMs: number, read: (signal: AbortSignal) => Promise<void>): Poll {
  const closed = new AbortController();
  let listener: (error: unknown) => void = () => {};
  let timer = 0;
  let reading: Promise<void> | null = null;
  let again = false;
  const next = () => {
    clearTimeout(timer);
    if (reading !== null) {
      again = true;
      return;
    }
    if (closed.signal.aborted) return;
    again = false;
    reading = (document.hidden ? Promise.resolve() : read(closed.signal))
      .then(
        () => listener(null),
        (error: unknown) => closed.signal.aborted || listener(error),
      )
      .then(() => {
        reading = null;
        timer = setTimeout(next, again ? 0 : everyMs);
      });
  };
  document.addEventListener('visibilitychange', next, { signal: closed.signal });
  // After the one who called has what it needs.
  queueMicrotask(next);
  return {
    now: next,
    close() {
      closed.abort();
      clearTimeout(timer);
    },
    failed(callback) {
      listener = callback;
    },
  };
}

/** Changes the page, which follows what comes where its end is in view. */
export function atBottom(change: () => void): void {
  const isAtEnd = innerHeight + scrollY >= document.documentElement.scrollHeight - 40;
  change();
  if (isAtEnd) scrollTo({ top: document.documentElement.scrollHeight });
}

/** Runs what somebody asked for, and says in `said` what became of it. */
export async function act(said: Element, run: () => Promise<string | Node>): Promise<void> {
  try {
    said.replaceChildren(await run());
  } catch (error) {
    said.textContent = messageOf(error);
  }
}
