/** The built-ins by which an agent hands work to another: as offered, as checked, as run (W12, T26, T27, T30). */
import { z } from 'zod';
import type { RunToolInput, RunToolOutcome } from '../../workflows/contract/activities.ts';
import type { CallStore } from '../../workflows/contract/calls.ts';
import { type Delegation, type DelegationStore, PARENT_END_POLICIES } from '../../workflows/contract/delegation.ts';
import type { LeaseStore } from '../../workflows/contract/lease.ts';
import type { ReadStore } from '../../workflows/contract/views.ts';
import { ASK_EXPERT, DELEGATE_ASYNC } from '../../workflows/protocol/builtins.ts';
import { USER_ID_PATTERN } from '../../workflows/protocol/ids.ts';
import type { JsonObject } from '../../workflows/protocol/json.ts';
import type { Profile } from '../../workflows/protocol/profile.ts';
import { SIZES, utf8Bytes } from '../../workflows/protocol/sizes.ts';
import type { Fence } from '../../workflows/protocol/turn.ts';
import { parametersOf } from '../app/parameters.ts';
import { delegatedTurnId } from '../ids.ts';
import { type TurnWorkflows, tryHandOver } from '../turn-workflows.ts';

const name = z.string().regex(USER_ID_PATTERN, { error: 'must be the name of a profile or the id of an agent' });

const text = z
  .string()
  .min(1)
  .refine((value) => utf8Bytes(value) <= SIZES.instructionBytes, {
    error: `must be at most ${SIZES.instructionBytes} bytes`,
  });

const maxTokens = z
  .int()
  .positive()
  .optional()
  .describe('what it may use of your own tokens; if left out, an equal part of what is left');

const delegateAsyncSchema = z.object({
  target_strategy: z
    .enum(['new', 'reuse', 'clone'])
    .describe('new: a new agent; reuse: an existing one, with all it remembers; clone: a new one with a copy of that'),
  target_ref: name.describe('for new: a profile; for reuse and clone: an agent id'),
  instruction: text.describe('what to do, complete in itself: the other agent does not see this conversation'),
  context_box_id: z.uuid().optional().describe('a box of cards it shall read as well'),
  on_parent_end: z
    .enum(PARENT_END_POLICIES)
    .default('continue')
    .describe('what becomes of the task when you are stopped or fail: it is stopped too, or it goes on'),
  max_tokens: maxTokens,
});

const askExpertSchema = z
  .object({
    profile: name.optional().describe('the profile of a new expert; or give agent_id'),
    agent_id: name.optional().describe('an expert that is there already'),
    question: text,
    include_history: z.boolean().default(false).describe('whether the expert may read this conversation'),
    timeout_seconds: z.int().positive().max(86_400).optional(),
    on_parent_end: z
      .enum(PARENT_END_POLICIES)
      .default('stop')
      .describe('what becomes of the question when you are stopped or fail: it is stopped too, or it goes on'),
    max_tokens: maxTokens,
  })
  .refine(({ profile, agent_id }) => (profile === undefined) !== (agent_id === undefined), {
    error: 'exactly one of profile and agent_id is expected',
    path: ['profile'],
  });

const TOOLS = {
  [DELEGATE_ASYNC]: {
    schema: delegateAsyncSchema,
    description:
      'Give a task to another agent and go on without waiting for it. Returns its agent and turn id at once.',
  },
  [ASK_EXPERT]: {
    schema: askExpertSchema,
    description: 'Ask another agent and wait for its answer. Returns {status, deliverable}.',
  },
} as const;

type DelegationTool = keyof typeof TOOLS;

/** What a profile is offered; nothing without a delegation policy. */
export function delegationTools({ delegationPolicy: policy }: Profile): {
  name: DelegationTool;
  description: string;
  parameters: JsonObject;
}[] {
  if (!policy) return [];
  const allowed = [...policy.profiles, ...policy.tags.map((tag) => `any profile tagged ${tag}`)].join(', ') || 'none';
  return [DELEGATE_ASYNC, ASK_EXPERT].map((tool) => {
    const { schema, description } = TOOLS[tool as DelegationTool];
    const parameters = parametersOf(schema);
    return {
      name: tool as DelegationTool,
      description: `${description} Allowed profiles: ${allowed}.`,
      parameters,
    };
  });
}

export const delegationSchema = (tool: string): z.ZodType => TOOLS[tool as DelegationTool].schema;

/** Throws a ZodError when the arguments do not match. */
export const parseDelegation = (tool: string, args: JsonObject): JsonObject =>
  z.parse(delegationSchema(tool), args) as JsonObject;

function delegationOf(tool: string, args: JsonObject, call: { callId: string; attempt: number }): Delegation {
  if (tool === DELEGATE_ASYNC) {
    const given = delegateAsyncSchema.parse(args);
    const { target_strategy: strategy, target_ref: ref, instruction, context_box_id, on_parent_end } = given;
    const tokens = given.max_tokens === undefined ? {} : { maxTokens: given.max_tokens };
    const target = strategy === 'new' ? ({ strategy, profile: ref } as const) : ({ strategy, agentId: ref } as const);
    const context = context_box_id === undefined ? {} : { contextBoxId: context_box_id };
    return { ...call, target, instruction, onParentEnd: on_parent_end, ...context, ...tokens };
  }
  const given = askExpertSchema.parse(args);
  const { profile, agent_id: agentId, question, include_history, timeout_seconds, on_parent_end } = given;
  const target =
    agentId === undefined
      ? ({ strategy: 'new', profile: profile ?? '' } as const)
      : ({ strategy: 'reuse', agentId } as const);
  const waitMs = timeout_seconds === undefined ? null : timeout_seconds * 1_000;
  return {
    ...call,
    target,
    instruction: question,
    includeHistory: include_history,
    waitMs,
    onParentEnd: on_parent_end,
    ...(given.max_tokens === undefined ? {} : { maxTokens: given.max_tokens }),
  };
}

/** Arguments that an approver changed may have lost what a new version of the schema needs. */
function readDelegation(
  tool: string,
  args: JsonObject,
  call: { callId: string; attempt: number },
): Delegation | z.ZodError {
  try {
    return delegationOf(tool, args, call);
  } catch (error) {
    if (error instanceof z.ZodError) return error;
    throw error;
  }
}

/** What a delegation needs of the store. */
export type DelegatingStore = LeaseStore & CallStore & DelegationStore & ReadStore;

/** The store does it all in one transaction; the new turn's workflow is started afterwards, and once more by each further attempt. */
export async function runDelegation(
  { store, workflows }: { store: DelegatingStore; workflows: TurnWorkflows },
  fence: Fence,
  { callId, tool }: RunToolInput,
  attempt: number,
): Promise<RunToolOutcome> {
  const claim = await store.claimCall(fence, { callId, attempt, repeatable: true });
  if (claim.kind !== 'go') {
    const made = attempt > 1 ? await store.getTurn(delegatedTurnId(callId)) : null;
    if (made) await tryHandOver(workflows, await store.leaseNext(made.agentId));
    return claim;
  }
  const delegation = readDelegation(tool, claim.call.arguments, { callId, attempt });
  if (delegation instanceof z.ZodError) {
    const error = { code: 'invalid_arguments', message: z.prettifyError(delegation), kind: 'recoverable' } as const;
    const content = { callId, tool, status: 'failed', afterExecution: 'continue', error } as const;
    return { kind: 'settled', settled: await store.settleCall(fence, { callId, attempt, content, durationMs: 0 }) };
  }
  const { call, handover } = await store.delegate(fence, delegation);
  if (handover) await tryHandOver(workflows, handover);
  return call;
}
