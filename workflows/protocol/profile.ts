/**
 * An agent definition as it is pinned for a turn: plain JSON that is versioned by its content hash (W4). The functions of tools stay in the
 * worker's app; only their specs are here.
 */
import { z } from 'zod';
import { AFTER_EXECUTION } from './cards.ts';
import { chatSchema, inputPolicySchema } from './chat.ts';
import { durationMs, durationMsOrZero } from './duration.ts';
import { resultFieldsSchema } from './enqueue.ts';
import { governanceSchema } from './governance.ts';
import { DEFAULT_WORKER_TARGET, TOOL_NAME_PATTERN, USER_ID_PATTERN, WORKER_TARGET_PATTERN } from './ids.ts';
import type { JsonObject } from './json.ts';

const workerTarget = z.string().regex(WORKER_TARGET_PATTERN, {
  error: 'must be 1 to 64 of a-z, 0-9, "_" and "-" (no dots, spaces or wildcards)',
});

const toolName = z.string().regex(TOOL_NAME_PATTERN, { error: 'must be 1 to 64 of letters, digits, "_" and "-"' });

/** The longest time that a timer of Node can wait, in ms: about 24 days. */
const MAX_TIMER_MS = 2_147_483_647;

/** How often a tool whose execution failed is executed again within its call, and how long is waited before. */
export const retrySchema = z.strictObject({
  /** The most executions, the first one included. */
  attempts: z.int().min(1).max(100),
  /** The pause after the first execution, in ms; each pause is twice as long as the one before. */
  initialMs: z.int().positive().max(MAX_TIMER_MS).default(1_000),
  /** The longest pause, in ms. */
  maxMs: z.int().positive().max(MAX_TIMER_MS).default(30_000),
});
/** When a tool is executed again within its call, with the defaults filled in. */
export type RetryPolicy = z.output<typeof retrySchema>;

/** What the runtime knows of a tool without its function. */
export const toolSpecSchema = z.strictObject({
  name: toolName,
  description: z.string(),
  /** The JSON Schema of the arguments, which is the schema of an object. */
  parameters: z.record(z.string(), z.json()),
  /** Present when the tool's function gets other values than those that `parameters` describes; what it gets only a worker can tell. */
  transforms: z.literal(true).optional(),
  afterExecution: z.enum(AFTER_EXECUTION),
  /** How long one execution of the function may take. */
  timeoutMs: z.int().positive().max(MAX_TIMER_MS),
  /** How long a suspended call of the tool waits for its report; the profile decides when it is absent (T13). */
  suspendTimeoutMs: durationMs.optional(),
  /** What running the tool twice would do to the world; an `unsafe` tool is never run twice (W10). */
  sideEffects: z.enum(['none', 'idempotent', 'unsafe']),
  /** Absent for a tool that is executed once in each attempt. */
  retry: retrySchema.optional(),
  /** `own`: each call of the tool is an activity of its own, and never a part of a burst; absent where that does not matter. */
  placement: z.literal('own').optional(),
});
/** What the runtime knows of a tool without its function. */
export type ToolSpec = z.infer<typeof toolSpecSchema>;

/** What a turn may use (K9). */
export const budgetsSchema = z.strictObject({
  maxSteps: z.int().positive().default(50),
  /** How many calls may be started; those that are proposed beyond it get an error result. */
  maxToolCalls: z.int().positive().default(200),
  /** Input and output tokens of all model calls, those of delegated turns included. */
  maxTokens: z.int().positive().default(1_000_000),
  /** How long the whole turn may take, waiting included; without bound when absent. */
  maxWallTimeMs: durationMs.optional(),
  /**
   * What the model calls may cost, in the currency of the app's price list; without bound when absent. A model without a price uses the
   * budget up at once.
   */
  maxCost: z.number().positive().optional(),
  /** What follows when a budget is used up: `finish` makes a final report, `ask` asks an operator who may extend it (K9). */
  onExhausted: z.enum(['finish', 'ask']).default('finish'),
});
/** What a turn may use, with the defaults filled in (K9). */
export type Budgets = z.infer<typeof budgetsSchema>;

/** New values for some of the budgets of a turn; a budget that is not named stays as it is. */
export type BudgetChange = { readonly [K in Exclude<keyof Budgets, 'onExhausted'>]?: number | undefined };

