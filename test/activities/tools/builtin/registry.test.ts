/** What holds for every built-in tool because it follows from the list: a tool that is added is tested here as well. */
import { describe, expect, test } from '@jest/globals';
import { z } from 'zod';
import { defineAgent, defineApp, defineTool } from '../../../../activities/app/app.ts';
import { readProposals } from '../../../../activities/llm/proposals.ts';
import {
  BUILTIN_TOOLS,
  builtinSpecs,
  OPTIONAL_BUILTINS,
  offeredBuiltins,
  parseArguments,
} from '../../../../activities/tools/builtin/registry.ts';
import { isDelegation } from '../../../../workflows/protocol/builtins.ts';
import type { JsonObject } from '../../../../workflows/protocol/json.ts';
import { type ProfileInput, profileSchema } from '../../../../workflows/protocol/profile.ts';
import { proposalContext, streamedCall } from '../../../support/proposed-calls.ts';

/** A profile that is offered every built-in tool. */
const EVERYTHING: Partial<ProfileInput> = {
  skills: [{ name: 'debug', description: 'd', content: 'c' }],
  planning: true,
  delegationPolicy: { profiles: ['doctor'] },
  builtins: [...OPTIONAL_BUILTINS],
};
const offeredTo = (profile: Partial<ProfileInput>) =>
  offeredBuiltins({ profile: profileSchema.parse({ name: 'p', ...profile }), resultFields: null });
/** Each property of the schema with a value that none of them takes. */
const wronglyTyped = ({ properties = {} }: JsonObject = {}): JsonObject =>
  Object.fromEntries(Object.keys(properties as JsonObject).map((key) => [key, { of: 'another type' }]));

const named = BUILTIN_TOOLS.map((tool) => [tool.name, tool] as const);

describe('the built-in tools', () => {
  test('are offered as the profile says, two of them to each (W12)', () => {
    const names = (profile: Partial<ProfileInput>) => offeredTo(profile).map(({ name }) => name);
    expect(names({})).toEqual(['submit_result', 'read_result']);
    expect(names({ planning: true })).toEqual(['submit_result', 'read_result', 'update_plan']);
    expect(names(EVERYTHING)).toEqual(BUILTIN_TOOLS.map(({ name }) => name));
  });

  test('that every prompt so far has had stand first in their order: prompts keep their prefix (W18)', () => {
    const first = ['delegate_async', 'ask_expert', 'submit_result', 'read_result', 'skill', 'update_plan'];
    expect(named.map(([name]) => name).slice(0, first.length)).toEqual(first);
  });

  test('that delegate are those of which the kernel knows it (K9)', () => {
    const delegating = BUILTIN_TOOLS.filter((tool) => 'delegation' in tool);
    expect(delegating).toEqual(BUILTIN_TOOLS.filter(({ name }) => isDelegation(name)));
  });
});

describe.each(named)('the built-in tool %s', (name, tool) => {
  const parameters = z.object({});

  test('is answered, run or delegates: one of the three', () => {
    expect(['answer', 'execute', 'delegation'].filter((member) => member in tool)).toHaveLength(1);
  });

  test('keeps its name: an app may not define a tool of that name (W12)', () => {
    const define = () => defineTool({ name, description: '', parameters, execute: () => null });
    expect(define).toThrow(expect.objectContaining({ code: 'invalid_config', message: expect.stringContaining(name) }));
  });

  test('may be allowed, ruled and required by name without a warning that there is no such tool (W7)', () => {
    const governance = { rules: [{ tool: name, action: 'ask' as const }], veto: [name] };
    const profile = defineAgent({ name: 'p', allowedTools: [name], governance, stableCore: [name] });
    expect(defineApp({ agents: [profile] }).agents.get('p')?.warnings).toEqual([]);
  });

  test('is offered with a JSON Schema, and refuses arguments of other types than it says (W9)', async () => {
    const offered = offeredTo(EVERYTHING).find((one) => one.name === name);
    expect(offered?.parameters.type).toBe('object');
    const wrong = wronglyTyped(offered?.parameters);
    expect(() => parseArguments(new Map(), name, wrong)).toThrow(z.ZodError);
    const context = proposalContext({ offered: new Set([name]), profile: EVERYTHING });
    const [call] = (await readProposals([streamedCall(name, wrong)], context)).calls;
    expect(call?.result).toMatchObject({ status: 'failed', afterExecution: 'continue' });
    expect(call?.result?.error).toMatchObject({ code: 'invalid_arguments', message: expect.stringContaining(name) });
  });

  test('is pinned with a schema for arguments that an approver writes, unless nobody can be asked about it (K7)', () => {
    const spec = builtinSpecs(profileSchema.parse({ name: 'p', ...EVERYTHING })).find((one) => one.name === name);
    expect(spec?.kind).toBe(tool.kind);
    expect(spec?.parameters === null).toBe('answer' in tool);
    if (!spec?.parameters) return;
    const schema = z.fromJSONSchema(spec.parameters as Parameters<typeof z.fromJSONSchema>[0]);
    expect(schema.safeParse(wronglyTyped(spec.parameters)).success).toBe(false);
  });
});
