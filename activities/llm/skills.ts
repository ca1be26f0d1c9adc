/** The built-in `skill`: instructions that the model takes in when it needs them (K8). Answered while the call is proposed. */
import { z } from 'zod';
import { SKILL } from '../../workflows/protocol/builtins.ts';
import type { ToolError } from '../../workflows/protocol/cards.ts';
import type { JsonObject } from '../../workflows/protocol/json.ts';
import type { Skill } from '../../workflows/protocol/profile.ts';
import { clip } from '../../workflows/protocol/sizes.ts';

/** Of a name that the model made up. */
const SHOWN_NAME_BYTES = 100;

export const skillSchema = z.object({ name: z.string().min(1) });

/** Null when there is no skill to offer. Its catalogue is sorted, so that it reads the same from step to step (W18). */
export function skillTool(
  skills: readonly Skill[],
): { name: string; description: string; parameters: JsonObject } | null {
  if (skills.length === 0) return null;
  const sorted = [...skills].sort((a, b) => (a.name < b.name ? -1 : 1));
  const catalogue = sorted.map(({ name, description }) => `- ${name}: ${description}`);
  return {
    name: SKILL,
    description: [
      'Takes up a skill: returns its instructions, and offers its tools from then on. Skills:',
      ...catalogue,
    ].join('\n'),
    parameters: {
      type: 'object',
      properties: { name: { type: 'string', enum: sorted.map((skill) => skill.name) } },
      required: ['name'],
    },
  };
}

export function answerSkill(
  skills: readonly Skill[],
  { name }: z.output<typeof skillSchema>,
): { readonly result: JsonObject } | { readonly error: ToolError } {
  const skill = skills.find((known) => known.name === name);
  if (skill) return { result: { skill: name, instructions: skill.content } };
  const names = skills.map((known) => known.name).join(', ');
  const message = `there is no skill ${clip(name, SHOWN_NAME_BYTES)}; there are: ${names}`;
  return { error: { code: 'invalid_arguments', message, kind: 'recoverable' } };
}
