/** What an agent may do without asking, as data of its profile (K5–K7). `workflows/kernel/governance.ts` decides by it. */
import { z } from 'zod';
import { durationMs } from './duration.ts';

/** Names tools by a whole name, `prefix*`, `*suffix` or `*` for all. */
const toolPattern = z.string().regex(/^(\*|[a-zA-Z0-9_-]{1,64}\*?|\*[a-zA-Z0-9_-]{1,64})$/, {
  error: 'must be a tool name, "*", "prefix*" or "*suffix"',
});

/** A dotted path into the arguments of a call, such as `customer.address.0.city`. */
const argumentPath = z.string().regex(/^[^.\s]+(\.[^.\s]+)*$/, {
  error: 'must be a dotted path into the arguments, such as "customer.id"',
});

const scalar = z.union([z.string().max(512), z.number(), z.boolean(), z.null()]);

/**
 * A condition on the arguments of a call. It holds when the value at `path` is one of `oneOf`, or a number from `min` to `max`, both
 * included. An absent value, or null, is in no range. A value of a type that `oneOf` or the range does not speak of cannot be judged; a
 * rule that asks or denies denies the call then.
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
/** A condition on the arguments of a call. */
export type Condition = z.output<typeof conditionSchema>;

/** A rule that allows, denies or asks about the calls of some tools (K5). */
export const ruleSchema = z.strictObject({
  tool: toolPattern,
  action: z.enum(['allow', 'deny', 'ask']),
  /** The rule applies only when this condition holds; a call whose value at the path has more than 512 bytes is denied. */
  when: conditionSchema.optional(),
  /** Why the rule is there; shown to the model, and to the people who are asked. */
  reason: z.string().max(500).optional(),
});

/**
 * What the arguments of some tools must be like; a call that breaks it is denied (K5). All checks but `required` judge only a value that is
 * there and not null, and a value of a type that a check does not speak of breaks that check.
 */
export const constraintSchema = z
  .strictObject({
    tool: toolPattern,
    path: argumentPath,
    required: z.literal(true).optional(),
    oneOf: z.array(scalar).min(1).optional(),
    min: z.number().optional(),
    max: z.number().optional(),
    /** The most characters that a text may have. */
    maxLength: z.int().nonnegative().max(512).optional(),
  })
  .refine(({ tool: _t, path: _p, ...checks }) => Object.values(checks).some((check) => check !== undefined), {
    error: 'checks nothing: give "required", "oneOf", "min", "max" or "maxLength"',
  });
/** What the arguments of some tools must be like (K5). */
export type Constraint = z.output<typeof constraintSchema>;

/** How often the tools of a pattern may be called; each tool is counted by itself (K5). */
export const rateLimitSchema = z.strictObject({
  tool: toolPattern,
  /** How many calls of a tool may start within any window of `windowMs`. */
  max: z.int().positive().max(10_000),
  windowMs: durationMs,
});
/** How often the tools of a pattern may be called (K5). */
export type RateLimit = z.output<typeof rateLimitSchema>;

/** Who is asked about a call, and what follows when nobody answers (K7). */
export const approvalPolicySchema = z
  .strictObject({
    /** The names of those who may answer; when the list is empty, anybody may. */
    approvers: z.array(z.string().min(1)).default([]),
    deadlineMs: durationMs.default(24 * 3_600_000),
    /** What follows when nobody answered in time: `deny` refuses the call, `escalate` gives those of `escalateTo` the same time first. */
    onUnanswered: z.enum(['deny', 'escalate']).default('deny'),
    escalateTo: z.array(z.string().min(1)).default([]),
  })
  .refine(({ onUnanswered, escalateTo }) => onUnanswered !== 'escalate' || escalateTo.length > 0, {
    error: 'onUnanswered "escalate" needs names in "escalateTo"',
    path: ['escalateTo'],
  });

/** How questions are asked, and what follows when nobody answers, with the defaults filled in. */
export type ApprovalPolicy = z.output<typeof approvalPolicySchema>;

/**
 * All that decides whether a proposed call is run, refused or asked about (K5). Every part counts; deny counts more than ask, ask
 * more than a rate limit, and that more than allow.
 */
export const governanceSchema = z.strictObject({
  /** What happens to calls that no rule names. */
  default: z.enum(['allow', 'deny', 'ask']).default('allow'),
  /** The rules in their order; the first that applies to a call decides. */
  rules: z.array(ruleSchema).max(200).default([]),
  constraints: z.array(constraintSchema).max(200).default([]),
  /** Tools that are never run, whatever the rules say. */
  veto: z.array(toolPattern).default([]),
  rateLimits: z.array(rateLimitSchema).default([]),
  /**
   * What a denied call does to its step (K6): `report` gives that call an error result and runs its siblings, `rollback` takes the whole
   * step back, `end` ends the turn as `policy_denied`.
   */
  onDenied: z.enum(['report', 'rollback', 'end']).default('report'),
  approvals: approvalPolicySchema.prefault({}),
});
/** All that decides whether a proposed call is run, refused or asked about, with its defaults filled in. */
export type GovernancePolicy = z.output<typeof governanceSchema>;
