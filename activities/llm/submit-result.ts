/** The built-in `submit_result`: its schema as offered, and the check of what came (W12, T28). */
import { z } from 'zod';
import { SUBMIT_RESULT } from '../../workflows/protocol/builtins.ts';
import type { ToolError } from '../../workflows/protocol/cards.ts';
import type { ResultFields } from '../../workflows/protocol/enqueue.ts';
import type { JsonObject } from '../../workflows/protocol/json.ts';

export const submitResultSchema = z.object({
  fields: z.array(z.object({ name: z.string().min(1), value: z.json() })).min(1),
});

export function submitResultTool(resultFields: ResultFields | null): {
  name: string;
  description: string;
  parameters: JsonObject;
} {
  const described = resultFields?.fields.map(
    ({ name, description, required }) =>
      `- ${name} (${required ? 'required' : 'optional'})${description ? `: ${description}` : ''}`,
  );
  const names = resultFields?.fields.map((field) => field.name);
  return {
    name: SUBMIT_RESULT,
    description: [
      'Submit the final result and end the turn. Must be the only tool call of its message.',
      ...(described?.length ? ['Fields, each once:', ...described] : []),
    ].join('\n'),
    parameters: {
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
    },
  };
}

/** Null when the submission is acceptable; else what the model must correct. */
export function submissionError(args: JsonObject, alone: boolean, resultFields: ResultFields | null): ToolError | null {
  if (!alone) {
    const message = `${SUBMIT_RESULT} must be the only call of its message; the other calls ran, submit once they are done`;
    return { code: 'submit_result_not_alone', message, kind: 'recoverable' };
  }
  const names = submitResultSchema.parse(args).fields.map((field) => field.name);
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
