/** An agent as a developer writes it, checked where it is defined. */
import type { z } from 'zod';
import type { JsonObject } from '../../workflows/protocol/json.ts';
import { type Profile, type ProfileInput, profileSchema } from '../../workflows/protocol/profile.ts';
import { describeError } from '../failure.ts';
import { isTransforming, parametersOf } from '../parameters.ts';
import { OPTIONAL_BUILTINS } from '../tools/builtin/registry.ts';
import { callerOf, checked, type Definition, invalid } from './definition.ts';

/** The schema of what an agent delivers: an object of zod 4, whose members are the fields of the deliverable. */
export type OutputSchema = z.core.$ZodObject;

/** An agent as its developer writes it. */
export interface AgentDefinition<Output extends OutputSchema | null = OutputSchema | null> extends ProfileInput {
  /**
   * What the agent delivers, instead of `resultFields`: each member is a field, shown to the model with its type and description. The values
   * that it submits are checked by this schema, and the model corrects them; a request that names `resultFields` of its own is served by those.
   */
  readonly output?: Output;
}

/** An agent of an app; `Output` is the type of its schema `output`. */
export interface Agent<Output extends OutputSchema | null = OutputSchema | null> {
  /** The definition with its defaults filled in, as it is pinned for turns. */
  readonly profile: Profile;
  /** Null for an agent that does not say what it delivers. */
  readonly output: Output;
  /** File and line of its definition; undefined where Node does not tell. */
  readonly definedAt: string | undefined;
}

/**
 * Checks an agent and fills in what its definition leaves out. Throws `invalid_config`, naming the agent, the field and the line, also for a name in
 * `builtins` that is none of a built-in tool which can be asked for, and for an `output` that transforms what is submitted.
 */
export function defineAgent<Output extends OutputSchema | null = null>({
  output,
  ...definition
}: AgentDefinition<Output>): Agent<Output> {
  const defined = { what: `agent ${definition.name}`, at: callerOf(defineAgent) };
  const fields = output ? { resultFields: resultFieldsOf(defined, output, definition) } : {};
  const profile = checked(defined, profileSchema, { ...definition, ...fields });
  const unknown = profile.builtins.filter((name) => !OPTIONAL_BUILTINS.includes(name));
  if (unknown.length === 0) return { profile, output: (output ?? null) as Output, definedAt: defined.at };
  const known = OPTIONAL_BUILTINS.join(', ') || 'none';
  throw invalid(defined, `: builtins names ${unknown.join(', ')}; tools that can be named there: ${known}`);
}

/** The fields of the deliverable that the members of the schema make. */
function resultFieldsOf(
  defined: Definition,
  output: OutputSchema,
  { resultFields }: ProfileInput,
): ProfileInput['resultFields'] {
  if (resultFields) throw invalid(defined, ' has both output and resultFields; leave resultFields out');
  const { properties = {}, required = [] } = jsonSchemaOf(defined, output);
  // What is delivered is what was submitted, so that its type is known from the schema and its form from JSON Schema.
  if (isTransforming(output))
    throw invalid(defined, ': its output transforms values; describe what is submitted instead');
  const fields = Object.entries(properties as Readonly<Record<string, JsonObject>>).map(([name, member]) => {
    const { description, ...schema } = member;
    const isWhole = !JSON.stringify(schema).includes('"$ref":');
    return {
      name,
      ...(typeof description === 'string' ? { description } : {}),
      required: (required as readonly string[]).includes(name),
      // A part of a schema that refers to another part says nothing by itself; then the field is shown by its description alone.
      ...(isWhole ? { schema: { ...schema } } : {}),
    };
  });
  return { fields };
}

function jsonSchemaOf(defined: Definition, output: OutputSchema): JsonObject {
  try {
    return parametersOf(output);
  } catch (error) {
    throw invalid(defined, `: its output cannot be used: ${describeError(error)}`, { cause: error });
  }
}
