/** Points in time and waits, in ms. */

/** Nothing waits longer: a year. Far below what a date can hold, so that a deadline can always be shown. */
export const MAX_WAIT_MS = 365 * 24 * 3_600_000;

/** What a JavaScript date can hold. */
const LAST_DATE_MS = 8.64e15;

/** An epoch time for people, in ISO 8601; what is no time is shown as it is, and never an error. */
export const shownTime = (epochMs: number): string =>
  Math.abs(epochMs) <= LAST_DATE_MS ? new Date(epochMs).toISOString() : `${epochMs} ms`;
