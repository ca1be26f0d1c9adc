/**
 * Arguments that an approver puts in place of the model's: whether the call may run with them, as far as that can be told from the pinned
 * profile alone. A worker, which has the tools, parses and judges them again before the call runs (K7).
 */
import { z } from 'zod';
import { factsAt, judge } from '../../../workflows/kernel/governance.ts';
import { CodedError } from '../../../workflows/protocol/failures.ts';
import type { JsonObject } from '../../../workflows/protocol/json.ts';
import type { ProfileSnapshot } from '../../../workflows/protocol/profile.ts';

/** By the JSON Schema that is pinned with the tool. A tool that the profile is not offered takes anything: its calls do not run. */
function schemaOf(name: string, { tools, builtins }: ProfileSnapshot): z.ZodType {
  const { parameters } = [...tools, ...builtins].find((tool) => tool.name === name) ?? {};
  return parameters ? z.fromJSONSchema(parameters as Parameters<typeof z.fromJSONSchema>[0]) : z.unknown();
}

/** Throws `approval_refused` when the arguments do not match the schema of the tool. */
export function refuseMisshapen(tool: string, args: JsonObject, snapshot: ProfileSnapshot): void {
  const { error } = schemaOf(tool, snapshot).safeParse(args);
  if (!error) return;
  const problems = z.prettifyError(error);
  throw new CodedError('approval_refused', `the arguments do not match the schema of ${tool}:\n${problems}`);
}

/**
 * Throws `approval_refused`, naming the rule, when a rule denies the arguments. Two things are left to the turn, which judges all of them
 * again (K7): its rate limits, and arguments that the schema transforms, because only a worker has the transform.
 */
export function refuseForbidden(tool: string, args: JsonObject, snapshot: ProfileSnapshot): void {
  const { governance } = snapshot.profile;
  if (!governance || snapshot.tools.find(({ name }) => name === tool)?.transforms) return;
  // With the defaults of the schema.
  const { data } = schemaOf(tool, snapshot).safeParse(args);
  const facts = factsAt(governance, tool, (data ?? args) as JsonObject);
  const { verdict } = judge({ ...governance, rateLimits: [] }, {}, tool, facts, 0);
  if (verdict.decision !== 'deny') return;
  const { stage, reason } = verdict;
  throw new CodedError('approval_refused', `the rules (${stage}) deny ${tool} with these arguments: ${reason}`);
}
