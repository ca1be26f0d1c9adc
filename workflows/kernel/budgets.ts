/**
 * Budgets (K9, K10, K12): checked at the one funnel before each model call; calls also at the gate.
 *
 * Invariants
 * 1. A budget is hit when what was used reaches the limit; beyond it go what was in flight, and one model call for the report.
 * 2. A cost that is not known counts as a limit reached: money nobody can count is not spent.
 * 3. Delegated turns count with what they spent or may still spend, as one sum that the store gives and each later one replaces: however
 *    late they end, they count, and none counts twice.
 */
import type { BudgetChange, Budgets } from '../protocol/profile.ts';
import { addUsage, NO_USAGE, type Termination, type Usage } from '../protocol/turn.ts';
import { FUSE_BLOWS, type FuseState, longestStreak } from './fuse.ts';

export type BudgetCode =
  | 'max_steps_reached'
  | 'budget_tool_calls'
  | 'budget_tokens'
  | 'budget_wall_time'
  | 'budget_cost'
  | 'no_progress';

/** What the turns that a turn delegated have spent or still hold of its budgets, down the tree, as the store knew it last (K9). */
export interface Delegated {
  readonly tokens: number;
  /** Null when a price is not known. */
  readonly cost: number | null;
  /** Whether one of them has not ended: then the sums may still fall. */
  readonly open: boolean;
}

/** What the turn may use, and what it has used of it. */
export interface BudgetState {
  /** As the profile sets them, or as an operator changed them. */
  readonly budgets: Budgets;
  /** The number of model calls asked for; while one is under way, its index. */
  readonly stepIndex: number;
  /** Epoch ms of `start`; 0 before it. */
  readonly startedAt: number;
  /** The tokens of the turn's own model calls. */
  readonly usage: Usage;
  /** The cost of the turn's own model calls, in the currency of the price list; null as soon as one price is not known. */
  readonly cost: number | null;
  readonly delegated: Delegated;
  /** The calls that were started, or wait for approval to be. */
  readonly toolCalls: number;
  /** Whether calls were refused because `maxToolCalls` was used up. */
  readonly callsRefused: boolean;
  /** The budgets that operators were asked about since the last model call. */
  readonly asks: readonly BudgetCode[];
}

/** Before `start` nothing is used. */
export const nothingUsed = (budgets: Budgets): BudgetState => ({
  budgets,
  stepIndex: 0,
  startedAt: 0,
  usage: NO_USAGE,
  cost: 0,
  delegated: { tokens: 0, cost: 0, open: false },
  toolCalls: 0,
  callsRefused: false,
  asks: [],
});

export interface BudgetHit {
  readonly code: BudgetCode;
  readonly used: number;
  readonly limit: number;
  readonly reason: string;
}

/** What must be raised when it is hit; nothing lifts the fuse. */
const AXES: Readonly<Partial<Record<BudgetCode, keyof BudgetChange>>> = {
  max_steps_reached: 'maxSteps',
  budget_tool_calls: 'maxToolCalls',
  budget_tokens: 'maxTokens',
  budget_wall_time: 'maxWallTimeMs',
  budget_cost: 'maxCost',
};

/** What an operator is asked about: a budget as it stood when the question was asked. */
export type BudgetAsk = Pick<BudgetHit, 'code' | 'used' | 'limit'>;

/** The question to an operator whether a budget may be larger; its answer comes under `askId` (K9). */
export interface BudgetQuestion extends BudgetAsk {
  readonly askId: string;
  /** Epoch ms by the clock of the workflow. */
  readonly deadline: number;
}

/** The question about a budget that is used up. Asked again before the next model call it is another one: the first has its answer. */
export function questionAbout(
  { asks, stepIndex }: BudgetState,
  { code, used, limit }: BudgetHit,
  deadline: number,
): BudgetQuestion {
  const times = asks.filter((asked) => asked === code).length;
  const askId = `budget-${stepIndex}-${code}${times === 0 ? '' : `-${times + 1}`}`;
  return { askId, code, used, limit, deadline };
}