/** Instructions that a model takes in when it needs them (K8). */
export const skillSchema = z.strictObject({
  name: toolName,
  /** What the skill is good for and when to use it, written for the model. */
  description: z.string().min(1),
  content: z.string().min(1),
  /**
   * The tools that the skill needs. While only skills with such a list are in use, the app's tools are narrowed to these and to the
   * profile's `stableCore`; a skill with null does not narrow them.
   */
  allowedTools: z.array(toolName).nullable().default(null),
  /** After how many steps the skill ends; it lasts to the end of the turn when absent. */
  leaseSteps: z.int().positive().optional(),
});
/** Instructions that a model takes in when it needs them, with the defaults filled in (K8). */
export type Skill = z.output<typeof skillSchema>;

const capabilityKind = z.enum(['tool', 'skill', 'agent']);
/** What a tool gives an agent: something it can do, a skill, or another agent. */
export type CapabilityKind = z.output<typeof capabilityKind>;

/**
 * What a profile lets through: tools by their kind, and tools of the app by their names too (K8). A list that is absent lets everything
 * through.
 */
export const capabilitiesSchema = z.strictObject({
  kinds: z.array(capabilityKind).min(1).optional(),
  ids: z.array(toolName).min(1).optional(),
});

/** How much of a conversation a model is shown (K15). */
export const contextSchema = z.strictObject({
  /** How many tokens the model takes, its answer included. */
  windowTokens: z.int().min(2_000).default(128_000),
  /** The model that writes the summaries which take the place of the oldest messages; the profile's own model when absent. */
  summaryModel: z.string().min(1).optional(),
});

/** The watchdogs of a turn, in ms, each at most a year (T12, T23). */
export const timeoutsSchema = z.strictObject({
  /** How long a leased turn may take to begin its first activity; 0 means without bound. */
  dispatchMs: durationMsOrZero.default(5 * 60_000),
  /** What follows when no worker polls the target's queue: `wait` keeps the turn waiting, `fail` lets it time out. */
  whenNoWorkers: z.enum(['wait', 'fail']).default('wait'),
  /**
   * How long a running turn may be without a completed step or an applied result. Time does not count while the turn is suspended, while an
   * activity runs or waits for a slot or for its next attempt, and while its target has no workers.
   */
  noProgressMs: durationMs.default(15 * 60_000),
  /**
   * After how long a silence a running model call or tool is given to another worker: the worker that had it is lost. It is told of every
   * few seconds, however long it takes.
   */
  heartbeatMs: z.int().min(2_000).max(86_400_000).default(20_000),
  /** How long the whole turn may take, waiting included; without bound when absent. */
  turnMs: durationMs.optional(),
  /** How long after its deadline a suspended turn is ended whose workflow does not go on; time enough to roll a bad deploy back. */
  deadWorkflowGraceMs: durationMs.default(10 * 60_000),
});
/** The watchdogs of a turn with their defaults filled in, in ms (T12, T23). */
export type Timeouts = z.infer<typeof timeoutsSchema>;

/** To whom an agent may delegate: to agents of the named profiles, and of profiles that have one of the tags (W12). */
export const delegationPolicySchema = z.strictObject({
  profiles: z.array(z.string().min(1)).default([]),
  tags: z.array(z.string().min(1)).default([]),
  /**
   * What the end of a delegated turn does that no call waits for: it wakes the agent that made it, once, and counts towards
   * `maxAutonomousTurns`; or the agent keeps to what it is at, and learns of it when it asks or waits for it (A11).
   */
  onEnd: z.enum(['wake', 'keep']).default('wake'),
});
/** To whom an agent may delegate (W12). */
export type DelegationPolicy = z.output<typeof delegationPolicySchema>;

/** How much one burst does before its workflow is told; what has begun is finished. */
export const burstLimitsSchema = z.strictObject({
  /** Ms after which no further action begins. */
  maxMs: z.int().min(0).max(60_000).default(8_000),
  maxSteps: z.int().min(1).max(1_000).default(32),
  /** Bytes of what the workflow is told, which its history keeps. */
  maxBytes: z
    .int()
    .min(0)
    .max(512 * 1024)
    .default(128 * 1024),
});
/** How much one burst does. */
export type BurstLimits = z.output<typeof burstLimitsSchema>;

