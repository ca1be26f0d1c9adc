/**
 * Budgets of a tree of turns (K9, K20): a turn delegates at the expense of its own.
 *
 * Invariants
 * 1. A delegated turn is given a share of what its caller has left, under the caller's head row. Until it ends the share counts as the
 *    caller's spending, so the shares of a turn, what it spent, and what those that ended have spent, are never more than it was given
 *    itself, but for the steps that were under way.
 * 2. Once it has ended, what counts is what it spent, and what its own delegated turns have spent or still hold. That is never added up in
 *    a row but read anew, so that no transaction needs a child's lock and then its caller's, and an end that comes late counts all the
 *    same.
 * 3. What is given only rises, and only by what the nearest open turn above has left, under its head row.
 */
import { type RawBuilder, sql } from 'kysely';
import type { InboxDelivery, InboxItem, InboxMark } from '../../../workflows/contract/inbox.ts';
import { addCost, type Delegated, tokensUsed } from '../../../workflows/kernel/budgets.ts';
import { ASK_EXPERT, DELEGATE_ASYNC } from '../../../workflows/protocol/builtins.ts';
import { CodedError } from '../../../workflows/protocol/failures.ts';
import type { BudgetChange, Budgets } from '../../../workflows/protocol/profile.ts';
import { type Fence, isTerminal } from '../../../workflows/protocol/turn.ts';
import { type Reader, read, type StoreContext, type Tx, together, write } from '../context.ts';
import { decoded } from '../schema/json.ts';
import type { HeadRow } from '../schema/rows.ts';
import type { TurnRow } from '../schema/turn-row.ts';
import { leased } from '../schema/turn-states.ts';
import { lockHead, refuseShutOut, selectLease } from './head.ts';
import { profileByHash } from './profiles.ts';
import type { Refusal } from './refusal.ts';
import { budgetsOf, setBudgetsOf, unreadBudgets } from './set-budgets.ts';
import { asHeld, fencedTurn, findTurn, type Locked, type MaybeHeld, type Share, selectHeld, turnOf } from './turns.ts';

/** What is added up of a turn below another. */
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
async function branchOf({ db }: Queries, agentTurnIds: readonly string[]): Promise<BranchRow[]> {
  const branch = new Map<string, BranchRow>();
  let above = agentTurnIds;
  while (above.length > 0) {
    const rows = await db
      .selectFrom('turns')
      .select(COLUMNS)
      .where((eb) => eb('parent_agent_turn_id', '=', eb.fn.any(eb.val(above.slice(0, MOST_IDS)))))
      // A steer that became a turn stands below its old turn too, and is a request from outside like any other.
      .where('parent_call_id', 'is not', null)
      .execute();
    // One of these turns may stand below another.
    const found = rows.filter((row) => !branch.has(row.agent_turn_id));
    for (const row of found) branch.set(row.agent_turn_id, row);
    above = [...above.slice(MOST_IDS), ...found.map((row) => row.agent_turn_id)];
  }
  return [...branch.values()];
}

type Queries = Pick<Reader, 'db'>;

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
  const tokens = tokensUsed({ usage: decoded(turn.usage), delegated });
  return { ...delegated, tokens, cost: addCost(turn.cost, delegated.cost) };
}

/** What the turns below one have spent or still hold; null when it has delegated nothing. */
async function delegatedBy(reader: Queries, agentTurnId: string): Promise<Delegated | null> {
  const rows = await branchOf(reader, [agentTurnId]);
  if (rows.length === 0) return null;
  return heldBelow(
    agentTurnId,
    Map.groupBy(rows, (row) => row.parent_agent_turn_id),
  );
}

/** What the turn gets from its inbox, with these answers, and what its delegated turns use by now. The caller holds the head row. */
export async function deliver<Answer = never>(
  tx: Tx,
  turn: MaybeHeld,
  mark: InboxMark,
  answers: readonly InboxItem<Answer>[] = [],
): Promise<InboxDelivery<Answer>> {
  const items = [...(await unreadBudgets(tx, turn, mark)), ...answers];
  const delegated = turn.delegated === false ? null : await delegatedBy(tx, turn.agent_turn_id);
  return { ...(items.length > 0 ? { items } : {}), ...(delegated ? { delegated } : {}) };
}

/** Reads what is in the turn's inbox between two steps. */
export const readInbox = async (ctx: StoreContext, fence: Fence, mark: InboxMark = {}): Promise<InboxDelivery> =>
  (await withoutBudgets(ctx, fence)) ??
  write(ctx, fence.agentId, async (tx) => deliver(tx, (await fencedTurn(tx, fence)).turn, mark));

/** What is in the inbox of a turn whose budgets nobody has set, so that no item is to be marked as read; null for any other. */
const withoutBudgets = (ctx: StoreContext, fence: Fence): Promise<InboxDelivery | null> =>
  read(ctx, async (reader) => {
    const [[row], [lease]] = await together(
      reader.db,
      selectHeld(reader, fence.agentTurnId),
      selectLease(reader, fence),
    );
    refuseShutOut(lease, fence);
    const turn = asHeld(row, fence.agentTurnId);
    if (setBudgetsOf(turn)) return null;
    const delegated = turn.delegated ? await delegatedBy(reader, turn.agent_turn_id) : null;
    return delegated ? { delegated } : {};
  });

/** What is left of budgets. */
interface Left {
  readonly tokens: number;
  /** Infinite without a limit; zero where it is not known what was spent. */
  readonly cost: number;
}

