/** The built-in `submit_result`: the model hands in the fields of its result, which ends the turn (W12, T28). */
import { z } from 'zod';
import { SUBMIT_RESULT } from '../../../workflows/protocol/builtins.ts';
import type { ToolError } from '../../../workflows/protocol/cards.ts';
import type { ResultFields } from '../../../workflows/protocol/enqueue.ts';
import type { JsonObject } from '../../../workflows/protocol/json.ts';
import { answeredTool } from './builtin-tool.ts';

/** `submit_result`: takes the fields of the deliverable. */
export const submitResult = answeredTool({
  name: SUBMIT_RESULT,
  kind: null,
  offeredTo: () => true,
  description: ({ resultFields }) => descriptionFor(resultFields),
  parameters: ({ resultFields }) => parametersFor(resultFields),
  schema: z.object({
    fields: z.array(z.object({ name: z.string().min(1), value: z.json() })).min(1),
  }),
  refuse: ({ fields }, { alone, resultFields }) =>
    alone
      ? incomplete(
          fields.map((field) => field.name),
          resultFields,
        )
      : NOT_ALONE,
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
  const names = resultFields?.fields.map((field) => field.name);
  return {
    type: 'object',
    properties: {
      fields: {
        type: 'array',
        minItems: 1,
        items: {
          type: 'object',
          properties: {
            name: names?.length ? { type: 'string', enum: names } : { type: 'string' },
            value: { description: 'any JSON value' },
          },
          required: ['name', 'value'],
        },
      },
    },
    required: ['fields'],
  };
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
