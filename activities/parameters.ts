/** The JSON Schema of a tool's arguments, from the zod schema that checks them. */
import { z } from 'zod';
import type { JsonObject } from '../workflows/protocol/json.ts';
import { objectSchema } from './object-schema.ts';

/** An object, and not a list, which is an object to TypeScript. */
type ObjectOnly = object & { readonly [Symbol.iterator]?: never };

/**
 * A schema of zod 4, or of its `zod/mini`, that takes an object and yields one: objects of any kind, unions and intersections of them, records,
 * with whatever refinements and transforms.
 */
export type ToolSchema = z.core.$ZodType<ObjectOnly, ObjectOnly>;

/**
 * The schema of what the model writes, before defaults and transforms, as it goes on the wire: the schema of one object, without the member
 * `$schema`. Throws an Error that says why when the value is no schema of zod 4, when it has no JSON Schema, or takes something else than an object.
 */
export function parametersOf(schema: z.core.$ZodType): JsonObject {
  const problem = misuse(schema);
  if (problem !== undefined) throw new TypeError(problem);
  const { $schema: _, ...parameters } = z.toJSONSchema(schema, { io: 'input', override: withoutNameOfAnyText });
  return objectSchema(parameters as JsonObject);
}

/** That the names of a record are texts goes without saying, and some servers refuse the word. */
function withoutNameOfAnyText({ jsonSchema }: { readonly jsonSchema: z.core.JSONSchema.BaseSchema }): void {
  if (JSON.stringify(jsonSchema.propertyNames) === '{"type":"string"}') delete jsonSchema.propertyNames;
}

/** What is wrong with a value that is no schema of zod 4, and what to do; undefined for a schema. */
function misuse(value: unknown): string | undefined {
  const expected = 'expected a schema of zod 4 such as z.object({ … })';
  if (typeof value !== 'object' || value === null) return `${expected}, got ${value === null ? 'null' : typeof value}`;
  if ('_zod' in value) return undefined;
  if ('_def' in value && 'safeParse' in value)
    return `${expected}, got one of zod 3; install zod 4, or import { z } from 'zod/v4'`;
  if ('type' in value || 'properties' in value)
    return `${expected}, got what looks like a JSON Schema; write it with zod, or wrap it in z.fromJSONSchema( … )`;
  return `${expected}, got an object without a schema; wrap its members in z.object( … )`;
}

/** Members in which the schema of what is written differs from that of what is parsed though no value is transformed. */
const SAID_OF_ONE_SIDE = ['$schema', 'required', 'additionalProperties', 'default'];

const shapeOf = (schema: z.core.$ZodType, io: 'input' | 'output'): string =>
  JSON.stringify(z.toJSONSchema(schema, { io }), (key, value: unknown) =>
    SAID_OF_ONE_SIDE.includes(key) ? undefined : value,
  );

/**
 * Whether the tool's function gets other values than the model writes, apart from defaults. The JSON Schema does not describe what it gets
 * then.
 */
export function isTransforming(schema: z.core.$ZodType): boolean {
  try {
    return shapeOf(schema, 'input') !== shapeOf(schema, 'output');
  } catch {
    // A transform has no JSON Schema.
    return true;
  }
}
