/** Agents as readers see them. */
import type { AgentPage, AgentView } from '../../../workflows/contract/views.ts';
import { ofFewLengths, read, type StoreContext } from '../context.ts';
import { constant, type Db } from '../schema/rows.ts';
import type { TurnRow } from '../schema/turn-row.ts';
import { beginsWith } from './agent-prefixes.ts';

/** Lists agents by id. */
export const listAgents = (
  ctx: StoreContext,
  { after, limit = 1_000, agentPrefixes }: AgentPage = {},
): Promise<readonly AgentView[]> =>
  read(ctx, async ({ db }) => {
    // The ids first: of a page of a join, PostgreSQL may join more than the page.
    let query = db.selectFrom('agents').select('agent_id').orderBy('agent_id').limit(limit);
    if (agentPrefixes) query = query.where(beginsWith('agents.agent_id', agentPrefixes));
    const page = await (after === undefined ? query : query.where('agent_id', '>', after)).execute();
    const views: AgentView[] = [];
    for (let from = 0; from < page.length; from += AGENTS_PER_QUERY) {
      const ids = ofFewLengths(page.slice(from, from + AGENTS_PER_QUERY).map((row) => row.agent_id));
      const rows = await selectAgents(db)
        .where('agents.agent_id', 'in', ids)
        .where('head.agent_id', 'in', ids)
        .orderBy('agents.agent_id')
        .execute();
      for (const row of rows) views.push(agentView(row));
    }
    return views;
  });

/** Reads an agent; null when it never accepted a turn. */
export const getAgent = (ctx: StoreContext, agentId: string): Promise<AgentView | null> =>
  read(ctx, async ({ db }) => {
    const row = await selectAgents(db).where('agents.agent_id', '=', agentId).executeTakeFirst();
    return row ? agentView(row) : null;
  });

/** Agents in one statement: so few that no planner finds it cheaper to read all there are. */
const AGENTS_PER_QUERY = 8;

/** A query for agents with their heads, to be restricted to those that are wanted. */
const selectAgents = (db: Db) =>
  db
    .selectFrom('agents')
    .innerJoin('agent_state_head as head', 'head.agent_id', 'agents.agent_id')
    .leftJoin('turns as active', 'active.agent_turn_id', 'head.active_agent_turn_id')
    .selectAll('head')
    .select((eb) => [
      'agents.profile',
      'agents.lifecycle',
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

const agentView = (row: SelectedAgent): AgentView => ({
  agentId: row.agent_id,
  profile: row.profile,
  lifecycle: row.lifecycle,
  status: row.status,
  agentStatus: row.agent_status,
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

/** The workers that a turn lacks, or the turn that an agent has open; null when it lacks none. */
export const missingWorkers = (row: { [Key in 'no_workers_since' | 'worker_target']: TurnRow[Key] | null }) =>
  row.no_workers_since === null || row.worker_target === null
    ? null
    : { workerTarget: row.worker_target, since: row.no_workers_since };
