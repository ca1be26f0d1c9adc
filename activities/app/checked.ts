/** How a mistake in a definition is told: as `invalid_config`, with what it is in and the path to it. */
import { z } from 'zod';
import { CodedError } from '../../workflows/protocol/failures.ts';

/** The value as the schema parses it. Throws `invalid_config` with the path of what is wrong in `what`. */
export function checked<T>(what: string, schema: z.ZodType<T>, value: unknown): T {
  const parsed = schema.safeParse(value);
  if (parsed.success) return parsed.data;
  throw new CodedError('invalid_config', `${what} is invalid:\n${z.prettifyError(parsed.error)}`);
}
