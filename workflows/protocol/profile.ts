/**
 * An agent definition as it is pinned for a turn: plain JSON, versioned by content hash (W4), tool specs included.
 * Functions stay in the worker's app; only their specs are here.
 */
import { z } from 'zod';
import { AFTER_EXECUTION } from './cards.ts';
import { durationMs, durationMsOrZero } from './duration.ts';
import { resultFieldsSchema } from './enqueue.ts';
import { governanceSchema } from './governance.ts';
import { DEFAULT_WORKER_TARGET, TOOL_NAME_PATTERN, USER_ID_PATTERN, WORKER_TARGET_PATTERN } from './ids.ts';
import type { JsonObject } from './json.ts';

const workerTarget = z.string().regex(WORKER_TARGET_PATTERN, {
  error: 'must be 1 to 64 of a-z, 0-9, "_" and "-" (no dots, spaces or wildcards)',
});

const toolName = z.string().regex(TOOL_NAME_PATTERN, { error: 'must be 1 to 64 of letters, digits, "_" and "-"' });

/** What a Node timer can wait, in ms: about 24 days. */
const MAX_TIMER_MS = 2_147_483_647;

export const toolSpecSchema = z.strictObject({
  name: toolName,
  description: z.string(),
  /** JSON Schema of the arguments, an object schema. */
  parameters: z.record(z.string(), z.json()),
  /** Its function gets other values than those that `parameters` describes: only a worker can tell which. */
  transforms: z.literal(true).optional(),
  afterExecution: z.enum(AFTER_EXECUTION),
  timeoutMs: z.int().positive().max(MAX_TIMER_MS),
  suspendTimeoutMs: durationMs.optional(),
  /** `unsafe` tools are never run twice (W10). */
  sideEffects: z.enum(['none', 'idempotent', 'unsafe']),
});
export type ToolSpec = z.infer<typeof toolSpecSchema>;

export const budgetsSchema = z.strictObject({
  maxSteps: z.int().positive().default(50),
  /** Calls that are started; those proposed beyond it get an error result. */
  maxToolCalls: z.int().positive().default(200),
  /** Input and output of all model calls, those of delegated turns included. */
  maxTokens: z.int().positive().default(1_000_000),
  /** Of the whole turn, waiting included. */
  maxWallTimeMs: durationMs.optional(),
  /** In the currency of the app's price list. A model without a price uses it up at once. */
  maxCost: z.number().positive().optional(),
  /** What happens then: a final report, or an operator is asked to extend it (K9). */
  onExhausted: z.enum(['finish', 'ask']).default('finish'),
});
export type Budgets = z.infer<typeof budgetsSchema>;

/** New values for some of the budgets. */
export type BudgetChange = { readonly [K in Exclude<keyof Budgets, 'onExhausted'>]?: number | undefined };

/** Instructions that a model takes in when it needs them (K8). */
export const skillSchema = z.strictObject({
  name: toolName,
  /** What it is good for, and when to use it: written for the model. */
  description: z.string().min(1),
  content: z.string().min(1),
  /** While such skills are in use, only their tools and `stableCore` are offered; null = it does not narrow. */
  allowedTools: z.array(toolName).nullable().default(null),
  /** Ends after that many steps. */
  leaseSteps: z.int().positive().optional(),
});
export type Skill = z.output<typeof skillSchema>;

const capabilityKind = z.enum(['tool', 'skill', 'agent']);
/** What a tool gives an agent: something it can do, a skill, or another agent. */
export type CapabilityKind = z.output<typeof capabilityKind>;

/** What lets a tool through: its kind, and for tools of the app their name too. */
export const capabilitiesSchema = z.strictObject({
  kinds: z.array(capabilityKind).min(1).optional(),
  ids: z.array(toolName).min(1).optional(),
});

/** How much of a conversation a model is shown (K15). */
export const contextSchema = z.strictObject({
  /** What the model takes, answer included, in tokens. */
  windowTokens: z.int().min(2_000).default(128_000),
  /** Writes the summaries that take the place of the oldest messages; the profile's model when left out. */
  summaryModel: z.string().min(1).optional(),
});

