/** The JSON Schema of a tool's arguments, as it goes on the wire: what the model writes, without the draft it is written in. */
import { z } from 'zod';
import type { JsonObject } from '../../workflows/protocol/json.ts';

/** Throws for a schema that has no JSON Schema. */
export function parametersOf(schema: z.ZodType): JsonObject {
  const { $schema: _, ...parameters } = z.toJSONSchema(schema, { io: 'input' });
  return parameters as JsonObject;
}

const SAID_OF_ONE_SIDE = ['$schema', 'required', 'additionalProperties', 'default'];

const shapeOf = (schema: z.ZodType, io: 'input' | 'output'): string =>
  JSON.stringify(z.toJSONSchema(schema, { io }), (key, value: unknown) =>
    SAID_OF_ONE_SIDE.includes(key) ? undefined : value,
  );

/** Whether what the function gets is something else than what the model writes, defaults aside: then its JSON Schema does not say what. */
export function isTransforming(schema: z.ZodType): boolean {
  try {
    return shapeOf(schema, 'input') !== shapeOf(schema, 'output');
  } catch {
    // A transform has no JSON Schema.
    return true;
  }
}
