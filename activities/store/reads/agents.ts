/** Agents as readers see them. */

import { type ExpressionBuilder, type SqlBool, sql } from 'kysely';
import {
  type AgentPosture,
  type AgentSchedulingPosture,
  derivePosture,
  type PostureFacts,
} from '../../../workflows/agent-state/posture.ts';
import { scheduled } from '../../../workflows/agent-state/work-items.ts';
import { type Border, NO_BORDER, seesAll } from '../../../workflows/contract/border.ts';
import type { AgentFilter, AgentPage, AgentView } from '../../../workflows/contract/views.ts';
import { openWorkBetween, openWorkOf, type WorkOf } from '../agents/work.ts';
import { read, type StoreContext } from '../context.ts';
import { constant, type Db, type HeadRow, type Tables } from '../schema/rows.ts';
import type { TurnRow } from '../schema/turn-row.ts';
import { agentInView } from './border.ts';

/** Agents of one page of a list of which many may not be wanted. */
const SCANNED = 500;

/** Lists agents by id. */
export const listAgents = (
  ctx: StoreContext,
  page: AgentPage = {},
  border: Border = NO_BORDER,
): Promise<readonly AgentView[]> =>
  read(ctx, async ({ db }) => {
    const { limit = 1_000, after, posture } = page;
    if (posture === undefined || DECIDED.has(posture)) {
      return viewsOf(
        db,
        (await headsOf(selectHeads(db, page, border), after, limit)).map(({ agent_id }) => agent_id),
      );
    }
    const found: string[] = [];
    for await (const ids of withPosture(db, { ...page, border }, posture, after)) {
      found.push(...ids);
      if (found.length >= limit) break;
    }
    return viewsOf(db, found.slice(0, limit));
  });

/** Counts agents. */
export const countAgents = (ctx: StoreContext, filter: AgentFilter = {}, border: Border = NO_BORDER): Promise<number> =>
  read(ctx, async ({ db }) => {
    const { posture } = filter;
    if (posture === undefined || DECIDED.has(posture)) return countOf(selectHeads(db, filter, border));
    // Agents without work are idle; of the others, what they are at is derived.
    const workless = selectHeads(db, filter, border).where('head.has_work', '=', HAS_NONE);
    let count = posture === 'idle' ? await countOf(workless) : 0;
    for await (const ids of withPosture(db, { ...filter, border }, posture, undefined, true)) count += ids.length;
    return count;
  });

/** The ids of agents with a posture that is derived, page by page; `working`: only of those that have work. */
async function* withPosture(
  db: Db,
  { border, ...filter }: AgentFilter & { readonly border: Border },
  posture: AgentSchedulingPosture,
  behind: string | undefined,
  working = false,
): AsyncGenerator<readonly string[], void> {
  const query = selectHeads(db, filter, border);
  const heads = working ? query.where('head.has_work', '=', HAS_SOME) : query;
  for (let after = behind; ; ) {
    const page = await headsOf(heads, after, SCANNED);
    const work = await openWorkBetween(
      db,
      page.filter(({ has_work }) => has_work === 1),
    );
    yield page
      .filter((head) => restingPosture(head, work.get(head.agent_id)).posture === posture)
      .map(({ agent_id }) => agent_id);
    after = page.at(-1)?.agent_id;
    if (page.length < SCANNED) return;
  }
}

async function countOf(query: ReturnType<typeof selectHeads>): Promise<number> {
  const { count } = await query
    .clearSelect()
    .select((eb) => eb.fn.countAll<number>().as('count'))
    .executeTakeFirstOrThrow();
  return Number(count);
}

/** Literals, so that the partial index is found. */
const HAS_SOME = sql.lit(1);
const HAS_NONE = sql.lit(0);

/** Reads an agent; null when it never accepted a turn. */
export const getAgent = (ctx: StoreContext, agentId: string): Promise<AgentView | null> =>
  read(ctx, async ({ db }) => {
    const [view] = await viewsOf(db, [agentId]);
    return view ?? null;
  });

type Heads = ExpressionBuilder<{ head: Tables['agent_state_head']; turns: Tables['turns'] }, 'head'>;

const isQueued = ({ exists, selectFrom }: Heads) =>
  exists(
    selectFrom('turns')
      .select('turns.agent_turn_id')
      .whereRef('turns.agent_id', '=', 'head.agent_id')
      .where('turns.status', '=', constant('queued')),
  );

/** Postures that the head and the queue alone decide. */
const DECIDED: ReadonlySet<AgentSchedulingPosture> = new Set(['archived', 'active_turn', 'has_queued_input']);

/** Those agents that may have the posture; of those that are `DECIDED` exactly those that have it. */
function mayHave(eb: Heads, posture: AgentSchedulingPosture) {
  const isStarted = eb('head.agent_status', '<>', constant('stopped'));
  const isOpen = eb('head.active_agent_turn_id', 'is not', null);
  const isFree = eb('head.active_agent_turn_id', 'is', null);
  const rests = eb.and([isStarted, isFree, eb.not(isQueued(eb))]);
  switch (posture) {
    case 'archived':
      return eb('head.agent_status', '=', constant('stopped'));
    case 'active_turn':
      return eb.and([isStarted, isOpen]);
    case 'has_queued_input':
      return eb.and([isStarted, isFree, isQueued(eb)]);
    case 'unknown':
      return sql<SqlBool>`1 = 0`;
    case 'idle':
      return rests;
    default:
      return eb.and([eb('head.has_work', '=', HAS_SOME), rests]);
  }
}

