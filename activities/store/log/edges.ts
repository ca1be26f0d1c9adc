/** Edges as clients see them: enough to draw the whole call tree of a request (T26). */
import type { EdgeView } from '../../../workflows/contract/views.ts';
import { ofFewLengths, read, type StoreContext } from '../context.ts';
import type { EdgeRow } from '../schema/log-rows.ts';
import type { Db } from '../schema/rows.ts';

/** Turns in one statement. */
const TURNS_PER_QUERY = 512;

/**
 * Lists the edges of a turn and of those it enqueued. Level by level: a planner may read all edges there are for a recursion in one
 * statement.
 */
export const listEdges = (ctx: StoreContext, agentTurnId: string): Promise<readonly EdgeView[]> =>
  read(ctx, async ({ db }) => {
    const edges = new Map<string, EdgeRow>();
    const turns = new Set([agentTurnId]);
    for (let level = [agentTurnId]; level.length > 0; ) {
      const caused = await edgesOf(db, 'source_agent_turn_id', level);
      for (const edge of [...caused, ...(await edgesOf(db, 'target_agent_turn_id', level))])
        edges.set(edge.edge_key, edge);
      const enqueued = caused.flatMap((edge) =>
        edge.primitive === 'enqueue' ? (edge.target_agent_turn_id ?? []) : [],
      );
      level = [...new Set(enqueued)].filter((id) => !turns.has(id));
      for (const id of level) turns.add(id);
    }
    return [...edges.values()].sort(chronologically).map(edgeView);
  });

/** The edges that begin, or end, at these turns. */
async function edgesOf(
  db: Db,
  column: 'source_agent_turn_id' | 'target_agent_turn_id',
  ids: readonly string[],
): Promise<EdgeRow[]> {
  const found: EdgeRow[] = [];
  for (let from = 0; from < ids.length; from += TURNS_PER_QUERY) {
    const some = ofFewLengths(ids.slice(from, from + TURNS_PER_QUERY));
    for (const edge of await db.selectFrom('execution_edges').selectAll().where(column, 'in', some).execute())
      found.push(edge);
  }
  return found;
}

const RANKS = { tool_call: 1, enqueue: 2, join: 3, report: 4 } as const;

/**
 * The order of edges that one millisecond made: a request before its calls, a call before the turn it made, results after both, the turn's
 * own end last.
 */
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
