/**
 * Governance of one proposed call (K5): permission rules, constraints, veto and rate limit each give a verdict, and the strictest counts.
 * Pure.
 *
 * Invariants
 * 1. Every stage runs. Deny is stricter than ask, ask than a rate limit, that than allow; of equal verdicts the first stage's is named.
 * 2. Only a call that would otherwise run takes a slot of its rate limit.
 * 3. A rule about a value that was too large to travel denies (K4).
 * 4. What a check cannot judge it denies: a number in a text, a list, an object, a path that leads through a text. Null counts as absent.
 * 5. Names of tools and paths come from outside, and may be names that every object knows. A record is asked only for what it itself holds.
 */
import type { Condition, Constraint, GovernancePolicy, RateLimit } from '../protocol/governance.ts';
import { type JsonObject, type JsonValue, own } from '../protocol/json.ts';
import { SIZES, utf8Bytes } from '../protocol/sizes.ts';

/** As much of a call's arguments as rules may look at; the arguments themselves stay in the store (K4). */
export interface ArgumentFacts {
  /** The values at the paths that rules name, by path. A path without a value is not in it. */
  readonly values: Readonly<Record<string, JsonValue>>;
  /** The paths whose values were too large to travel. */
  readonly oversized: readonly string[];
  /** The paths that lead through a text, a number or a list without such an index. Absent when there are none. */
  readonly unreadable?: readonly string[];
}

/** The facts of a call that no rule looks at. */
export const NO_FACTS: ArgumentFacts = { values: {}, oversized: [] };

/** What governance says of a call; `reason` is for the model and for people. */
export type Verdict =
  | { readonly decision: 'allow' }
  | { readonly decision: 'ask' | 'deny'; readonly stage: Stage; readonly reason: string }
  | {
      readonly decision: 'rate_limited';
      readonly stage: 'rate_limit';
      readonly reason: string;
      /** After how many milliseconds the call would fit its limit. */
      readonly retryAfterMs: number;
    };

/** The parts of governance, in the order in which they are named when several decide alike. */
export type Stage = 'permission' | 'constraint' | 'veto' | 'rate_limit';

/** When the calls of each tool started that took a slot of a rate limit: epoch ms, oldest first. */
export type RateWindows = Readonly<Record<string, readonly number[]>>;

/** The part of the state that governance owns. */
export interface RateState {
  readonly rateWindows: RateWindows;
}

/** No rate limit counts a call yet. */
export const NO_SLOTS_TAKEN: RateState = { rateWindows: {} };

/** The verdict on a call, and the rate windows afterwards: with its slot where it may run at once. */
export interface Judged {
  readonly verdict: Verdict;
  readonly windows: RateWindows;
}

const ALLOW: Verdict = { decision: 'allow' };
const RANK = { deny: 0, ask: 1, rate_limited: 2, allow: 3 } as const;

