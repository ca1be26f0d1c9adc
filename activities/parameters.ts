/** The JSON Schema of a tool's arguments, as it goes on the wire: what the model writes, without the draft it is written in. */
import { z } from 'zod';
import type { JsonObject } from '../workflows/protocol/json.ts';

/** Throws for a schema that has no JSON Schema. */
export function parametersOf(schema: z.ZodType): JsonObject {
  const { $schema: _, ...parameters } = z.toJSONSchema(schema, { io: 'input' });
  return parameters as JsonObject;
}
