/**
 * Governance of one proposed call (K5): permission → constraints → veto → rate limit, then reduce. Pure.
 *
 * Invariants
 * 1. Every stage runs; deny > ask > rate-limited > allow, and within a class the first stage that said so is named.
 * 2. Only a call that would otherwise run takes a slot of its rate limit.
 * 3. A rule on a path whose value did not travel because of its size denies (K4).
 */

import type { Condition, Constraint, GovernancePolicy, RateLimit } from '../protocol/governance.ts';
import type { JsonObject, JsonValue } from '../protocol/json.ts';
import { LIMITS, utf8Bytes } from '../protocol/limits.ts';

/** What of the arguments rules may look at: the values at the paths they name, and which of those were too large. */
export interface CallFacts {
  readonly values: Readonly<Record<string, JsonValue>>;
  readonly oversized: readonly string[];
}

export const NO_FACTS: CallFacts = { values: {}, oversized: [] };

export type Verdict =
  | { readonly decision: 'allow' }
  | { readonly decision: 'ask' | 'deny'; readonly stage: Stage; readonly reason: string }
  | {
      readonly decision: 'rate_limited';
      readonly stage: 'rate_limit';
      readonly reason: string;
      readonly retryAfterMs: number;
    };

export type Stage = 'permission' | 'constraint' | 'veto' | 'rate_limit';

/** Start times of the calls that took a slot, by tool, epoch ms, oldest first. */
export type RateWindows = Readonly<Record<string, readonly number[]>>;

export interface Judged {
  readonly verdict: Verdict;
  readonly windows: RateWindows;
}

const ALLOW: Verdict = { decision: 'allow' };
const RANK = { deny: 0, ask: 1, rate_limited: 2, allow: 3 } as const;

export function judge(
  policy: GovernancePolicy,
  windows: RateWindows,
  tool: string,
  facts: CallFacts,
  nowMs: number,
): Judged {
  const limited = rateVerdict(policy, windows, tool, nowMs);
  const verdict = [
    permission(policy, tool, facts),
    constraints(policy, tool, facts),
    veto(policy, tool),
    limited,
  ].reduce((worst, next) => (RANK[next.decision] < RANK[worst.decision] ? next : worst));
  return { verdict, windows: verdict.decision === 'allow' ? takeSlot(policy, windows, tool, nowMs) : windows };
}

/** For a call that an approver let through: it is not judged again, but it counts. */
export function takeSlot(policy: GovernancePolicy, windows: RateWindows, tool: string, nowMs: number): RateWindows {
  const limits = limitsOf(policy, tool);
  if (limits.length === 0) return windows;
  const longest = Math.max(...limits.map((limit) => limit.windowMs));
  return { ...windows, [tool]: [...recent(windows, tool, longest, nowMs), nowMs] };
}

export function matches(pattern: string, tool: string): boolean {
  if (pattern === '*') return true;
  if (pattern.endsWith('*')) return tool.startsWith(pattern.slice(0, -1));
  if (pattern.startsWith('*')) return tool.endsWith(pattern.slice(1));
  return pattern === tool;
}

/** Paths into the arguments of `tool` that some rule looks at. */
export function pathsOf({ rules, constraints }: GovernancePolicy, tool: string): readonly string[] {
  const conditions = rules.filter((rule) => matches(rule.tool, tool)).flatMap((rule) => rule.when?.path ?? []);
  const checked = constraints.filter((rule) => matches(rule.tool, tool)).map((rule) => rule.path);
  return [...new Set([...conditions, ...checked])];
}

/** What rules may look at of a call's arguments: the values at their paths, as far as they are small (K4). */
export function factsAt(policy: GovernancePolicy, tool: string, args: JsonObject): CallFacts {
  const values: Record<string, JsonValue> = {};
  const oversized: string[] = [];
  for (const path of pathsOf(policy, tool)) {
    const value = valueAt(args, path);
    if (value === undefined) continue;
    if (utf8Bytes(JSON.stringify(value)) > LIMITS.factBytes) oversized.push(path);
    else values[path] = value;
  }
  return { values, oversized };
}

