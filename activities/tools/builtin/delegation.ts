/**
 * What the tools that open a turn of another agent have in common: their terms, whom they are offered to, and how a call is run (W12, T29).
 */
import { z } from 'zod';
import type { RunToolOutcome } from '../../../workflows/contract/activities.ts';
import type { CallClaim, CallStore } from '../../../workflows/contract/calls.ts';
import {
  type DelegationStore,
  PARENT_END_POLICIES,
  type ParentEndPolicy,
} from '../../../workflows/contract/delegation.ts';
import type { LeaseStore } from '../../../workflows/contract/lease.ts';
import type { ReadStore } from '../../../workflows/contract/views.ts';
import { USER_ID_PATTERN } from '../../../workflows/protocol/ids.ts';
import type { JsonObject } from '../../../workflows/protocol/json.ts';
import type { Profile } from '../../../workflows/protocol/profile.ts';
import { SIZES, utf8Bytes } from '../../../workflows/protocol/sizes.ts';
import type { Fence } from '../../../workflows/protocol/turn.ts';
import { delegatedTurnId } from '../../ids.ts';
import { type HandoverExecutor, tryHandOver } from '../../turn-workflows.ts';
import type { DelegatingTool, DelegationTerms, Offer } from './builtin-tool.ts';

/** The name of a profile, or the id of an agent. */
export const targetName = z
  .string()
  .regex(USER_ID_PATTERN, { error: 'must be the name of a profile or the id of an agent' });

/** What the other agent is to do. */
export const taskText = z
  .string()
  .min(1)
  .refine((value) => utf8Bytes(value) <= SIZES.instructionBytes, {
    error: `must be at most ${SIZES.instructionBytes} bytes`,
  });

/** How many of the caller's tokens the delegated turn may spend, with all that it delegates. */
export const maxTokens = z
  .int()
  .positive()
  .optional()
  .describe('what it may use of your own tokens; if left out, an equal part of what is left');

/** What becomes of `what`, the task in one word, when the caller's turn ends without success (T30). */
export const onParentEnd = (what: string, byDefault: ParentEndPolicy) =>
  z
    .enum(PARENT_END_POLICIES)
    .default(byDefault)
    .describe(`what becomes of the ${what} when you are stopped or fail: it is stopped too, or it goes on`);

/** Agents may delegate only where their profile says to whom. */
export const mayDelegate = ({ delegationPolicy }: Profile): boolean => delegationPolicy !== undefined;

/** The description with the profiles that the policy names. */
export const namingAllowed =
  (description: string) =>
  ({ profile: { delegationPolicy } }: Offer): string => {
    const { profiles = [], tags = [] } = delegationPolicy ?? {};
    const allowed = [...profiles, ...tags.map((tag) => `any profile tagged ${tag}`)].join(', ') || 'none';
    return `${description} Allowed profiles: ${allowed}.`;
  };

/** Arguments that an approver wrote may not match: the store checks them by their JSON Schema alone. */
function termsOf(tool: DelegatingTool, args: JsonObject): DelegationTerms | z.ZodError {
  try {
    return tool.delegation(tool.parse(args));
  } catch (error) {
    if (error instanceof z.ZodError) return error;
    throw error;
  }
}

/** What a delegation needs of the store. */
export type DelegatingStore = LeaseStore & CallStore & DelegationStore & ReadStore;

/** What a delegation needs besides its arguments. */
export interface DelegationDeps {
  readonly store: DelegatingStore;
  readonly workflows: HandoverExecutor;
}

/**
 * Runs a call that delegates. The store does it all in one transaction; the new turn's workflow is started afterwards, and once more by each
 * further attempt.
 */
export async function runDelegation(
  { store, workflows }: DelegationDeps,
  tool: DelegatingTool,
  fence: Fence,
  delegated: Omit<CallClaim, 'repeatable'>,
): Promise<RunToolOutcome> {
  const { callId, first } = delegated;
  const claim = await store.claimCall(fence, { ...delegated, repeatable: true });
  if (claim.kind !== 'go') {
    const made = first ? null : await store.getTurn(delegatedTurnId(callId));
    if (made) await tryHandOver(workflows, await store.leaseNext(made.agentId));
    return claim;
  }
  const { attempt } = claim;
  const terms = termsOf(tool, claim.call.arguments);
  if (terms instanceof z.ZodError) {
    const error = { code: 'invalid_arguments', message: z.prettifyError(terms), kind: 'recoverable' } as const;
    const content = { callId, tool: tool.name, status: 'failed', afterExecution: 'continue', error } as const;
    return { kind: 'settled', settled: await store.settleCall(fence, { callId, attempt, content, durationMs: 0 }) };
  }
  const { call, handover } = await store.delegate(fence, { callId, attempt, ...terms });
  if (handover) await tryHandOver(workflows, handover);
  return call;
}
