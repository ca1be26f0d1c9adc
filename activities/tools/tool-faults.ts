/**
 * Which call is at fault when something goes wrong outside of every function: a rejected promise that nothing awaits, an exception in a timer.
 * Node would end the process for it, and with it what all other turns do there. The async context in which a tool runs says which call the
 * fault came from, however late.
 */
import { AsyncLocalStorage } from 'node:async_hooks';
import { setImmediate as nextTurnOfTheLoop } from 'node:timers/promises';

const runs = new AsyncLocalStorage<ToolRun>();

/** The run that the code of the caller belongs to, though the run may have ended; undefined for code that no tool started. */
export const currentToolRun = (): ToolRun | undefined => runs.getStore();

/** One execution of a tool: made for one call, and waited for once. */
export class ToolRun {
  readonly tool: string;
  readonly callId: string;
  readonly #fault = new AbortController();
  #open = true;

  constructor(tool: string, callId: string) {
    this.tool = tool;
    this.callId = callId;
  }

  /** Fires with a fault that the execution itself has not thrown. */
  get fault(): AbortSignal {
    return this.#fault.signal;
  }

  /** Makes the fault the result of the call; returns false when that is too late, because the call has its result. */
  fail(fault: Error): boolean {
    if (this.#open) this.#fault.abort(fault);
    return this.#open;
  }

  /**
   * Runs `start` in the async context of this run and returns what it yields. Throws what `start` throws, the reason of `signal` when that fires
   * first, and a fault that came up meanwhile.
   */
  async wait<T>(start: () => Promise<T>, signal: AbortSignal): Promise<T> {
    try {
      const value = await raceAbort(runs.run(this, start), signal);
      // A promise that was rejected and left behind is reported when the microtasks are through.
      await nextTurnOfTheLoop();
      this.fault.throwIfAborted();
      return value;
    } finally {
      this.#open = false;
    }
  }
}

/** A tool that ignores its signal is left behind when the signal fires; what it returns then is dropped. */
function raceAbort<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  const { promise, reject } = Promise.withResolvers<never>();
  const abort = () => reject(signal.reason);
  if (signal.aborted) abort();
  signal.addEventListener('abort', abort, { once: true });
  return Promise.race([work, promise]).finally(() => signal.removeEventListener('abort', abort));
}
