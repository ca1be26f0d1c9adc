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
  // A signal of `AbortSignal.timeout`, once others depend on it, lives until it fires, and with it all that the call held.
  readonly #cut = new AbortController();
  #fault: Error | null = null;
  #timedOut = false;
  #open = true;

  constructor(tool: string, callId: string) {
    this.tool = tool;
    this.callId = callId;
  }

  /** Whether the time of the execution passed before anything else cut it short. */
  get timedOut(): boolean {
    return this.#timedOut;
  }

  /** Makes the fault the result of the call; returns false when that is too late, because the call has its result. */
  fail(fault: Error): boolean {
    if (!this.#open || this.#timedOut) return false;
    this.#fault ??= fault;
    this.#cutShort(fault);
    return true;
  }

  /**
   * Runs `start` in the async context of this run and returns what it yields. The signal that `start` gets fires with `ended`, after `timeoutMs`, and
   * with a fault. Throws what `start` throws, the reason of the signal when that fires first, and a fault that came up meanwhile.
   */
  async wait<T>(start: (signal: AbortSignal) => Promise<T>, ended: AbortSignal, timeoutMs: number): Promise<T> {
    const { signal } = this.#cut;
    const end = () => this.#cutShort(ended.reason);
    const timer = setTimeout(() => this.#timeOut(timeoutMs), timeoutMs);
    if (ended.aborted) end();
    ended.addEventListener('abort', end, { once: true });
    try {
      const value = await raceAbort(
        runs.run(this, () => start(signal)),
        signal,
      );
      clearTimeout(timer);
      // A promise that was rejected and left behind is reported when the microtasks are through.
      await nextTurnOfTheLoop();
      if (this.#fault) throw this.#fault;
      return value;
    } finally {
      this.#open = false;
      clearTimeout(timer);
      ended.removeEventListener('abort', end);
    }
  }

  #timeOut(timeoutMs: number): void {
    this.#timedOut = !this.#cut.signal.aborted;
    this.#cutShort(new DOMException(`the tool took longer than ${timeoutMs} ms`, 'TimeoutError'));
  }

  /** In the context of the run: what the tool's listeners throw is a fault of the call. */
  #cutShort(reason: unknown): void {
    runs.run(this, () => this.#cut.abort(reason));
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
