/** The JSON Schema of a tool's arguments, from the zod schema that checks them. */
import { z } from 'zod';
import type { JsonObject } from '../workflows/protocol/json.ts';

/**
 * The schema of what the model writes, before defaults and transforms, as it goes on the wire: without the member `$schema`. Throws an Error
 * for a schema that has no JSON Schema.
 */
export function parametersOf(schema: z.ZodType): JsonObject {
  const { $schema: _, ...parameters } = z.toJSONSchema(schema, { io: 'input' });
  return parameters as JsonObject;
}

/** Members in which the schema of what is written differs from that of what is parsed though no value is transformed. */
const SAID_OF_ONE_SIDE = ['$schema', 'required', 'additionalProperties', 'default'];

const shapeOf = (schema: z.ZodType, io: 'input' | 'output'): string =>
  JSON.stringify(z.toJSONSchema(schema, { io }), (key, value: unknown) =>
    SAID_OF_ONE_SIDE.includes(key) ? undefined : value,
  );

/**
 * Whether the tool's function gets other values than the model writes, apart from defaults. The JSON Schema does not describe what it gets
 * then.
 */
export function isTransforming(schema: z.ZodType): boolean {
  try {
    return shapeOf(schema, 'input') !== shapeOf(schema, 'output');
  } catch {
    // A transform has no JSON Schema.
    return true;
  }
}
