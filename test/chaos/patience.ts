/** How a client of a run deals with a server or a store that is away: it counts, waits and asks again, for a bounded time. */
import { setTimeout as sleep } from 'node:timers/promises';
import { CodedError, type FailureCode } from '../../workflows/protocol/failures.ts';
import type { Ledger } from './ledger.ts';

const TRANSIENT: ReadonlySet<FailureCode> = new Set(['temporal_unreachable', 'store_unavailable', 'store_locked']);
const GIVE_UP_MS = 120_000;
/** A call that neither succeeds nor fails for this long is a fault of ours. */
const HANG_MS = 90_000;

export const codeOf = (error: unknown): FailureCode | null => (error instanceof CodedError ? error.code : null);

export const isTransient = (error: unknown): boolean => {
  const code = codeOf(error);
  return code !== null && TRANSIENT.has(code);
};

/** The call's value; undefined when it was given up, which is noted as a problem. Errors that do not pass by waiting are thrown. */
export async function patiently<T>(ledger: Ledger, what: string, call: () => Promise<T>): Promise<T | undefined> {
  const deadline = Date.now() + GIVE_UP_MS;
  for (let pauseMs = 100; ; pauseMs = Math.min(2_000, pauseMs * 2)) {
    try {
      return await within(HANG_MS, what, call());
    } catch (error) {
      if (!isTransient(error)) throw error;
      ledger.count(`${codeOf(error)}, retried`);
      if (Date.now() > deadline) {
        ledger.problem({ check: 'client_gave_up', detail: `${what}: ${String(error)}` });
        return undefined;
      }
    }
    await sleep(pauseMs);
  }
}

/** For work that nobody waits for: an error that does not pass by waiting is a problem of its own. */
export async function noting(ledger: Ledger, what: string, work: () => Promise<unknown>): Promise<void> {
  try {
    await work();
  } catch (error) {
    if (isTransient(error)) ledger.count(`${codeOf(error)}, not retried: ${what}`);
    else ledger.problem({ check: 'client_error', detail: `${what}: ${String(error)}` });
  }
}

async function within<T>(ms: number, what: string, work: Promise<T>): Promise<T> {
  const timer = Promise.withResolvers<never>();
  const timeout = setTimeout(() => timer.reject(new Error(`${what} took longer than ${ms} ms`)), ms);
  try {
    return await Promise.race([work, timer.promise]);
  } finally {
    clearTimeout(timeout);
  }
}
