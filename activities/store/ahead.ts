/**
 * Times that were written while a clock was ahead, and that stay when it is set back.
 *
 * Invariant: what was due so long after it was written is due so long after now at the latest. A row that was written at a time which is
 * still to come shows that a clock was ahead; whoever sees such a row moves its times back by as much, and writes them down.
 */

/** Clocks that agree are not further apart. */
export const MOST_SKEW_MS = 60_000;

/** How far ahead the clock was that showed this time when something was written; 0 for a clock that was right. */
export const aheadBy = (writtenAt: number, now: number): number => Math.max(0, writtenAt - now);
