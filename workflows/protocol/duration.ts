/** Durations as definitions give them: whole ms, at most a year. */
import { z } from 'zod';
import { MAX_WAIT_MS } from './time.ts';

const bounded = z.int().max(MAX_WAIT_MS, { error: `must be at most ${MAX_WAIT_MS} ms, which is a year` });

export const durationMs = bounded.positive();
/** Where 0 means something: never, or not at all. */
export const durationMsOrZero = bounded.nonnegative();