/** An agent definition as a user writes it, validated. */
export const profileSchema = z.strictObject({
  name: z.string().regex(USER_ID_PATTERN, { error: 'must match the id pattern of agents' }),
  description: z.string().default(''),
  /**
   * Whether the profile has one agent, which has its name and whose memory all who ask for it share. Requests for an agent that is named like
   * any other profile are refused.
   */
  singleton: z.boolean().default(false),
  workerTarget: workerTarget.default(DEFAULT_WORKER_TARGET),
  model: z
    .strictObject({
      name: z.string().min(1).optional(),
      temperature: z.number().min(0).max(2).optional(),
      maxTokens: z.int().positive().optional(),
      reasoningEffort: z.enum(['minimal', 'low', 'medium', 'high']).optional(),
      /** The model that takes over within a step when `afterFailures` attempts have failed (W14). */
      fallback: z.strictObject({ name: z.string().min(1), afterFailures: z.int().positive().default(3) }).optional(),
    })
    .default({}),
  /** The system message of every model call; there is none when the text is blank. */
  instructions: z.string().default(''),
  /** Names of the app's tools that this agent may use; null means all of them. */
  allowedTools: z.array(toolName).nullable().default(null),
  /** Names of the built-in tools this agent is offered besides those that follow from other fields, such as `planning`. */
  builtins: z.array(toolName).default([]),
  /**
   * Tools of which one must have run with success in the last calls before the turn may end; a model that stops without is asked to call
   * one (W13).
   */
  mustEndWith: z.array(toolName).default([]),
  /** The fields of the deliverable when the request names none (T28). */
  resultFields: resultFieldsSchema.optional(),
  budgets: budgetsSchema.prefault({}),
  context: contextSchema.prefault({}),
  /** Whether the agent is offered `update_plan` and shown its plan before every step (K14). */
  planning: z.boolean().default(false),
  skills: z.array(skillSchema).default([]),
  /** Tools that are offered whatever skills are in use (K8). */
  stableCore: z.array(toolName).default([]),
  /** What filters the tools that are offered (K8); everything is let through when it is absent. */
  capabilities: capabilitiesSchema.optional(),
  /** What decides about each proposed call (K5); every call is allowed when it is absent. */
  governance: governanceSchema.optional(),
  /** The kinds of tool errors that take the step back, besides `fatal` and `user_interrupt` (K13). */
  rollbackOn: z.array(z.enum(['provider_failure', 'timeout', 'governance_denied'])).default([]),
  timeouts: timeoutsSchema.prefault({}),
  /** How the agent's chats behave (C7, C8). */
  chat: chatSchema.prefault({}),
  /** What is denied before any model call; nothing when it is absent (C4). */
  inputPolicy: inputPolicySchema.optional(),
  /**
   * For how long a step waits for a provider that fails or refuses the credentials, in ms, counted from the first failure; 0 means that the
   * first one ends the turn (W14).
   */
  providerPatienceMs: durationMsOrZero.default(24 * 3_600_000),
  /** Whether nothing of a request is shown in Temporal: turns are titled by their profile, not by the first words of their instruction. */
  privateTitles: z.boolean().default(false),
  /** Whether, and for how long, one activity may perform several steps; with `false` each model call and each tool call is one of its own. */
  burst: z.union([z.boolean(), burstLimitsSchema]).default(true),
  /** How many calls of one step run at once, in the order in which the model made them; all of them when absent (W10). */
  parallelCalls: z.int().min(1).optional(),
  /** After how many history events the workflow of a turn continues as new; 2,500 when absent (K22). */
  maxHistoryEvents: z.int().min(5).optional(),
  /** How long a suspended call waits whose tool sets no time of its own, in ms; ten minutes when absent (T13). */
  suspendTimeoutMs: durationMs.optional(),
  /** How many turns in a row the agent may make by itself for work that it can go on with (A10). */
  maxAutonomousTurns: z.int().nonnegative().default(25),
  /** To whom the agent may delegate (W12); when it is absent the tools of delegation are not offered. */
  delegationPolicy: delegationPolicySchema.optional(),
  tags: z.array(z.string()).default([]),
});
/** An agent definition as a user writes it, before its defaults are filled in. */
export type ProfileInput = z.input<typeof profileSchema>;
/** An agent definition with its defaults filled in. */
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

/** An agent definition together with the tools of the app that it may use, as it is pinned for a turn. */
export interface ProfileSnapshot {
  readonly profile: Profile;
  /** The tools of the app that the profile is offered, in the order of the model's request. */
  readonly tools: readonly ToolSpec[];
  /** The tools of the runtime that the profile is offered, in the order of the model's request, behind those of the app. */
  readonly builtins: readonly BuiltinSpec[];
  /** What was left out of the definition, and why (W7); shown with the turn. */
  readonly warnings: readonly string[];
}