/** What a turn may still spend or give away. */
async function leftOf(reader: Reader, turn: TurnRow, budgets: Budgets): Promise<Left> {
  const delegated = (await delegatedBy(reader, turn.agent_turn_id)) ?? NOTHING;
  const { maxTokens, maxCost } = budgetsOf(turn, budgets);
  const cost = addCost(turn.cost, delegated.cost);
  const costLeft = maxCost === undefined ? Number.POSITIVE_INFINITY : cost === null ? 0 : maxCost - cost;
  return { tokens: maxTokens - tokensUsed({ usage: decoded(turn.usage), delegated }), cost: costLeft };
}

/** What a delegation asks for. */
export interface Wish {
  /** The step of the caller that delegates. */
  readonly stepIndex: number;
  /** What the caller wants to give at most; undefined when it does not say. */
  readonly maxTokens: number | undefined;
  /** The budgets of the profile that is to do the work. */
  readonly budgets: Budgets;
}

/**
 * What a new turn gets of its caller's budgets: what is asked for, else as much as each other turn that this step delegates, and as the
 * caller keeps. Never more than the caller has left, nor than the new turn's own profile allows. The caller's head row is held.
 */
export async function shareOf(tx: Tx, turn: TurnRow, own: Budgets, wish: Wish): Promise<Share | Refusal> {
  const left = await leftOf(tx, turn, own);
  if (left.tokens <= 0)
    return { code: 'budget_tokens', message: 'no tokens are left to delegate: all are used, or held for other turns' };
  if (left.cost <= 0)
    return {
      code: 'budget_cost',
      message: 'no money is left to delegate: it is spent, held for other turns, or not known',
    };
  const parts = 1 + (await toDelegate(tx, turn, wish.stepIndex));
  const { maxTokens, maxCost = Number.POSITIVE_INFINITY } = wish.budgets;
  const tokens = Math.min(wish.maxTokens ?? Math.ceil(left.tokens / parts), left.tokens, maxTokens);
  const cost = Number.isFinite(left.cost) ? Math.min(left.cost / parts, maxCost) : null;
  return { tokens, cost };
}

/** Counts the calls of the step that delegate and have made no turn yet, this one included. */
async function toDelegate({ db }: Tx, { agent_turn_id: agentTurnId }: TurnRow, stepIndex: number): Promise<number> {
  const { calls } = await db
    .selectFrom('execution_edges')
    .select((eb) => eb.fn.countAll<number>().as('calls'))
    .where('source_agent_turn_id', '=', agentTurnId)
    .where('source_step_index', '=', stepIndex)
    .where('primitive', '=', 'tool_call')
    .where('kind', 'in', [ASK_EXPERT, DELEGATE_ASYNC])
    .executeTakeFirstOrThrow();
  const { made } = await db
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
 * Runs one write transaction under the head of the turn's agent; where these budgets are more than a delegated turn was given, also under
 * those of all turns above it, locked in the order of their agents' ids like a delegation's, so that none of them ends or delegates
 * meanwhile. Null when the turn was never accepted.
 */
export async function writeForBudgets<T>(
  ctx: StoreContext,
  agentTurnId: string,
  budgets: BudgetChange | undefined,
  body: (tx: Tx, found: Locked) => Promise<T>,
): Promise<T | null> {
  // Before the locks: what a turn was given only rises, and those above it stay the same.
  const line = await read(ctx, async (reader) => {
    const seen = await findTurn(reader, agentTurnId);
    return seen && budgets && beyond(seen, budgets) ? lineOf(reader, seen) : seen && [seen];
  });
  if (!line) return null;
  const agentIds = [...new Set(line.map((turn) => turn.agent_id))].sort();
  const locked = async (tx: Tx) => {
    const heads = new Map<string, HeadRow>();
    for (const agentId of agentIds) heads.set(agentId, await lockHead(tx, agentId));
    const turn = await turnOf(tx, agentTurnId);
    const head = heads.get(turn.agent_id) ?? (await lockHead(tx, turn.agent_id));
    return body(tx, { head, turn });
  };
  return write(ctx, agentIds, locked);
}

/** The turn and those above it, up to the one that came from outside. */
async function lineOf(reader: Reader, turn: TurnRow): Promise<TurnRow[]> {
  const line = [turn];
  for (let one = turn; one.parent_call_id !== null && one.parent_agent_turn_id !== null; ) {
    one = await turnOf(reader, one.parent_agent_turn_id);
    line.push(one);
  }
  return line;
}

/**
 * Refuses what exceeds a delegated turn's share and cannot be taken from the turn it works for: the nearest one above that has not ended,
 * else the first one. The heads are held by `writeForBudgets`. Errors: `budget_refused`.
 */
export async function refuseUnfunded(tx: Tx, turn: TurnRow, budgets: BudgetChange): Promise<void> {
  const more = beyond(turn, budgets);
  if (!more) return;
  const above = (await lineOf(tx, turn)).slice(1);
  const funder = above.find(({ status }) => !isTerminal(status)) ?? above.at(-1);
  if (!funder) return;
  // A turn that delegated was leased, and keeps its profile when it has ended.
  const { profile } = await profileByHash(tx, leased(funder).profile_hash);
  const left = await leftOf(tx, funder, profile.budgets);
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
  reader: Queries,
  within: (column: string) => RawBuilder<unknown>,
): Promise<{ turn: BranchRow; held: number }[]> {
  const { rows: turns } = await sql<BranchRow>`
    select ${sql.join(COLUMNS.map((column) => sql.ref(`t.${column}`)))} from turns t where ${within('t.agent_turn_id')} and t.given_tokens is not null
      and (t.parent_call_id is null or t.status in ('queued', 'dispatched', 'running', 'suspended'))
      and exists (select 1 from turns c where c.parent_agent_turn_id = t.agent_turn_id)`.execute(reader.db);
  if (turns.length === 0) return [];
  const rows = await branchOf(
    reader,
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
