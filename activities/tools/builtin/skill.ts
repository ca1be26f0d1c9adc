/** The built-in `skill`: instructions that the model takes in when it needs them (K8). */
import { z } from 'zod';
import { SKILL } from '../../../workflows/protocol/builtins.ts';
import type { Skill } from '../../../workflows/protocol/profile.ts';
import { clip } from '../../../workflows/protocol/sizes.ts';
import { answeredTool, type BuiltinAnswer } from './builtin-tool.ts';

/** Bytes that an error repeats of a name which the model made up. */
const SHOWN_NAME_BYTES = 100;

/** `skill`: answers with the content of a skill, and puts it to use. */
export const skill = answeredTool({
  name: SKILL,
  kind: 'skill',
  offeredTo: ({ skills }) => skills.length > 0,
  description: ({ profile }) => {
    const catalogue = sorted(profile.skills).map(({ name, description }) => `- ${name}: ${description}`);
    return [
      'Takes up a skill: returns its instructions, and offers its tools from then on. Skills:',
      ...catalogue,
    ].join('\n');
  },
  parameters: ({ profile }) => ({
    type: 'object',
    properties: { name: { type: 'string', enum: sorted(profile.skills).map(({ name }) => name) } },
    required: ['name'],
  }),
  schema: z.object({ name: z.string().min(1) }),
  answer: ({ name }, { profile: { skills } }) => {
    const found = skills.find((known) => known.name === name);
    return found ? { skill: name, result: { skill: name, instructions: found.content } } : unknownSkill(name, skills);
  },
});

/** The catalogue reads the same, in whatever order a profile lists its skills (W18). */
const sorted = (skills: readonly Skill[]): readonly Skill[] => [...skills].sort((a, b) => (a.name < b.name ? -1 : 1));

function unknownSkill(name: string, skills: readonly Skill[]): BuiltinAnswer {
  const names = skills.map((known) => known.name).join(', ');
  const message = `there is no skill ${clip(name, SHOWN_NAME_BYTES)}; there are: ${names}`;
  return { error: { code: 'invalid_arguments', message, kind: 'recoverable' } };
}
