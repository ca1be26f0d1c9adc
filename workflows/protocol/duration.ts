/** The schemas of durations in definitions: whole milliseconds, at most a year. */
import { z } from 'zod';
import { MAX_WAIT_MS } from './time.ts';

const bounded = z.int().max(MAX_WAIT_MS, { error: `must be at most ${MAX_WAIT_MS} ms, which is a year` });

/** A duration of at least one millisecond. */
export const durationMs = bounded.positive();
/** A duration that may be 0, where 0 means never or not at all. */
export const durationMsOrZero = bounded.nonnegative();
