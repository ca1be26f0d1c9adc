/**
 * The call tree of a request, made of its edges and nothing else (T26): what was enqueued, which calls each turn made, what was
 * reported back, and the turns it enqueued in turn.
 *
 * Invariants
 * 1. Every edge is in the tree once, as a part of a turn or a call where its partner is there, by itself where it is not: a circle ends.
 * 2. The tree of a request is as large as the request was busy, and is read as far as `MOST_EDGES` and `MOST_LEVELS` go, the nearest turns first.
 */
import type { TreeNode, TurnNode } from '../workflows/contract/call-tree.ts';
import type { EdgeView, ReadStore } from '../workflows/contract/views.ts';

/** Edges beyond which no further turn is read. */
const MOST_EDGES = 10_000;
/** Turns that enqueued one another: delegations are not as deep, but messages that outlive their turns may be. */
const MOST_LEVELS = 100;

/** The tree of a turn; null when the turn was never accepted. */
export const readCallTree = async (
  store: Pick<ReadStore, 'listEdges'>,
  agentTurnId: string,
): Promise<TurnNode | null> =>
  callTree(agentTurnId, await store.listEdges(agentTurnId, { edges: MOST_EDGES, levels: MOST_LEVELS }));

/** Null when no edge enqueues the turn. `edges` oldest first. */
export function callTree(agentTurnId: string, edges: readonly EdgeView[]): TurnNode | null {
  const root = edges.find((edge) => edge.primitive === 'enqueue' && edge.targetAgentTurnId === agentTurnId);
  return root ? new TreeBuilder(edges).turn(root) : null;
}

class TreeBuilder {
  readonly #ofTurn = new Map<string | null, EdgeView[]>();
  readonly #ofCall = new Map<string | null, EdgeView[]>();
  readonly #used = new Set<EdgeView>();

  constructor(edges: readonly EdgeView[]) {
    const note = (found: Map<string | null, EdgeView[]>, id: string | null, edge: EdgeView) => {
      const known = found.get(id);
      if (known) known.push(edge);
      else found.set(id, [edge]);
    };
    for (const edge of edges) {
      for (const id of new Set([edge.sourceAgentTurnId, edge.targetAgentTurnId])) note(this.#ofTurn, id, edge);
      if (edge.callId !== null) note(this.#ofCall, edge.callId, edge);
    }
  }

  turn(enqueued: EdgeView): TurnNode {
    this.#used.add(enqueued);
    const agentTurnId = enqueued.targetAgentTurnId ?? '';
    const edges = this.#ofTurn.get(agentTurnId) ?? [];
    const ended = this.#take(edges, (edge) => isReport(edge) && !edge.callId && edge.sourceAgentTurnId === agentTurnId);
    const children: TreeNode[] = [];
    for (const edge of edges) {
      if (this.#used.has(edge)) continue;
      // Belongs to the turn on its other end, which comes later or is not asked for.
      if (edge.primitive === 'enqueue' && edge.sourceAgentTurnId !== agentTurnId) continue;
      children.push(this.#child(edge));
    }
    return {
      node: 'turn',
      agentTurnId,
      agentId: enqueued.targetAgentId,
      stepIndex: enqueued.sourceStepIndex,
      status: enqueued.unread ? 'not_read' : (ended?.kind ?? 'open'),
      depth: enqueued.depth,
      correlationId: enqueued.correlationId,
      traceId: enqueued.traceId,
      startedAt: enqueued.createdAt,
      endedAt: ended?.createdAt ?? null,
      children,
    };
  }

  #child(edge: EdgeView): TreeNode {
    if (edge.primitive === 'enqueue') return this.turn(edge);
    this.#used.add(edge);
    const { primitive, phase, kind, callId, createdAt } = edge;
    if (primitive !== 'tool_call') return { node: 'loose', primitive, phase, kind, startedAt: createdAt };
    const edges = callId === null ? [] : (this.#ofCall.get(callId) ?? []);
    const ended = this.#take(edges, isReport);
    for (const end of ['request', 'response']) this.#take(edges, (other) => isJoin(other) && other.phase === end);
    const made = edges.find((other) => other.primitive === 'enqueue' && !this.#used.has(other));
    const status = ended ? (ended.kind === 'timeout' ? 'timeout' : 'answered') : 'open';
    return {
      node: 'call',
      callId,
      tool: kind ?? '?',
      stepIndex: edge.sourceStepIndex,
      status,
      startedAt: createdAt,
      endedAt: ended?.createdAt ?? null,
      children: made ? [this.turn(made)] : [],
    };
  }

  #take(edges: readonly EdgeView[], wanted: (edge: EdgeView) => boolean): EdgeView | undefined {
    const edge = edges.find((candidate) => !this.#used.has(candidate) && wanted(candidate));
    if (edge) this.#used.add(edge);
    return edge;
  }
}

const isReport = ({ primitive, phase }: EdgeView): boolean => primitive === 'report' && phase === 'response';

const isJoin = ({ primitive }: EdgeView): boolean => primitive === 'join';
