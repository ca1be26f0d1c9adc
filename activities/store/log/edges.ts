/** Edges as clients see them: enough to draw the whole call tree of a request (T26). */
import type { EdgeBounds, EdgeView } from '../../../workflows/contract/views.ts';
import { read, type StoreContext } from '../context.ts';
import type { EdgeRow } from '../schema/log-rows.ts';
import type { Db } from '../schema/rows.ts';

/** Turns in one statement. */
const TURNS_PER_QUERY = 512;
/** Turns in one statement where a bound may come after each. */
const FEW_TURNS = 16;

/**
 * Lists the edges of a turn and of those it enqueued. Level by level: a planner may read all edges there are for a recursion in one
 * statement.
 */
export const listEdges = (ctx: StoreContext, agentTurnId: string, bounds?: EdgeBounds): Promise<readonly EdgeView[]> =>
  read(ctx, async ({ db }) => {
    const { edges: most, levels } = bounds ?? { edges: Number.POSITIVE_INFINITY, levels: Number.POSITIVE_INFINITY };
    const atOnce = bounds ? FEW_TURNS : TURNS_PER_QUERY;
    const edges = new Map<string, EdgeRow>();
    const known = new Set([agentTurnId]);
    let level = [agentTurnId];
    for (let depth = 0; level.length > 0 && depth < levels && edges.size < most; depth += 1) {
      const next: string[] = [];
      let read = 0;
      for (; read < level.length && edges.size < most; read += atOnce) {
        for (const edge of await edgesOf(db, level.slice(read, read + atOnce))) {
          edges.set(edge.edge_key, edge);
          const id = madeTurn(edge);
          if (id === null || known.has(id)) continue;
          known.add(id);
          next.push(id);
        }
      }
      level = [...level.slice(read), ...next];
    }
    const unread = new Set(level);
    return [...edges.values()].sort(chronologically).map((row) => edgeView(row, unread));
  });

/** The turn that an edge enqueues. */
const madeTurn = ({ primitive, target_agent_turn_id: id }: EdgeRow): string | null =>
  primitive === 'enqueue' ? id : null;

/** The edges that end, or begin, at these turns, the oldest first: in one millisecond a turn comes before those it enqueued. */
async function edgesOf(db: Db, ids: readonly string[]): Promise<EdgeRow[]> {
  const at = (column: 'source_agent_turn_id' | 'target_agent_turn_id') =>
    db
      .selectFrom('execution_edges')
      .selectAll()
      .where((eb) => eb(column, '=', eb.fn.any(eb.val(ids))))
      .execute();
  return [...(await at('target_agent_turn_id')), ...(await at('source_agent_turn_id'))].sort(chronologically);
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

const edgeView = (row: EdgeRow, unread: ReadonlySet<string>): EdgeView => ({
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
  ...(unread.has(madeTurn(row) ?? '') ? { unread: true as const } : {}),
});
