/** JSON from outside, nested no deeper than anybody needs: deeper values overflow the stack of whoever walks them. */
import { z } from 'zod';
import { isDeeperThan, type JsonValue } from './json.ts';

const MAX_DEPTH = 100;

export const jsonSchema: z.ZodType<JsonValue> = z
  .unknown()
  .refine((value) => !isDeeperThan(value, MAX_DEPTH + 1), {
    error: `must be nested at most ${MAX_DEPTH} deep`,
    abort: true,
  })
  .pipe(z.json());