/** A query for what a list needs of heads. It reads the heads alone where it can: of a page of a join, PostgreSQL may join more than the page. */
function selectHeads(db: Db, { posture, agentStatus, profile, oneShot }: AgentFilter, border: Border) {
  let query = db
    .selectFrom('agent_state_head as head')
    .select(['head.agent_id', 'head.agent_status', 'head.has_work', 'head.current_work_item_id']);
  if (oneShot !== 'with') query = query.where('head.one_shot_ended', '=', sql.lit(oneShot === 'only' ? 1 : 0));
  if (!seesAll(border)) query = query.where(agentInView(border, 'head.agent_id'));
  if (agentStatus !== undefined) query = query.where('head.agent_status', '=', agentStatus);
  if (profile !== undefined)
    query = query.where(({ exists, selectFrom }) =>
      exists(
        selectFrom('agents')
          .select('agents.agent_id')
          .whereRef('agents.agent_id', '=', 'head.agent_id')
          .where('agents.profile', '=', profile),
      ),
    );
  if (posture !== undefined) query = query.where((eb) => mayHave(eb as unknown as Heads, posture));
  return query;
}

const headsOf = (query: ReturnType<typeof selectHeads>, after: string | undefined, limit: number) => {
  const ordered = query.orderBy('head.agent_id').limit(limit);
  return (after === undefined ? ordered : ordered.where('head.agent_id', '>', after)).execute();
};

/** Agents in one statement: so few that no planner finds it cheaper to read all there are. */
const AGENTS_PER_QUERY = 8;

/** Agents with these ids as readers see them, in the order of their ids. */
async function viewsOf(db: Db, ids: readonly string[]): Promise<readonly AgentView[]> {
  const views: AgentView[] = [];
  for (let from = 0; from < ids.length; from += AGENTS_PER_QUERY) {
    const some = ids.slice(from, from + AGENTS_PER_QUERY);
    const rows = await selectAgents(db)
      .where((eb) => eb('agents.agent_id', '=', eb.fn.any(eb.val(some))))
      .where((eb) => eb('head.agent_id', '=', eb.fn.any(eb.val(some))))
      .orderBy('agents.agent_id')
      .execute();
    const working = rows.filter(({ has_work }) => has_work === 1);
    const work = await openWorkOf(
      db,
      working.map(({ agent_id }) => agent_id),
    );
    for (const row of rows) views.push(agentView(row, work.get(row.agent_id)));
  }
  return views;
}

/** A query for agents with their heads, to be restricted to those that are wanted. */
export const selectAgents = (db: Db) =>
  db
    .selectFrom('agents')
    .innerJoin('agent_state_head as head', 'head.agent_id', 'agents.agent_id')
    .leftJoin('turns as active', 'active.agent_turn_id', 'head.active_agent_turn_id')
    .selectAll('head')
    .select((eb) => [
      'agents.profile',
      'agents.lifecycle',
      'agents.parent_agent_id',
      'agents.tenant',
      'agents.created_at',
      'active.no_workers_since',
      'active.worker_target',
      eb
        .selectFrom('turns')
        .select((count) => count.fn.countAll<number>().as('count'))
        .whereRef('turns.agent_id', '=', 'agents.agent_id')
        .where('turns.status', '=', constant('queued'))
        .as('queued'),
    ]);

type SelectedAgent = Awaited<ReturnType<ReturnType<typeof selectAgents>['execute']>>[number];

const agentView = (row: SelectedAgent, work: WorkOf | undefined): AgentView => ({
  agentId: row.agent_id,
  profile: row.profile,
  tenant: row.tenant,
  lifecycle: row.lifecycle,
  status: row.status,
  agentStatus: row.agent_status,
  posture: postureOfRow(row, work),
  turnEpoch: row.turn_epoch,
  activeAgentTurnId: row.active_agent_turn_id,
  acceptedTurns: row.accept_seq,
  queuedTurns: Number(row.queued),
  waitingForWorkers: missingWorkers(row),
  outputBoxId: row.output_box_id,
  waitingToolCount: row.waiting_tool_count,
  resumeDeadline: row.resume_deadline,
  updatedAt: row.updated_at,
});

/** What an agent is at, by its row and its open work. */
export const postureOfRow = (row: SelectedAgent, work?: WorkOf): AgentPosture =>
  restingPosture(row, work, { activeAgentTurnId: row.active_agent_turn_id, queuedInput: Number(row.queued) });

/** What an agent is at that has, unless it is said, no turn open and none queued. */
const restingPosture = (
  head: Pick<HeadRow, 'agent_status' | 'current_work_item_id'>,
  { items, waits }: WorkOf = { items: [], waits: [] },
  busy: Pick<PostureFacts, 'activeAgentTurnId' | 'queuedInput'> = { activeAgentTurnId: null, queuedInput: 0 },
): AgentPosture =>
  derivePosture({
    status: head.agent_status,
    ...busy,
    workItems: scheduled(items, waits, head.current_work_item_id),
    waits,
  });

/** The workers that a turn lacks, or the turn that an agent has open; null when it lacks none. */
export const missingWorkers = (row: { [Key in 'no_workers_since' | 'worker_target']: TurnRow[Key] | null }) =>
  row.no_workers_since === null || row.worker_target === null
    ? null
    : { workerTarget: row.worker_target, since: row.no_workers_since };
