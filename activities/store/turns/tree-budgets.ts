/**
 * Budgets of a tree of turns (K9, K20): a turn delegates at the expense of its own.
 *
 * Invariants
 * 1. A delegated turn is given a share of what its caller has left, under the caller's head row. Until it ends the share counts as the
 *    caller's spending, so the shares of a turn, what it spent, and what those that ended have spent, are never more than it was given
 *    itself, but for the steps that were under way.
 * 2. Once it has ended, what counts is what it spent, and what its own delegated turns have spent or still hold. That is never added up in a
 *    row but read anew, so that no transaction needs a child's lock and then its caller's, and an end that comes late counts all the same.
 * 3. What is given only rises, and only by what the nearest open turn above has left, under its head row.
 */
import { type RawBuilder, sql } from 'kysely';
import type { BudgetStanding } from '../../../workflows/contract/steps.ts';
import { addCost, tokensUsed } from '../../../workflows/kernel/budgets.ts';
import type { Delegated } from '../../../workflows/kernel/state.ts';
import { ASK_EXPERT, DELEGATE_ASYNC } from '../../../workflows/protocol/builtins.ts';
import { CodedError } from '../../../workflows/protocol/failures.ts';
import type { BudgetChange, Budgets } from '../../../workflows/protocol/profile.ts';
import { type Fence, isTerminal, type Usage } from '../../../workflows/protocol/turn.ts';
import { ofFewLengths, read, type StoreContext, type Trx, write } from '../context.ts';
import type { HeadRow, TurnRow } from '../schema/rows.ts';
import { lockHead } from './head.ts';
import { profileByHash } from './profiles.ts';
import type { Refusal } from './refusal.ts';
import { budgetsOf, setBudgetsOf } from './set-budgets.ts';
import { findTurn, type MaybeHeld, type Share, turnOf } from './turns.ts';

/** A steer that became a turn stands below its old turn too, and is a request from outside like any other. */
type BranchRow = Pick<TurnRow, (typeof COLUMNS)[number]>;

const COLUMNS = [
  'agent_id',
  'agent_turn_id',
  'parent_agent_turn_id',
  'parent_call_id',
  'status',
  'usage',
  'cost',
  'given_tokens',
  'given_cost',
] as const satisfies readonly (keyof TurnRow)[];

/** Turns whose delegated turns are read in one statement. */
const MOST_IDS = 1_000;

/**
 * All that was delegated below these turns, level by level: mostly there is nothing, and each level is found by index, whatever the planner
 * knows of the table. A turn that ends between two levels was read as one that still holds its share, which is no less than it spends.
 */
async function branchOf(db: Queries, agentTurnIds: readonly string[]): Promise<BranchRow[]> {
  const branch = new Map<string, BranchRow>();
  let above = agentTurnIds;
  while (above.length > 0) {
    const rows = await db
      .selectFrom('turns')
      .select(COLUMNS)
      .where('parent_agent_turn_id', 'in', ofFewLengths(above.slice(0, MOST_IDS)))
      .where('parent_call_id', 'is not', null)
      .execute();
    // One of these turns may stand below another.
    const found = rows.filter((row) => !branch.has(row.agent_turn_id));
    for (const row of found) branch.set(row.agent_turn_id, row);
    above = [...above.slice(MOST_IDS), ...found.map((row) => row.agent_turn_id)];
  }
  return [...branch.values()];
}

type Queries = Pick<Trx, 'selectFrom' | 'getExecutor'>;

type Children = ReadonlyMap<string | null, readonly BranchRow[]>;

const NOTHING: Delegated = { tokens: 0, cost: 0, open: false };

/** What the turns below one have spent or still hold of its budgets. */
function heldBelow(agentTurnId: string, children: Children): Delegated {
  let { tokens, cost, open } = NOTHING;
  for (const child of children.get(agentTurnId) ?? []) {
    const spent = spentBy(child, children);
    const ended = isTerminal(child.status);
    tokens += ended ? spent.tokens : Math.max(spent.tokens, child.given_tokens ?? 0);
    cost = addCost(cost, ended || spent.cost === null ? spent.cost : Math.max(spent.cost, child.given_cost ?? 0));
    open ||= !ended || spent.open;
  }
  return { tokens, cost, open };
}

/** By a turn itself and by all below it, with what those still hold. */
function spentBy(turn: BranchRow, children: Children): Delegated {
  const delegated = heldBelow(turn.agent_turn_id, children);
  const tokens = tokensUsed({ usage: JSON.parse(turn.usage) as Usage, delegated });
  return { ...delegated, tokens, cost: addCost(turn.cost, delegated.cost) };
}

