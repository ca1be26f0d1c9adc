/** What an agent may do without asking, as data of its profile (K5–K7); `workflows/kernel/governance.ts` decides by it. */
import { z } from 'zod';
import { durationMs } from './duration.ts';

/** `*`, `prefix*`, `*suffix` or a whole name. */
const toolPattern = z.string().regex(/^(\*|[a-zA-Z0-9_-]{1,64}\*?|\*[a-zA-Z0-9_-]{1,64})$/, {
  error: 'must be a tool name, "*", "prefix*" or "*suffix"',
});

/** A dotted path into the arguments: `customer.address.0.city`. */
const argumentPath = z.string().regex(/^[^.\s]+(\.[^.\s]+)*$/, {
  error: 'must be a dotted path into the arguments, such as "customer.id"',
});

const scalar = z.union([z.string().max(512), z.number(), z.boolean(), z.null()]);

/**
 * Holds when the value at `path` is one of `oneOf`, or a number within `min` and `max`, both inclusive. An absent value, or null, is in no
 * range. A value of another type than `oneOf` or a range speaks of cannot be judged: a rule that asks or denies denies it then.
 */
export const conditionSchema = z
  .strictObject({
    path: argumentPath,
    oneOf: z.array(scalar).min(1).optional(),
    min: z.number().optional(),
    max: z.number().optional(),
  })
  .refine(({ oneOf, min, max }) => (oneOf !== undefined) !== (min !== undefined || max !== undefined), {
    error: 'needs either "oneOf" or "min"/"max"',
  });
export type Condition = z.output<typeof conditionSchema>;

export const ruleSchema = z.strictObject({
  tool: toolPattern,
  action: z.enum(['allow', 'deny', 'ask']),
  /** The rule applies only when this holds; a value of more than 512 bytes at the path is denied. */
  when: conditionSchema.optional(),
  /** Shown to the model, and to whoever is asked. */
  reason: z.string().max(500).optional(),
});
export type PermissionRule = z.output<typeof ruleSchema>;

/** Of a value that is there and not null; one of a type that a check does not speak of breaks it. `required`: it must be there. */
export const constraintSchema = z
  .strictObject({
    tool: toolPattern,
    path: argumentPath,
    required: z.literal(true).optional(),
    oneOf: z.array(scalar).min(1).optional(),
    min: z.number().optional(),
    max: z.number().optional(),
    /** Of a text, in characters. */
    maxLength: z.int().nonnegative().max(512).optional(),
  })
  .refine(({ tool: _t, path: _p, ...checks }) => Object.values(checks).some((check) => check !== undefined), {
    error: 'checks nothing: give "required", "oneOf", "min", "max" or "maxLength"',
  });
export type Constraint = z.output<typeof constraintSchema>;

export const rateLimitSchema = z.strictObject({
  tool: toolPattern,
  /** Calls that may start within any window of `windowMs`, per tool name. */
  max: z.int().positive().max(10_000),
  windowMs: durationMs,
});
export type RateLimit = z.output<typeof rateLimitSchema>;

export const approvalPolicySchema = z
  .strictObject({
    /** Names that may answer; anybody when empty. */
    approvers: z.array(z.string().min(1)).default([]),
    deadlineMs: durationMs.default(24 * 3_600_000),
    /** What an approval that nobody answered in time means: a refusal, or the same time again for `escalateTo`, then a refusal. */
    onUnanswered: z.enum(['deny', 'escalate']).default('deny'),
    escalateTo: z.array(z.string().min(1)).default([]),
  })
  .refine(({ onUnanswered, escalateTo }) => onUnanswered !== 'escalate' || escalateTo.length > 0, {
    error: 'onUnanswered "escalate" needs names in "escalateTo"',
    path: ['escalateTo'],
  });
export type ApprovalPolicy = z.output<typeof approvalPolicySchema>;

export const governanceSchema = z.strictObject({
  /** For calls that no rule names. */
  default: z.enum(['allow', 'deny', 'ask']).default('allow'),
  /** In order; the first that applies decides. */
  rules: z.array(ruleSchema).max(200).default([]),
  constraints: z.array(constraintSchema).max(200).default([]),
  /** Never run, whatever the rules say. */
  veto: z.array(toolPattern).default([]),
  rateLimits: z.array(rateLimitSchema).default([]),
  /** `report`: an error result for that call, its siblings run. `rollback`: the whole step is taken back. `end`: the turn ends `policy_denied`. */
  onDenied: z.enum(['report', 'rollback', 'end']).default('report'),
  approvals: approvalPolicySchema.prefault({}),
});
export type GovernancePolicy = z.output<typeof governanceSchema>;
