/** How a mistake in a definition is told: as `invalid_config`, with what it is in, the path to it, and the line that defines it. */
import { fileURLToPath } from 'node:url';
import { z } from 'zod';
import { CodedError } from '../../workflows/protocol/failures.ts';

/** What is defined, such as `tool forecast`, and where. */
export interface Definition {
  readonly what: string;
  /** File and line of the call that defines it; undefined where Node does not tell. */
  readonly at: string | undefined;
}

/** The file and line that called the function `define`; undefined where Node does not tell. */
export function callerOf(define: (...args: never) => unknown): string | undefined {
  const place: { stack?: string } = {};
  Error.captureStackTrace(place, define);
  const [, frame = ''] = place.stack?.split('\n') ?? [];
  const [, file, line] = /(?:\(|at (?:async )?)([^()]+):(\d+):\d+\)?$/.exec(frame) ?? [];
  if (file === undefined) return undefined;
  return `${file.startsWith('file:') ? fileURLToPath(file) : file}:${line}`;
}

/** The error of a definition, whose message ends with its place. */
export const invalid = ({ what, at }: Definition, problem: string, options?: ErrorOptions): CodedError =>
  new CodedError('invalid_config', `${what}${problem}${at === undefined ? '' : ` (defined at ${at})`}`, options);

/** The value as the schema parses it. Throws `invalid_config` with the path of what is wrong in it. */
export function checked<T>(definition: Definition, schema: z.ZodType<T>, value: unknown): T {
  const parsed = schema.safeParse(value);
  if (parsed.success) return parsed.data;
  throw invalid(definition, ` is invalid:\n${z.prettifyError(parsed.error)}`);
}