async function delegatedBy(db: Queries, agentTurnId: string): Promise<Delegated | null> {
  const rows = await branchOf(db, [agentTurnId]);
  if (rows.length === 0) return null;
  return heldBelow(
    agentTurnId,
    Map.groupBy(rows, (row) => row.parent_agent_turn_id),
  );
}

/** The caller holds the head row, where the budgets are to be those of this moment. */
export async function standingOf(trx: Trx, turn: MaybeHeld): Promise<BudgetStanding> {
  const budgets = setBudgetsOf(turn);
  const delegated = turn.delegated === false ? null : await delegatedBy(trx, turn.agent_turn_id);
  return { ...(budgets ? { budgets } : {}), ...(delegated ? { delegated } : {}) };
}

export const readBudgets = (ctx: StoreContext, { agentTurnId }: Fence): Promise<BudgetStanding> =>
  read(ctx, async (db) => standingOf(db as Trx, await turnOf(db as Trx, agentTurnId)));

interface Left {
  readonly tokens: number;
  /** Infinite without a limit; nothing where it is not known what was spent. */
  readonly cost: number;
}

/** What a turn may still spend or give away. */
async function leftOf(trx: Trx, turn: TurnRow, budgets: Budgets): Promise<Left> {
  const delegated = (await delegatedBy(trx, turn.agent_turn_id)) ?? NOTHING;
  const { maxTokens, maxCost } = budgetsOf(turn, budgets);
  const cost = addCost(turn.cost, delegated.cost);
  const costLeft = maxCost === undefined ? Number.POSITIVE_INFINITY : cost === null ? 0 : maxCost - cost;
  return { tokens: maxTokens - tokensUsed({ usage: JSON.parse(turn.usage) as Usage, delegated }), cost: costLeft };
}

export interface Wish {
  readonly stepIndex: number;
  /** What the caller wants to give at most. */
  readonly maxTokens: number | undefined;
  /** Of the profile that is to do the work. */
  readonly budgets: Budgets;
}

/**
 * What a new turn gets of its caller's budgets: what is asked for, else as much as each other turn that this step delegates, and as the
 * caller keeps. Never more than the caller has left, nor than the new turn's own profile allows. The caller's head row is held.
 */
export async function shareOf(trx: Trx, turn: TurnRow, own: Budgets, wish: Wish): Promise<Share | Refusal> {
  const left = await leftOf(trx, turn, own);
  if (left.tokens <= 0)
    return { code: 'budget_tokens', message: 'no tokens are left to delegate: all are used, or held for other turns' };
  if (left.cost <= 0)
    return {
      code: 'budget_cost',
      message: 'no money is left to delegate: it is spent, held for other turns, or not known',
    };
  const parts = 1 + (await toDelegate(trx, turn, wish.stepIndex));
  const { maxTokens, maxCost = Number.POSITIVE_INFINITY } = wish.budgets;
  const tokens = Math.min(wish.maxTokens ?? Math.ceil(left.tokens / parts), left.tokens, maxTokens);
  const cost = Number.isFinite(left.cost) ? Math.min(left.cost / parts, maxCost) : null;
  return { tokens, cost };
}

/** Calls of the step that delegate and have made no turn yet, this one included. */
async function toDelegate(trx: Trx, { agent_turn_id: agentTurnId }: TurnRow, stepIndex: number): Promise<number> {
  const { calls } = await trx
    .selectFrom('execution_edges')
    .select((eb) => eb.fn.countAll<number>().as('calls'))
    .where('source_agent_turn_id', '=', agentTurnId)
    .where('source_step_index', '=', stepIndex)
    .where('primitive', '=', 'tool_call')
    .where('kind', 'in', [ASK_EXPERT, DELEGATE_ASYNC])
    .executeTakeFirstOrThrow();
  const { made } = await trx
    .selectFrom('turns')
    .select((eb) => eb.fn.countAll<number>().as('made'))
    .where('parent_agent_turn_id', '=', agentTurnId)
    .where('parent_step_index', '=', stepIndex)
    .executeTakeFirstOrThrow();
  return Math.max(1, Number(calls) - Number(made));
}

/** How much more these budgets are than the turn was given; null when they are not. */
function beyond({ parent_call_id, given_tokens, given_cost }: TurnRow, budgets: BudgetChange): Left | null {
  if (parent_call_id === null) return null;
  const { maxTokens = 0, maxCost = 0 } = budgets;
  const tokens = given_tokens === null ? 0 : Math.max(0, maxTokens - given_tokens);
  const cost = given_cost === null ? 0 : Math.max(0, maxCost - given_cost);
  return tokens > 0 || cost > 0 ? { tokens, cost } : null;
}

