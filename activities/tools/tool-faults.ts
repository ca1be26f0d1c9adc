/**
 * Whose fault it is when something goes wrong outside of every call: a rejected promise that nobody awaits, an exception in a timer. Node
 * would end the process for it, and with it what all other turns do there. The async context in which a tool runs says which call it came
 * from, however late.
 */
import { AsyncLocalStorage } from 'node:async_hooks';
import { setImmediate as nextTurnOfTheLoop } from 'node:timers/promises';

const runs = new AsyncLocalStorage<ToolRun>();

/** The run of a tool that the code of the caller belongs to, though it may have ended; undefined outside of all. */
export const currentToolRun = (): ToolRun | undefined => runs.getStore();

/** One execution of a tool. */
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

  /** Makes the fault the result of the call; false when that is too late. */
  fail(fault: Error): boolean {
    if (this.#open) this.#fault.abort(fault);
    return this.#open;
  }

  /** What `start` yields, or the reason of `signal`. Once. */
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