/** Null when these budgets lift a budget that was asked about `askedMs` ago; else what is missing. */
export function shortfall({ code, used, limit }: BudgetAsk, budgets: BudgetChange, askedMs: number): string | null {
  const axis = AXES[code];
  const usedNow = code === 'budget_wall_time' ? used + askedMs : used;
  const given = axis === undefined ? undefined : budgets[axis];
  if (given !== undefined && given > usedNow) return null;
  return `${code}: ${usedNow} of ${limit} used; ${axis} must be more than ${usedNow}`;
}

export const tokensUsed = ({ usage, delegated }: Pick<BudgetState, 'usage' | 'delegated'>): number =>
  usage.input + usage.output + delegated.tokens;

export const costUsed = ({ cost, delegated }: Pick<BudgetState, 'cost' | 'delegated'>): number | null =>
  addCost(cost, delegated.cost);

export function exhaustedBudget(state: BudgetState & FuseState, nowMs: number): BudgetHit | null {
  const { maxSteps, maxToolCalls, maxTokens, maxWallTimeMs, maxCost } = state.budgets;
  const { stepIndex, toolCalls } = state;
  const cost = costUsed(state);
  const tokens = tokensUsed(state);
  const wallMs = nowMs - state.startedAt;
  const streak = longestStreak(state.streaks);
  if (streak >= FUSE_BLOWS)
    return hit('no_progress', streak, FUSE_BLOWS, `the same call was proposed ${streak} times in a row`);
  if (stepIndex >= maxSteps) return hit('max_steps_reached', stepIndex, maxSteps, `${maxSteps} steps are used up`);
  if (state.callsRefused && toolCalls >= maxToolCalls)
    return hit('budget_tool_calls', toolCalls, maxToolCalls, `${maxToolCalls} tool calls are used up`);
  if (tokens >= maxTokens) return hit('budget_tokens', tokens, maxTokens, `${tokens} of ${maxTokens} tokens are used`);
  if (maxWallTimeMs !== undefined && wallMs >= maxWallTimeMs)
    return hit('budget_wall_time', wallMs, maxWallTimeMs, `${wallMs} of ${maxWallTimeMs} ms have passed`);
  if (maxCost !== undefined && (cost === null || cost >= maxCost)) {
    const reason = cost === null ? 'what it cost so far is not known' : `${cost} of ${maxCost} is spent`;
    return hit('budget_cost', cost ?? maxCost, maxCost, reason);
  }
  return null;
}

/** What is not named stays. */
export const withBudgets = <T extends BudgetChange>(budgets: T, change: BudgetChange = {}): T => ({
  ...budgets,
  ...(Object.fromEntries(Object.entries(change).filter(([, limit]) => limit !== undefined)) as Partial<T>),
});

/** Calls that a larger budget has room for were not refused for good. */
export function withChangedBudgets(
  state: BudgetState,
  change: BudgetChange | undefined,
): Pick<BudgetState, 'budgets' | 'callsRefused'> {
  const budgets = withBudgets(state.budgets, change);
  return { budgets, callsRefused: state.callsRefused && state.toolCalls >= budgets.maxToolCalls };
}

/** Calls that may still be started. */
export const callsLeft = ({ budgets, toolCalls }: BudgetState): number =>
  budgets.maxToolCalls === undefined ? Number.POSITIVE_INFINITY : Math.max(0, budgets.maxToolCalls - toolCalls);

export const terminationOf = ({ code, reason }: BudgetHit): Termination => ({
  status: 'partial',
  errorCode: code,
  reason,
});

const hit = (code: BudgetHit['code'], used: number, limit: number, reason: string): BudgetHit => ({
  code,
  used,
  limit,
  reason,
});

export const addCost = (a: number | null, b: number | null | undefined): number | null =>
  a === null || b === null ? null : a + (b ?? 0);

export const withUsage = (
  state: BudgetState,
  usage: Usage,
  cost: number | null | undefined,
): Pick<BudgetState, 'usage' | 'cost'> => ({
  usage: addUsage(state.usage, usage),
  cost: addCost(state.cost, cost),
});
