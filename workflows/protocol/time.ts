/** Points in time and waits, in ms. */

/** The longest wait, which is a year. It is far below what a date can hold, so that every deadline can be shown. */
export const MAX_WAIT_MS = 365 * 24 * 3_600_000;

/** The latest time, in epoch ms, that a JavaScript date can hold. */
const LAST_DATE_MS = 8.64e15;

/** A time in epoch ms for people to read, in ISO 8601. A number that is outside of what a date can hold is shown as a number of ms. */
export const shownTime = (epochMs: number): string =>
  Math.abs(epochMs) <= LAST_DATE_MS ? new Date(epochMs).toISOString() : `${epochMs} ms`;
