/** Times at which an agent wants to be woken: once, or again and again on a fixed grid (A9). Times are in epoch ms by the store's clock. */

/** A timer that has not fired for the last time. */
export interface ActiveTimer {
  readonly timerId: string;
  readonly reason: string;
  /** When it fires next. */
  readonly nextAt: number;
  /** The distance between two firings; null for one that fires once. */
  readonly everyMs: number | null;
  readonly createdAt: number;
}

/** The most timers that an agent may have. */
export const MOST_TIMERS = 100;
/** The shortest distance between two firings: each may cost a turn. */
export const SHORTEST_EVERY_MS = 60_000;

/**
 * When a timer that has fired fires again: at the next place of its grid that is still to come, however late it was, so that what was missed
 * fires once and no firing moves those after it. Null for one that fires once.
 */
export function nextFiring({ nextAt, everyMs }: Pick<ActiveTimer, 'nextAt' | 'everyMs'>, nowMs: number): number | null {
  if (everyMs === null) return null;
  const missed = Math.max(0, Math.floor((nowMs - nextAt) / everyMs));
  return nextAt + (missed + 1) * everyMs;
}
