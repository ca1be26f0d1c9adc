/**
 * Budgets (K9, K10, K12): what a turn may use, what it has used, and whether one of them is used up. The funnel asks before each model call,
 * the gate before each tool call. Pure.
 *
 * Invariants
 * 1. A budget is used up when what was used reaches its limit. What is under way at that time goes on to its end, and one model call for
 *    the final report comes after it.
 * 2. A cost that is not known counts as a limit that is reached, because money that nobody can count must not be spent.
 * 3. Delegated turns count with what they spent or may still spend, as one sum that the store gives. Each sum replaces the one before, so
 *    that every turn counts, however late it ends, and none counts twice.
 */
import type { BudgetChange, Budgets } from '../protocol/profile.ts';
import { addUsage, NO_USAGE, type Termination, type Usage } from '../protocol/turn.ts';
import { answersInARow, FUSE_BLOWS, type FuseState, longestStreak, type Streaks } from './fuse.ts';

/** The code of the catalogue with which a turn ends whose budget was used up; `no_progress` is that of the repeat fuse. */
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

/** The budgets at the start of a turn. */
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

/** A budget that is used up. */
export interface BudgetHit {
  readonly code: BudgetCode;
  /** In the unit of the budget: steps, calls, tokens, ms, or the currency of the price list. */
  readonly used: number;
  readonly limit: number;
  /** What a person and the model read about it. */
  readonly reason: string;
}

/** The budget that must be larger for a turn with this code to go on. The fuse has none: nothing lifts it. */
const AXES: Readonly<Partial<Record<BudgetCode, keyof BudgetChange>>> = {
  max_steps_reached: 'maxSteps',
  budget_tool_calls: 'maxToolCalls',
  budget_tokens: 'maxTokens',
  budget_wall_time: 'maxWallTimeMs',
  budget_cost: 'maxCost',
};

/** A budget as it stood when an operator was asked about it. */
export type BudgetAsk = Pick<BudgetHit, 'code' | 'used' | 'limit'>;

/** The question to an operator whether a budget may be larger; its answer comes under `askId` (K9). */
export interface BudgetQuestion extends BudgetAsk {
  readonly askId: string;
  /** Epoch ms by the clock of the workflow. */
  readonly deadline: number;
}

/**
 * The question about a budget that is used up. Where it is asked once more before the next model call, it has another id: the first one
 * has its answer already.
 */
export function questionAbout(
  { asks, stepIndex }: BudgetState,
  { code, used, limit }: BudgetHit,
  deadline: number,
): BudgetQuestion {
  const times = asks.filter((asked) => asked === code).length;
  const askId = `budget-${stepIndex}-${code}${times === 0 ? '' : `-${times + 1}`}`;
  return { askId, code, used, limit, deadline };
}

/** What these budgets lack to lift the budget that an operator was asked about `askedMs` milliseconds ago; null when they suffice. */
export function shortfall({ code, used, limit }: BudgetAsk, budgets: BudgetChange, askedMs: number): string | null {
  const axis = AXES[code];
  const usedNow = code === 'budget_wall_time' ? used + askedMs : used;
  const given = axis === undefined ? undefined : budgets[axis];
  if (given !== undefined && given > usedNow) return null;
  return `${code}: ${usedNow} of ${limit} used; ${axis} must be more than ${usedNow}`;
}

/** The tokens that count against `maxTokens`: those of the turn and those of all that it delegated. */
export const tokensUsed = ({ usage, delegated }: Pick<BudgetState, 'usage' | 'delegated'>): number =>
  usage.input + usage.output + delegated.tokens;

/** The cost that counts against `maxCost`, delegated turns included; null when a price is not known. */
export const costUsed = ({ cost, delegated }: Pick<BudgetState, 'cost' | 'delegated'>): number | null =>
  addCost(cost, delegated.cost);

const repetitionText = (streaks: Streaks): string =>
  answersInARow(streaks) >= FUSE_BLOWS
    ? `the model answered ${answersInARow(streaks)} times in a row without the tool that the turn must end with`
    : `the same call was proposed ${longestStreak(streaks)} times in a row`;

/** The budget that forbids another model call; null when none does. Of several the first in this order is named. */
export function exhaustedBudget(state: BudgetState & FuseState, nowMs: number): BudgetHit | null {
  const { maxSteps, maxToolCalls, maxTokens, maxWallTimeMs, maxCost } = state.budgets;
  const { stepIndex, toolCalls } = state;
  const cost = costUsed(state);
  const tokens = tokensUsed(state);
  const wallMs = nowMs - state.startedAt;
  const streak = longestStreak(state.streaks);
  if (streak >= FUSE_BLOWS) return hit('no_progress', streak, FUSE_BLOWS, repetitionText(state.streaks));
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

/** The budgets with those replaced that the change names. */
export const withBudgets = <T extends BudgetChange>(budgets: T, change: BudgetChange = {}): T => ({
  ...budgets,
  ...(Object.fromEntries(Object.entries(change).filter(([, limit]) => limit !== undefined)) as Partial<T>),
});

/** The budgets as an operator changes them. Where they leave room for more calls, the refused calls do not end the turn any more. */
export function withChangedBudgets(
  state: BudgetState,
  change: BudgetChange | undefined,
): Pick<BudgetState, 'budgets' | 'callsRefused'> {
  const budgets = withBudgets(state.budgets, change);
  return { budgets, callsRefused: state.callsRefused && state.toolCalls >= budgets.maxToolCalls };
}

/** How many calls may still be started. */
export const callsLeft = ({ budgets, toolCalls }: BudgetState): number => Math.max(0, budgets.maxToolCalls - toolCalls);

/** How a turn ends that has reported after this budget was used up. */
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

/** The sum of two costs; null when one of them is not known. */
export const addCost = (a: number | null, b: number | null | undefined): number | null =>
  a === null || b === null ? null : a + (b ?? 0);

/** What the turn has used once this model call, or this summary, is counted. */
export const withUsage = (
  state: BudgetState,
  usage: Usage,
  cost: number | null | undefined,
): Pick<BudgetState, 'usage' | 'cost'> => ({
  usage: addUsage(state.usage, usage),
  cost: addCost(state.cost, cost),
});