/** Watchdogs of a turn, in ms, each at most a year (T12, T23). */
export const timeoutsSchema = z.strictObject({
  /** From lease to first activity; 0 = never. */
  dispatchMs: durationMsOrZero.default(5 * 60_000),
  /** What to do when nobody polls the target's queue at all: keep waiting, or time out like any other turn. */
  whenNoWorkers: z.enum(['wait', 'fail']).default('wait'),
  /**
   * A running turn without a completed step or an applied result. Waiting is not counted: while it is suspended, while an activity runs or
   * waits for a slot or its next attempt, while its target has no workers.
   */
  noProgressMs: durationMs.default(15 * 60_000),
  /** The whole turn, waiting included; unbounded when left out. */
  turnMs: durationMs.optional(),
  /** A suspended turn whose workflow does not go on is ended so long after its deadline: time enough to roll a bad deploy back. */
  deadWorkflowGraceMs: durationMs.default(10 * 60_000),
});
export type Timeouts = z.infer<typeof timeoutsSchema>;

/** Whom an agent may delegate to: agents of these profiles, and of profiles with one of these tags. */
export const delegationPolicySchema = z.strictObject({
  profiles: z.array(z.string().min(1)).default([]),
  tags: z.array(z.string().min(1)).default([]),
});
export type DelegationPolicy = z.output<typeof delegationPolicySchema>;

export const profileSchema = z.strictObject({
  name: z.string().regex(USER_ID_PATTERN, { error: 'must match the id pattern of agents' }),
  description: z.string().default(''),
  workerTarget: workerTarget.default(DEFAULT_WORKER_TARGET),
  model: z
    .strictObject({
      name: z.string().min(1).optional(),
      temperature: z.number().min(0).max(2).optional(),
      maxTokens: z.int().positive().optional(),
      reasoningEffort: z.enum(['minimal', 'low', 'medium', 'high']).optional(),
      /** Takes over within a step after that many failed attempts (W14). */
      fallback: z.strictObject({ name: z.string().min(1), afterFailures: z.int().positive().default(3) }).optional(),
    })
    .default({}),
  instructions: z.string().default(''),
  /** Names of the app's tools this agent may use; null = all. */
  allowedTools: z.array(toolName).nullable().default(null),
  /** Names of the built-in tools this agent is offered besides those that follow from other fields, such as `planning`. */
  builtins: z.array(toolName).default([]),
  mustEndWith: z.array(toolName).default([]),
  resultFields: resultFieldsSchema.optional(),
  budgets: budgetsSchema.prefault({}),
  context: contextSchema.prefault({}),
  /** Offers `update_plan`, and shows the plan before every step (K14). */
  planning: z.boolean().default(false),
  skills: z.array(skillSchema).default([]),
  /** Offered whatever skills are in use. */
  stableCore: z.array(toolName).default([]),
  /** Absent: everything. */
  capabilities: capabilitiesSchema.optional(),
  /** Absent: every call is allowed (K5). */
  governance: governanceSchema.optional(),
  /** Kinds of tool errors that take the step back, besides `fatal` and `user_interrupt` (K13). */
  rollbackOn: z.array(z.enum(['provider_failure', 'timeout', 'governance_denied'])).default([]),
  timeouts: timeoutsSchema.prefault({}),
  /** Nothing of the request is shown in Temporal: turns are titled by their profile instead of the first words of their instruction. */
  privateTitles: z.boolean().default(false),
  /** A run of a turn's workflow continues as new after so many history events; 2,500 when left out (K22). */
  maxHistoryEvents: z.int().min(5).optional(),
  /** Deadline of suspended calls of tools that set none, in ms. */
  suspendTimeoutMs: durationMs.optional(),
  /** Absent: it may not delegate, and the tools for it are not offered (W12). */
  delegationPolicy: delegationPolicySchema.optional(),
  tags: z.array(z.string()).default([]),
});
export type ProfileInput = z.input<typeof profileSchema>;
export type Profile = z.output<typeof profileSchema>;

/** A tool of the runtime that a profile is offered, as far as the kernel and the store must know it. */
export interface BuiltinSpec {
  readonly name: string;
  /** Offered where the profile's capabilities let this kind through (K8); null: offered whatever they are. */
  readonly kind: CapabilityKind | null;
  /**
   * JSON Schema of arguments that an approver puts in place of the model's; null for a tool that is answered while its call is proposed, so
   * that nobody is asked about it.
   */
  readonly parameters: JsonObject | null;
}

export interface ProfileSnapshot {
  readonly profile: Profile;
  /** The tools of the app that the profile is offered, in the order of the model's request. */
  readonly tools: readonly ToolSpec[];
  /** The tools of the runtime that the profile is offered, in the order of the model's request, behind those of the app. */
  readonly builtins: readonly BuiltinSpec[];
  /** What was left out and why (W7); shown with the turn. */
  readonly warnings: readonly string[];
}
