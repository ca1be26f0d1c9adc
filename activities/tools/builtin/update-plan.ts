/** The built-in `update_plan`: what the model keeps in mind of its own work, shown to it last in every prompt (K14). */
import { z } from 'zod';
import { UPDATE_PLAN } from '../../../workflows/protocol/builtins.ts';
import type { JsonObject } from '../../../workflows/protocol/json.ts';
import { answeredTool } from './builtin-tool.ts';

const line = z.string().min(1).max(200);

const planSchema = z.object({
  plan: z
    .array(z.object({ label: line, done: z.boolean().default(false) }))
    .min(1)
    .max(20)
    .describe('all steps, in order; replaces the plan before'),
  current_step: line.optional(),
  progress: z.string().max(500).optional(),
  blocked_on: z.array(line).max(5).optional(),
});

/** `update_plan`: takes down the model's plan. */
export const updatePlan = answeredTool({
  name: UPDATE_PLAN,
  kind: null,
  offeredTo: ({ planning }) => planning,
  description: 'Writes down the plan and where it stands. It is shown to you before every further step.',
  schema: planSchema,
  answer: () => ({ result: { accepted: true } }),
});

/** The plan as a prompt shows it, from the arguments of the call that wrote it; empty for arguments that are no plan. */
export function planText(args: JsonObject): string {
  const { data } = planSchema.safeParse(args);
  if (!data) return '';
  const steps = data.plan.map(
    ({ label, done }) => `${done ? '[x]' : label === data.current_step ? '[>]' : '[ ]'} ${label}`,
  );
  return [
    'Your plan:',
    ...steps,
    ...(data.progress ? [`Progress: ${data.progress}`] : []),
    ...(data.blocked_on?.length ? [`Blocked on: ${data.blocked_on.join('; ')}`] : []),
  ].join('\n');
}
