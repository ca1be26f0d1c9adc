/** A tool as a developer writes it, checked where it is defined (W6). */
import { z } from 'zod';
import type { AfterExecution } from '../../workflows/protocol/cards.ts';
import type { JsonObject, JsonValue } from '../../workflows/protocol/json.ts';
import { type retrySchema, type ToolSpec, toolSpecSchema } from '../../workflows/protocol/profile.ts';
import { describeError } from '../failure.ts';
import { isTransforming, parametersOf, type ToolSchema } from '../parameters.ts';
import type { SerialisableReturn } from '../serialisable.ts';
import { DEFAULT_TOOL_TIMEOUT_MS, type Tool, type ToolContext } from '../tool.ts';
import { builtinTool } from '../tools/builtin/registry.ts';
import { callerOf, checked, type Definition, invalid } from './definition.ts';

/** What a function of a tool returns whose type says nothing else. */
type PlainReturn = JsonValue | undefined | Promise<JsonValue | undefined>;

/** A tool as its developer writes it. */
export interface ToolDefinition<Schema extends ToolSchema = ToolSchema, Returned = PlainReturn> {
  /** What the model calls the tool by: 1 to 64 letters, digits, `_` and `-`, and not the name of a built-in tool. */
  readonly name: string;
  /** What the tool does and when to use it, written for the model. */
  readonly description: string;
  /**
   * Schema of the arguments, which are an object. Defaults and transforms apply once, before the call is stored; what they yield must be
   * JSON. A model is shown the members of all variants of a union as those of one object, and each variant in its description.
   */
  readonly parameters: Schema;
  /**
   * `continue` (default): the result goes to the model. `terminate`: the result ends the turn. `suspend`: after `execute` returned the
   * call waits for a result from outside (client, CLI, signal), until `suspendTimeoutMs`.
   */
  readonly afterExecution?: AfterExecution;
  /** How long one execution may take; default 60,000 ms. */
  readonly timeoutMs?: number;
  /** How long a suspended call waits for its result, in ms; when left out, as long as the profile or else the runtime says (T13). */
  readonly suspendTimeoutMs?: number;
  /** What a second run would do. A tool that is `unsafe`, the default, is never run twice, not even after a crash (W10). */
  readonly sideEffects?: ToolSpec['sideEffects'];
  /**
   * How often the function is run again within the call when it threw or took too long, before that becomes the failed result: `attempts` in
   * all, after pauses from `initialMs` (1,000) that double up to `maxMs` (30,000). Only for a tool whose `sideEffects` let it run twice.
   */
  readonly retry?: z.input<typeof retrySchema>;
  /** `own`: each call is an activity of its own, which the Web UI shows by itself; absent where that does not matter. */
  readonly placement?: 'own';
  /**
   * Does the work. What it returns is the result, and may be of any type that JSON keeps; what it throws is a failed result for the model.
   * Optional for suspending tools.
   */
  readonly execute?: (args: z.output<Schema>, context: ToolContext) => SerialisableReturn<Returned>;
}

/** Validates the definition of a tool and returns the tool for `defineApp` (W6). Throws `invalid_config`, naming the tool, the field and the line. */
export function defineTool<Schema extends ToolSchema, Returned = PlainReturn>(
  definition: ToolDefinition<Schema, Returned>,
): Tool {
  const { name, parameters, execute, afterExecution = 'continue' } = definition;
  const defined = { what: `tool ${name}`, at: callerOf(defineTool) };
  if (builtinTool(name)) throw invalid(defined, ' has the name of a built-in tool; choose another');
  if (!execute && afterExecution !== 'suspend')
    throw invalid(defined, ' has no execute function; only a suspending tool may leave it out');
  const spec = checked(defined, toolSpecSchema, {
    name,
    description: definition.description,
    parameters: jsonSchemaOf(defined, parameters),
    ...(isTransforming(parameters) ? { transforms: true as const } : {}),
    afterExecution,
    timeoutMs: definition.timeoutMs ?? DEFAULT_TOOL_TIMEOUT_MS,
    ...(definition.suspendTimeoutMs === undefined ? {} : { suspendTimeoutMs: definition.suspendTimeoutMs }),
    sideEffects: definition.sideEffects ?? 'unsafe',
    ...(definition.retry === undefined ? {} : { retry: definition.retry }),
    ...(definition.placement === undefined ? {} : { placement: definition.placement }),
  });
  if (spec.retry && spec.sideEffects === 'unsafe')
    throw invalid(defined, ": retry would run it twice; say sideEffects: 'idempotent' or 'none', or leave retry out");
  return {
    spec,
    definedAt: defined.at,
    parse: (args) => z.parse(parameters, args) as JsonObject,
    execute: async (args, context) => execute?.(args as z.output<Schema>, context),
  };
}

function jsonSchemaOf(defined: Definition, parameters: ToolSchema): JsonObject {
  try {
    return parametersOf(parameters);
  } catch (error) {
    throw invalid(defined, `: its parameters cannot be used: ${describeError(error)}`, { cause: error });
  }
}