/**
 * One write transaction under the head of the turn's agent; where these budgets are more than a delegated turn was given, also under those of
 * all turns above it, locked in the order of their agents' ids like a delegation's, so that none of them ends or delegates meanwhile. Null
 * when the turn was never accepted.
 */
export async function writeForBudgets<T>(
  ctx: StoreContext,
  agentTurnId: string,
  budgets: BudgetChange | undefined,
  now: number,
  body: (trx: Trx, found: { readonly head: HeadRow; readonly turn: TurnRow }) => Promise<T>,
): Promise<T | null> {
  // Before the locks: what a turn was given only rises, and those above it stay the same.
  const line = await read(ctx, async (db) => {
    const seen = await findTurn(db, agentTurnId);
    return seen && budgets && beyond(seen, budgets) ? lineOf(db, seen) : seen && [seen];
  });
  if (!line) return null;
  const agentIds = [...new Set(line.map((turn) => turn.agent_id))].sort();
  return write(ctx, agentIds, async (trx) => {
    const heads = new Map<string, HeadRow>();
    for (const agentId of agentIds) heads.set(agentId, await lockHead(trx, agentId, now));
    const turn = await turnOf(trx, agentTurnId);
    const head = heads.get(turn.agent_id) ?? (await lockHead(trx, turn.agent_id, now));
    return body(trx, { head, turn });
  });
}

/** The turn and those above it, up to the one that came from outside. */
async function lineOf(db: Pick<Trx, 'selectFrom'>, turn: TurnRow): Promise<TurnRow[]> {
  const line = [turn];
  for (let one = turn; one.parent_call_id !== null && one.parent_agent_turn_id !== null; ) {
    one = await turnOf(db, one.parent_agent_turn_id);
    line.push(one);
  }
  return line;
}

/**
 * What exceeds a delegated turn's share is taken from the turn it works for: the nearest one above that has not ended, else the first one.
 * The heads are held by `writeForLimits`. Errors: `budget_refused`.
 */
export async function refuseUnfunded(ctx: StoreContext, trx: Trx, turn: TurnRow, budgets: BudgetChange): Promise<void> {
  const more = beyond(turn, budgets);
  if (!more) return;
  const above = (await lineOf(trx, turn)).slice(1);
  const funder = above.find(({ status }) => !isTerminal(status)) ?? above.at(-1);
  if (!funder) return;
  const { profile } = await profileByHash(trx, funder.profile_hash ?? '', ctx.profiles);
  const left = await leftOf(trx, funder, profile.budgets);
  if (more.tokens <= left.tokens && more.cost <= left.cost) return;
  const axis = more.tokens > left.tokens ? 'tokens' : 'cost';
  const message = `turn ${turn.agent_turn_id} would get ${more[axis]} more than it was given (${axis}), and turn ${funder.agent_turn_id}, which it works for, has ${Math.max(0, left[axis])} left; raise that one's budget first`;
  throw new CodedError('budget_refused', message);
}

/**
 * Turns of a range whose delegated turns hold or have spent more than they were given; what went beyond a turn's own share counts against
 * it alone. Of one that has ended, the turns below are paid for by those above.
 */
export async function overdrawn(
  db: Queries,
  within: (column: string) => RawBuilder<unknown>,
): Promise<{ turn: BranchRow; held: number }[]> {
  const { rows: turns } = await sql<BranchRow>`
    select ${sql.join(COLUMNS.map((column) => sql.ref(`t.${column}`)))} from turns t where ${within('t.agent_turn_id')} and t.given_tokens is not null
      and (t.parent_call_id is null or t.status in ('queued', 'dispatched', 'running', 'suspended'))
      and exists (select 1 from turns c where c.parent_agent_turn_id = t.agent_turn_id)`.execute(db);
  if (turns.length === 0) return [];
  const rows = await branchOf(
    db,
    turns.map((turn) => turn.agent_turn_id),
  );
  const children: Children = Map.groupBy(rows, (row) => row.parent_agent_turn_id);
  return turns.flatMap((turn) => {
    const held = (children.get(turn.agent_turn_id) ?? []).reduce((sum, child) => {
      const given = child.given_tokens ?? 0;
      return sum + (isTerminal(child.status) ? Math.min(given, spentBy(child, children).tokens) : given);
    }, 0);
    return held > (turn.given_tokens ?? 0) ? [{ turn, held }] : [];
  });
}
