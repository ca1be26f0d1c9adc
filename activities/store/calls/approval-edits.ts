/** Arguments that an approver puts in place of the model's: whether the call may run with them, as far as that can be told before it does. */
import { z } from 'zod';
import { factsAt, judge } from '../../../workflows/kernel/governance.ts';
import { isDelegation } from '../../../workflows/protocol/builtins.ts';
import { CodedError } from '../../../workflows/protocol/failures.ts';
import type { JsonObject } from '../../../workflows/protocol/json.ts';
import type { ProfileSnapshot } from '../../../workflows/protocol/profile.ts';
import { delegationSchema } from '../../tools/delegation.ts';

type Tools = ProfileSnapshot['tools'];

const specOf = (name: string, tools: Tools) => tools.find((tool) => tool.name === name);

function schemaOf(name: string, tools: Tools): z.ZodType {
  if (isDelegation(name)) return delegationSchema(name);
  const spec = specOf(name, tools);
  return spec ? z.fromJSONSchema(spec.parameters as Parameters<typeof z.fromJSONSchema>[0]) : z.unknown();
}

/** Errors: `approval_refused`, when they do not match the schema of the tool. */
export function refuseMisshapen(tool: string, args: JsonObject, tools: Tools): void {
  const { error } = schemaOf(tool, tools).safeParse(args);
  if (!error) return;
  const problems = z.prettifyError(error);
  throw new CodedError('approval_refused', `the arguments do not match the schema of ${tool}:\n${problems}`);
}

/**
 * Errors: `approval_refused` naming the rule that denies them. What is left to the turn: its rate limits, and arguments that the schema
 * transforms, because only a worker has the transform; it judges all of them again (K7).
 */
export function refuseForbidden(tool: string, args: JsonObject, { profile, tools }: ProfileSnapshot): void {
  const { governance } = profile;
  if (!governance || specOf(tool, tools)?.transforms) return;
  // With the defaults of the schema.
  const { data } = schemaOf(tool, tools).safeParse(args);
  const facts = factsAt(governance, tool, (data ?? args) as JsonObject);
  const { verdict } = judge({ ...governance, rateLimits: [] }, {}, tool, facts, 0);
  if (verdict.decision !== 'deny') return;
  const { stage, reason } = verdict;
  throw new CodedError('approval_refused', `the rules (${stage}) deny ${tool} with these arguments: ${reason}`);
}
