/** The schema of JSON that comes from outside. */
import { z } from 'zod';
import { isDeeperThan, type JsonValue } from './json.ts';

/** Values nested deeper than any use needs overflow the stack of the code that walks them. */
const MAX_DEPTH = 100;

const TOO_DEEP = `must be nested at most ${MAX_DEPTH} deep`;

/** What is wrong with the depth of a JSON value; null where nothing is. */
export const depthProblem = (value: unknown): string | null => (isDeeperThan(value, MAX_DEPTH + 1) ? TOO_DEEP : null);

/** Any JSON value that is nested at most 100 deep. */
export const jsonSchema: z.ZodType<JsonValue> = z
  .unknown()
  .refine((value) => depthProblem(value) === null, { error: TOO_DEEP, abort: true })
  .pipe(z.json());
