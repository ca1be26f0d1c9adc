/** Waiting while the store is away, inside one attempt of an activity. */
import { setTimeout as sleep } from 'node:timers/promises';
import { log } from '@temporalio/activity';
import { CodedError } from '../workflows/protocol/failures.ts';

const FIRST_PAUSE_MS = 100;
const LONGEST_PAUSE_MS = 5_000;

/** The pause after one of so many ms, none for the first time: twice as long, up to the longest. */
export const longer = (pauseMs: number): number =>
  pauseMs === 0 ? FIRST_PAUSE_MS : Math.min(2 * pauseMs, LONGEST_PAUSE_MS);

/** Whether an error says that the store is away: what was asked of it may have been done. */
export const isOutage = (error: unknown): boolean =>
  error instanceof CodedError && (error.code === 'store_unavailable' || error.code === 'store_locked');

/**
 * Runs an idempotent transaction until the store answers or `signal` fires; then throws what the store threw last. A model's answer is paid
 * for and a tool's effect has happened: neither may be lost because it could not be written at once, and an outage must not use up the
 * attempts that are meant for the provider.
 */
export async function outlastOutage<T>(signal: AbortSignal, run: () => Promise<T>): Promise<T> {
  for (let pauseMs = longer(0); ; pauseMs = longer(pauseMs)) {
    try {
      return await run();
    } catch (error) {
      if (!isOutage(error) || signal.aborted) throw error;
      log.warn('the store is away: waiting for it', { pauseMs, error: String(error) });
      // When the wait is aborted, the error of the store says more than the abort does.
      await sleep(pauseMs, undefined, { signal }).catch(() => Promise.reject(error));
    }
  }
}
