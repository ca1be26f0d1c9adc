/** The built-in `submit_result`: the model hands in the fields of its result, which ends the turn (W12, T28). */
import { z } from 'zod';
import { SUBMIT_RESULT } from '../../../workflows/protocol/builtins.ts';
import type { ToolError } from '../../../workflows/protocol/cards.ts';
import type { ResultFields } from '../../../workflows/protocol/enqueue.ts';
import type { JsonObject, JsonValue } from '../../../workflows/protocol/json.ts';
import { throughJson } from '../../serialisable.ts';
import { answeredTool, type CheckedArguments } from './builtin-tool.ts';

/** `submit_result`: takes the fields of the deliverable. */
export const submitResult = answeredTool({
  name: SUBMIT_RESULT,
  kind: null,
  offeredTo: () => true,
  description: ({ resultFields }) => descriptionFor(resultFields),
  parameters: ({ resultFields }) => parametersFor(resultFields),
  schema: z.object({
    fields: z
      .array(z.object({ name: z.string().min(1), value: z.json() }), {
        error: 'expected a list: {"fields":[{"name":"…","value":…}, …]}',
      })
      .min(1),
  }),
  admit: ({ fields }, { alone, resultFields, output }) => {
    if (!alone) return { error: NOT_ALONE };
    const names = fields.map((field) => field.name);
    const error = incomplete(names, resultFields);
    return error ? { error } : typed(fields, output ?? outputSchema(resultFields));
  },
  answer: () => ({ result: { accepted: true }, afterExecution: 'terminate' }),
});

function descriptionFor(resultFields: ResultFields | null): string {
  const described = resultFields?.fields.map(
    ({ name, description, required }) =>
      `- ${name} (${required ? 'required' : 'optional'})${description ? `: ${description}` : ''}`,
  );
  return [
    'Submit the final result and end the turn. Must be the only tool call of its message.',
    ...(described?.length ? ['Fields, each once:', ...described] : []),
  ].join('\n');
}

function parametersFor(resultFields: ResultFields | null): JsonObject {
  return {
    type: 'object',
    properties: { fields: { type: 'array', minItems: 1, items: itemFor(resultFields?.fields ?? []) } },
    required: ['fields'],
  };
}

const ANY_VALUE: JsonObject = { description: 'any JSON value' };

const field = (name: JsonObject, value: JsonObject): JsonObject => ({
  type: 'object',
  properties: { name, value },
  required: ['name', 'value'],
});

/** A field by itself where the values are of certain types; else one for all names together. */
function itemFor(fields: ResultFields['fields']): JsonObject {
  const names = fields.map(({ name }) => name);
  if (names.length === 0) return field({ type: 'string' }, ANY_VALUE);
  if (fields.every(({ schema }) => schema === undefined)) return field({ type: 'string', enum: names }, ANY_VALUE);
  return { anyOf: fields.map(({ name, schema }) => field({ type: 'string', enum: [name] }, schema ?? ANY_VALUE)) };
}

const NOT_ALONE: ToolError = {
  code: 'submit_result_not_alone',
  message: `${SUBMIT_RESULT} must be the only call of its message; the other calls ran, submit once they are done`,
  kind: 'recoverable',
};

/** Null when each required field was given, and no field twice. */
function incomplete(names: readonly string[], resultFields: ResultFields | null): ToolError | null {
  const missing =
    resultFields?.fields.filter((field) => field.required && !names.includes(field.name)).map((field) => field.name) ??
    [];
  const seen = new Set<string>();
  const doubled = names.filter((name) => {
    const again = seen.has(name);
    seen.add(name);
    return again;
  });
  if (missing.length === 0 && doubled.length === 0) return null;
  const problems = [
    ...(missing.length > 0 ? [`missing: ${missing.join(', ')}`] : []),
    ...(doubled.length > 0 ? [`given more than once: ${[...new Set(doubled)].join(', ')}`] : []),
  ];
  const message = `the result fields are not complete (${problems.join('; ')}); call ${SUBMIT_RESULT} again with each required field once`;
  return { code: 'missing_result_fields', message, kind: 'recoverable' };
}

type Submitted = readonly { readonly name: string; readonly value: JsonValue }[];

/** What the fields say of their values, as one schema; null when they say nothing. */
function outputSchema(resultFields: ResultFields | null): z.core.$ZodType | null {
  const described = resultFields?.fields.filter(({ schema }) => schema !== undefined) ?? [];
  if (described.length === 0) return null;
  const members = described.map(({ name, required, schema }) => {
    const value = z.fromJSONSchema(schema as Parameters<typeof z.fromJSONSchema>[0]);
    return [name, required ? value : value.optional()] as const;
  });
  return z.looseObject(Object.fromEntries(members));
}

/** The fields with their values as the schema takes them, defaults filled in; or what is wrong with them. */
function typed(fields: Submitted, schema: z.core.$ZodType | null): CheckedArguments {
  if (schema === null) return { args: { fields } };
  const parsed = z.safeParse(schema, Object.fromEntries(fields.map(({ name, value }) => [name, value])));
  if (parsed.success) {
    const values = throughJson(parsed.data) as JsonObject;
    return { args: { fields: Object.entries(values).map(([name, value]) => ({ name, value })) } };
  }
  const message = `the values of the fields are not as they must be:\n${z.prettifyError(parsed.error)}\nCorrect them and call ${SUBMIT_RESULT} again with all fields.`;
  return { error: { code: 'invalid_arguments', message, kind: 'recoverable' } };
}
