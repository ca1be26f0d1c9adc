/** Edges as clients see them: enough to draw the whole call tree of a request (T26). */
import { sql } from 'kysely';
import type { EdgeView } from '../../workflows/protocol/views.ts';
import { read, type StoreContext } from './context.ts';
import type { EdgeRow } from './rows.ts';

export const listEdges = (ctx: StoreContext, agentTurnId: string): Promise<readonly EdgeView[]> =>
  read(ctx, async (db) => {
    const { rows } = await sql<EdgeRow>`
      with recursive tree (agent_turn_id) as (
        select cast(${agentTurnId} as text)
        union
        select e.target_agent_turn_id from execution_edges e join tree t on e.source_agent_turn_id = t.agent_turn_id
        where e.primitive = 'enqueue' and e.target_agent_turn_id is not null)
      select e.* from tree t join execution_edges e on e.source_agent_turn_id = t.agent_turn_id
      union
      select e.* from tree t join execution_edges e on e.target_agent_turn_id = t.agent_turn_id`.execute(db);
    return rows.sort(chronologically).map(edgeView);
  });

const RANKS = { tool_call: 1, enqueue: 2, join: 3, report: 4 } as const;

/** Of what one millisecond made: a request before its calls, a call before the turn it made, results after both, the turn's own end last. */
function rankOf({ primitive, call_id: callId }: EdgeRow): number {
  if (callId !== null) return RANKS[primitive];
  return primitive === 'enqueue' ? 0 : RANKS[primitive] + 1;
}

const chronologically = (a: EdgeRow, b: EdgeRow): number =>
  a.created_at - b.created_at ||
  rankOf(a) - rankOf(b) ||
  a.phase.localeCompare(b.phase) ||
  (a.source_step_index ?? 0) - (b.source_step_index ?? 0) ||
  (a.call_index ?? 0) - (b.call_index ?? 0);

const edgeView = (row: EdgeRow): EdgeView => ({
  primitive: row.primitive,
  phase: row.phase,
  kind: row.kind,
  sourceAgentId: row.source_agent_id,
  sourceAgentTurnId: row.source_agent_turn_id,
  sourceStepIndex: row.source_step_index,
  targetAgentId: row.target_agent_id,
  targetAgentTurnId: row.target_agent_turn_id,
  callId: row.call_id,
  correlationId: row.correlation_id,
  depth: row.depth,
  traceId: row.trace_id,
  createdAt: row.created_at,
});