/** The verdict of all stages on one call; `windows` are those before it. */
export function judge(
  policy: GovernancePolicy,
  windows: RateWindows,
  tool: string,
  facts: ArgumentFacts,
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

/** The windows with a slot for a call that was approved: it counts against its rate limit, although it is not judged again. */
export function takeSlot(policy: GovernancePolicy, windows: RateWindows, tool: string, nowMs: number): RateWindows {
  const limits = rateLimitsOf(policy, tool);
  if (limits.length === 0) return windows;
  const longest = Math.max(...limits.map((limit) => limit.windowMs));
  return { ...windows, [tool]: [...recent(windows, tool, longest, nowMs), nowMs] };
}

/** Whether a pattern names a tool: whole, as `prefix*`, as `*suffix`, or `*` for all. */
export function matches(pattern: string, tool: string): boolean {
  if (pattern === '*') return true;
  if (pattern.endsWith('*')) return tool.startsWith(pattern.slice(0, -1));
  if (pattern.startsWith('*')) return tool.endsWith(pattern.slice(1));
  return pattern === tool;
}

/** The paths into the arguments of a tool that some rule or constraint looks at. */
export function pathsOf({ rules, constraints }: GovernancePolicy, tool: string): readonly string[] {
  const conditions = rules.filter((rule) => matches(rule.tool, tool)).flatMap((rule) => rule.when?.path ?? []);
  const checked = constraints.filter((rule) => matches(rule.tool, tool)).map((rule) => rule.path);
  return [...new Set([...conditions, ...checked])];
}

/** The facts of a call, read from its whole arguments. Values of more than `SIZES.factBytes` bytes as JSON do not travel (K4). */
export function factsAt(policy: GovernancePolicy, tool: string, args: JsonObject): ArgumentFacts {
  const values: [string, JsonValue][] = [];
  const oversized: string[] = [];
  const unreadable: string[] = [];
  for (const path of pathsOf(policy, tool)) {
    const value = valueAt(args, path);
    if (value === undefined) continue;
    if (value === UNREADABLE) unreadable.push(path);
    else if (utf8Bytes(JSON.stringify(value)) > SIZES.factBytes) oversized.push(path);
    else values.push([path, value]);
  }
  // By fromEntries, because an assignment to a path named __proto__ would set the prototype.
  return { values: Object.fromEntries(values), oversized, ...(unreadable.length > 0 ? { unreadable } : {}) };
}

const UNREADABLE = Symbol('a path that leads through something without parts');

function valueAt(args: JsonObject, path: string): JsonValue | undefined | typeof UNREADABLE {
  let value: JsonValue | undefined = args;
  for (const key of path.split('.')) {
    if (value === undefined || value === null) return undefined;
    if (typeof value !== 'object' || (Array.isArray(value) && !Object.hasOwn(value, key))) return UNREADABLE;
    value = own(value as JsonObject, key);
  }
  return value;
}

function permission(policy: GovernancePolicy, tool: string, facts: ArgumentFacts): Verdict {
  for (const { tool: pattern, action, when, reason } of policy.rules) {
    if (!matches(pattern, tool)) continue;
    if (when && facts.oversized.includes(when.path)) return tooLarge('permission', when.path);
    const problem = when ? unjudgeable(when, facts) : null;
    // Where a condition cannot be judged, a rule that would allow does not apply, and the next one is asked.
    if (when && problem !== null && action !== 'allow') return denied('permission', when.path, problem);
    if (when && !holds(when, own(facts.values, when.path))) continue;
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

function constraints(policy: GovernancePolicy, tool: string, facts: ArgumentFacts): Verdict {
  for (const constraint of policy.constraints) {
    if (!matches(constraint.tool, tool)) continue;
    const { path } = constraint;
    if (facts.oversized.includes(path)) return tooLarge('constraint', path);
    const problem = breach(constraint, facts);
    if (problem !== null) return denied('constraint', path, problem);
  }
  return ALLOW;
}

/** How a value breaks the constraint; null when it does not. A value that is absent, or null, breaks only `required`. */
function breach(constraint: Constraint, facts: ArgumentFacts): string | null {
  const { path, required, oneOf, min, max, maxLength } = constraint;
  if (facts.unreadable?.includes(path)) return LEADS_NOWHERE;
  const value = own(facts.values, path);
  if (value === undefined || value === null) return required ? 'is required' : null;
  if (oneOf && !isOneOf(oneOf, value)) return `must be one of ${JSON.stringify(oneOf)}`;
  if (min !== undefined || max !== undefined) {
    if (typeof value !== 'number') return `must be a number, and is ${kindOf(value)}`;
    if (!inRange(value, min, max)) return `must be ${rangeText(min, max)}`;
  }
  if (maxLength === undefined) return null;
  if (typeof value !== 'string') return `must be a text, and is ${kindOf(value)}`;
  return value.length > maxLength ? `must have at most ${maxLength} characters` : null;
}

function rangeText(min: number | undefined, max: number | undefined): string {
  if (min === undefined) return `at most ${max}`;
  return max === undefined ? `at least ${min}` : `from ${min} to ${max}`;
}

const LEADS_NOWHERE = 'cannot be found, because a part of the path is neither an object nor absent';

/** Why it cannot be said whether the condition holds; null when it can. */
function unjudgeable({ path, oneOf }: Condition, facts: ArgumentFacts): string | null {
  if (facts.unreadable?.includes(path)) return LEADS_NOWHERE;
  const value = own(facts.values, path);
  if (value === undefined || value === null) return null;
  if (!oneOf) return typeof value === 'number' ? null : `must be a number, and is ${kindOf(value)}`;
  if (typeof value !== 'object' && oneOf.some((known) => typeof known === typeof value)) return null;
  return `is ${kindOf(value)}, which ${JSON.stringify(oneOf)} says nothing about`;
}

function kindOf(value: JsonValue): string {
  if (typeof value === 'object') return Array.isArray(value) ? 'a list' : 'an object';
  return typeof value === 'string' ? 'a text' : `a ${typeof value}`;
}

const denied = (stage: Stage, path: string, problem: string): Verdict => ({
  decision: 'deny',
  stage,
  reason: `argument ${path} ${problem}`,
});

const tooLarge = (stage: Stage, path: string): Verdict => denied(stage, path, 'is too large to be checked');

function veto({ veto: patterns }: GovernancePolicy, tool: string): Verdict {
  return patterns.some((pattern) => matches(pattern, tool))
    ? { decision: 'deny', stage: 'veto', reason: `${tool} is vetoed` }
    : ALLOW;
}

const rateLimitsOf = ({ rateLimits }: GovernancePolicy, tool: string): readonly RateLimit[] =>
  rateLimits.filter((limit) => matches(limit.tool, tool));

/** The starts within the window. One exactly at its edge still counts. */
const recent = (windows: RateWindows, tool: string, windowMs: number, nowMs: number): readonly number[] =>
  (own(windows, tool) ?? []).filter((startedAt) => startedAt >= nowMs - windowMs);

function rateVerdict(policy: GovernancePolicy, windows: RateWindows, tool: string, nowMs: number): Verdict {
  for (const { max, windowMs } of rateLimitsOf(policy, tool)) {
    const started = recent(windows, tool, windowMs, nowMs);
    const oldest = started[started.length - max];
    if (oldest === undefined) continue;
    const retryAfterMs = oldest + windowMs - nowMs + 1;
    const reason = `${tool} may start ${max} times in ${windowMs} ms; try again in ${retryAfterMs} ms`;
    return { decision: 'rate_limited', stage: 'rate_limit', reason, retryAfterMs };
  }
  return ALLOW;
}
