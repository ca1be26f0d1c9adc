import { describe, expect, test } from '@jest/globals';
import { z } from 'zod';
import { defineAgent, defineApp, defineTool } from '../../../../activities/app/app.ts';
import { refuseForbidden, refuseMisshapen } from '../../../../activities/store/calls/approval-edits.ts';
import type { JsonObject } from '../../../../workflows/protocol/json.ts';
import type { ProfileInput, ProfileSnapshot } from '../../../../workflows/protocol/profile.ts';

const pay = defineTool({
  name: 'pay',
  description: 'pays',
  parameters: z.object({ amount: z.number(), currency: z.string().default('EUR') }),
  execute: () => null,
});

/** As it is pinned, and comes back from the store. */
function pinned(profile: Partial<ProfileInput> = {}): ProfileSnapshot {
  const agents = [defineAgent({ name: 'clerk', delegationPolicy: { profiles: ['doctor'] }, ...profile })];
  const snapshot = defineApp({ agents, tools: [pay] }).agents.get('clerk');
  return JSON.parse(JSON.stringify(snapshot)) as ProfileSnapshot;
}

const refused = { code: 'approval_refused' };

describe('arguments that an approver wrote', () => {
  const task = { target_strategy: 'new', target_ref: 'doctor', instruction: 'look' };
  test.each<[tool: string, args: JsonObject]>([
    ['pay', { amount: 3 }],
    ['delegate_async', task],
    ['ask_expert', { profile: 'doctor', question: 'what is it?' }],
    ['ask_expert', { agent_id: 'doctor-1', question: 'what is it?', timeout_seconds: 5 }],
    ['a_tool_that_is_not_offered', { whatever: 1 }],
  ])('may take the place of those of %s when they match its schema: %j (K7)', (tool, args) => {
    expect(() => refuseMisshapen(tool, args, pinned())).not.toThrow();
  });

  test.each<[tool: string, args: JsonObject]>([
    ['pay', { amount: 'much' }],
    ['delegate_async', { ...task, target_strategy: 'steal' }],
    ['delegate_async', { ...task, target_ref: 'no name' }],
    ['ask_expert', { profile: 'doctor', question: 7 }],
    ['ask_expert', { profile: 'doctor', agent_id: 'doctor-1', question: 'what is it?' }],
    ['ask_expert', { question: 'what is it?' }],
  ])('are refused for %s when they do not: %j (K7)', (tool, args) => {
    expect(() => refuseMisshapen(tool, args, pinned())).toThrow(expect.objectContaining(refused));
  });

  test.each<[tool: string, args: JsonObject, path: string, denied: string]>([
    ['pay', { amount: 3 }, 'currency', 'EUR'],
    ['ask_expert', { profile: 'doctor', question: 'what is it?' }, 'on_parent_end', 'stop'],
    ['delegate_async', task, 'on_parent_end', 'continue'],
  ])('are judged with the defaults of the schema: %s %j (K5, K7)', (tool, args, path, denied) => {
    const rule = (value: string) => ({ rules: [{ tool, action: 'deny' as const, when: { path, oneOf: [value] } }] });
    expect(() => refuseForbidden(tool, args, pinned({ governance: rule(denied) }))).toThrow(
      expect.objectContaining(refused),
    );
    expect(() => refuseForbidden(tool, args, pinned({ governance: rule('another') }))).not.toThrow();
  });
});
