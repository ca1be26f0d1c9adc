/** JSON from outside, nested no deeper than anybody needs: deeper values overflow the stack of whoever walks them. */
import { z } from 'zod';
import type { JsonValue } from './json.ts';

const MAX_DEPTH = 100;

function tooDeep(value: unknown): boolean {
  let level: unknown[] = [value];
  for (let depth = 0; depth <= MAX_DEPTH; depth += 1) {
    level = level.flatMap((item) => (typeof item === 'object' && item !== null ? Object.values(item) : []));
    if (level.length === 0) return false;
  }
  return true;
}

export const jsonSchema: z.ZodType<JsonValue> = z
  .unknown()
  .refine((value) => !tooDeep(value), { error: `must be nested at most ${MAX_DEPTH} deep`, abort: true })
  .pipe(z.json());
