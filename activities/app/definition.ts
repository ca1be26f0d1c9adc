/** How a mistake in a definition is told: as `invalid_config`, with what it is in, the path to it, and the line that defines it. */
import { fileURLToPath } from 'node:url';
import { z } from 'zod';
import { CodedError } from '../../workflows/protocol/failures.ts';
import { nearest } from './nearest.ts';
import { framePlace } from './stack-frame.ts';

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
  const found = framePlace(frame);
  if (found === null) return undefined;
  const { file, line } = found;
  return `${file.startsWith('file:') ? fileURLToPath(file) : file}:${line}`;
}

/** The error of a definition, whose message ends with its place. */
export const invalid = ({ what, at }: Definition, problem: string, options?: ErrorOptions): CodedError =>
  new CodedError('invalid_config', `${what}${problem}${at === undefined ? '' : ` (defined at ${at})`}`, options);

/** The value as the schema parses it. Throws `invalid_config` with the path of what is wrong in it. */
export function checked<T>(definition: Definition, schema: z.ZodType<T>, value: unknown): T {
  const parsed = schema.safeParse(value);
  if (parsed.success) return parsed.data;
  const hints = parsed.error.issues.flatMap((issue) => hintsFor(issue, schema));
  throw invalid(definition, ` is invalid:\n${[z.prettifyError(parsed.error), ...hints].join('\n')}`);
}

/** What was most likely meant by members that the value must not have. */
function hintsFor(issue: z.core.$ZodIssue, schema: z.core.$ZodType): string[] {
  if (issue.code !== 'unrecognized_keys') return [];
  const shape = z.toJSONSchema(schema, { io: 'input', unrepresentable: 'any' });
  const known = Object.keys(membersAt(shape, issue.path) ?? {});
  return issue.keys.flatMap((key) => {
    const meant = nearest(key, known);
    return meant === undefined ? [] : [`  → did you mean ${[...issue.path, meant].join('.')}?`];
  });
}

/** The members of the object at a path into a JSON Schema; undefined where the schema has no one object there. */
function membersAt(shape: z.core.JSONSchema.BaseSchema, path: readonly PropertyKey[]): object | undefined {
  const place = path.reduce<unknown>((at, key) => {
    const { properties, items } = (at ?? {}) as z.core.JSONSchema.BaseSchema;
    return typeof key === 'number' ? items : properties?.[String(key)];
  }, shape);
  return (place as z.core.JSONSchema.BaseSchema | undefined)?.properties;
}
