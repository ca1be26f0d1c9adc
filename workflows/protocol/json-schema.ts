/** The schema of JSON that comes from outside. */
import { z } from 'zod';
import { isDeeperThan, type JsonValue } from './json.ts';

/** Values nested deeper than any use needs overflow the stack of the code that walks them. */
const MAX_DEPTH = 100;

/** Any JSON value that is nested at most 100 deep. */
export const jsonSchema: z.ZodType<JsonValue> = z
  .unknown()
  .refine((value) => !isDeeperThan(value, MAX_DEPTH + 1), {
    error: `must be nested at most ${MAX_DEPTH} deep`,
    abort: true,
  })
  .pipe(z.json());