function valueAt(args: JsonObject, path: string): JsonValue | undefined {
  let value: JsonValue | undefined = args;
  for (const key of path.split('.')) {
    if (typeof value !== 'object' || value === null || !Object.hasOwn(value, key)) return undefined;
    value = (value as JsonObject)[key];
  }
  return value;
}

function permission(policy: GovernancePolicy, tool: string, facts: CallFacts): Verdict {
  for (const { tool: pattern, action, when, reason } of policy.rules) {
    if (!matches(pattern, tool)) continue;
    if (when && facts.oversized.includes(when.path)) return tooLarge('permission', when.path);
    if (when && !holds(when, facts.values[when.path])) continue;
    return by(action, reason ?? `the rule for ${pattern} says ${action}`);
  }
  return by(policy.default, `no rule names ${tool}, and the default is ${policy.default}`);
}

const by = (action: 'allow' | 'deny' | 'ask', reason: string): Verdict =>
  action === 'allow' ? ALLOW : { decision: action, stage: 'permission', reason };

const holds = ({ oneOf, min, max }: Condition, value: JsonValue | undefined): boolean =>
  oneOf ? isOneOf(oneOf, value) : typeof value === 'number' && inRange(value, min, max);

const isOneOf = (allowed: readonly JsonValue[], value: JsonValue | undefined): boolean =>
  value !== undefined && allowed.includes(value);

const inRange = (value: number, min = Number.NEGATIVE_INFINITY, max = Number.POSITIVE_INFINITY): boolean =>
  value >= min && value <= max;

function constraints(policy: GovernancePolicy, tool: string, facts: CallFacts): Verdict {
  for (const constraint of policy.constraints) {
    if (!matches(constraint.tool, tool)) continue;
    const { path } = constraint;
    if (facts.oversized.includes(path)) return tooLarge('constraint', path);
    const problem = breach(constraint, facts.values[path]);
    if (problem !== null) return { decision: 'deny', stage: 'constraint', reason: `argument ${path} ${problem}` };
  }
  return ALLOW;
}

/** Absent values break only `required`; a value of another type than a check is about is for the tool's schema to refuse. */
function breach({ required, oneOf, min, max, maxLength }: Constraint, value: JsonValue | undefined): string | null {
  if (value === undefined || value === null) return required ? 'is required' : null;
  if (oneOf && typeof value !== 'object' && !isOneOf(oneOf, value)) return `must be one of ${JSON.stringify(oneOf)}`;
  if (typeof value === 'number' && !inRange(value, min, max)) return `must be within ${min ?? '…'} and ${max ?? '…'}`;
  if (typeof value === 'string' && maxLength !== undefined && value.length > maxLength)
    return `must have at most ${maxLength} characters`;
  return null;
}

const tooLarge = (stage: Stage, path: string): Verdict => ({
  decision: 'deny',
  stage,
  reason: `argument ${path} is too large to be checked`,
});

function veto({ veto: patterns }: GovernancePolicy, tool: string): Verdict {
  return patterns.some((pattern) => matches(pattern, tool))
    ? { decision: 'deny', stage: 'veto', reason: `${tool} is vetoed` }
    : ALLOW;
}

const limitsOf = ({ rateLimits }: GovernancePolicy, tool: string): readonly RateLimit[] =>
  rateLimits.filter((limit) => matches(limit.tool, tool));

/** An entry exactly at the edge still counts. */
const recent = (windows: RateWindows, tool: string, windowMs: number, nowMs: number): readonly number[] =>
  (windows[tool] ?? []).filter((startedAt) => startedAt >= nowMs - windowMs);

function rateVerdict(policy: GovernancePolicy, windows: RateWindows, tool: string, nowMs: number): Verdict {
  for (const { max, windowMs } of limitsOf(policy, tool)) {
    const started = recent(windows, tool, windowMs, nowMs);
    const oldest = started[started.length - max];
    if (oldest === undefined) continue;
    const retryAfterMs = oldest + windowMs - nowMs + 1;
    const reason = `${tool} may start ${max} times in ${windowMs} ms; try again in ${retryAfterMs} ms`;
    return { decision: 'rate_limited', stage: 'rate_limit', reason, retryAfterMs };
  }
  return ALLOW;
}
