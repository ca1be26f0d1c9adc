/**
 * The call tree of a request, made of its edges and nothing else (T26): what was enqueued, which calls each turn made, what was
 * reported back, and the turns it enqueued in turn.
 *
 * Invariant: every edge is in the tree, as a part of a turn or a call where its partner is there, by itself where it is not.
 */
import type { EdgeView } from '../../workflows/contract/views.ts';
import { duration, time } from './format.ts';

/** A call in the tree, with the turn that it delegated. */
export interface CallNode {
  readonly node: 'call';
  readonly callId: string | null;
  readonly tool: string;
  readonly stepIndex: number | null;
  /** `answered` with whatever result; edges do not say more. */
  readonly status: 'open' | 'answered' | 'timeout';
  readonly startedAt: number;
  readonly endedAt: number | null;
  /** The turn that a delegation made. */
  readonly children: readonly TurnNode[];
}

/** A turn in the tree, with its calls in their order. */
export interface TurnNode {
  readonly node: 'turn';
  readonly agentTurnId: string;
  readonly agentId: string | null;
  /** Of the turn that enqueued it. */
  readonly stepIndex: number | null;
  /** How it ended, `open` until then. */
  readonly status: string;
  readonly depth: number;
  readonly correlationId: string | null;
  readonly traceId: string | null;
  readonly startedAt: number;
  readonly endedAt: number | null;
  readonly children: readonly TreeNode[];
}

/** An edge whose partner is missing. */
export interface LooseNode {
  readonly node: 'loose';
  readonly primitive: EdgeView['primitive'];
  readonly phase: EdgeView['phase'];
  readonly kind: string | null;
  readonly startedAt: number;
}

/** A node of the tree. */
export type TreeNode = CallNode | TurnNode | LooseNode;

/** Null when no edge enqueues the turn. `edges` oldest first. */
export function callTree(agentTurnId: string, edges: readonly EdgeView[]): TurnNode | null {
  const root = edges.find((edge) => edge.primitive === 'enqueue' && edge.targetAgentTurnId === agentTurnId);
  return root ? new TreeBuilder(edges).turn(root) : null;
}

class TreeBuilder {
  readonly #edges: readonly EdgeView[];
  readonly #used = new Set<EdgeView>();

  constructor(edges: readonly EdgeView[]) {
    this.#edges = edges;
  }

  turn(enqueued: EdgeView): TurnNode {
    this.#used.add(enqueued);
    const agentTurnId = enqueued.targetAgentTurnId ?? '';
    const ended = this.#take((edge) => isReport(edge) && !edge.callId && edge.sourceAgentTurnId === agentTurnId);
    const children: TreeNode[] = [];
    for (const edge of this.#edges) {
      if (this.#used.has(edge) || !touches(edge, agentTurnId)) continue;
      // Belongs to the turn on its other end, which comes later or is not asked for.
      if (edge.primitive === 'enqueue' && edge.sourceAgentTurnId !== agentTurnId) continue;
      children.push(this.#child(edge));
    }
    return {
      node: 'turn',
      agentTurnId,
      agentId: enqueued.targetAgentId,
      stepIndex: enqueued.sourceStepIndex,
      status: ended?.kind ?? 'open',
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
    const ofCall = (other: EdgeView) => callId !== null && other.callId === callId;
    const ended = this.#take((other) => isReport(other) && ofCall(other));
    for (const end of ['request', 'response'])
      this.#take((other) => isJoin(other) && other.phase === end && ofCall(other));
    const made = this.#edges.find((other) => other.primitive === 'enqueue' && ofCall(other) && !this.#used.has(other));
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

  #take(wanted: (edge: EdgeView) => boolean): EdgeView | undefined {
    const edge = this.#edges.find((candidate) => !this.#used.has(candidate) && wanted(candidate));
    if (edge) this.#used.add(edge);
    return edge;
  }
}

const isReport = ({ primitive, phase }: EdgeView): boolean => primitive === 'report' && phase === 'response';

const isJoin = ({ primitive }: EdgeView): boolean => primitive === 'join';

const touches = (edge: EdgeView, agentTurnId: string): boolean =>
  edge.sourceAgentTurnId === agentTurnId || edge.targetAgentTurnId === agentTurnId;

/** The tree as lines with branches, its root first. */
export function treeLines(root: TurnNode): string[] {
  const lines = [`${label(root)}, accepted ${time(root.startedAt)}`];
  const draw = (children: readonly TreeNode[], margin: string): void => {
    for (const [index, child] of children.entries()) {
      const last = index === children.length - 1;
      const at = duration(child.startedAt - root.startedAt);
      lines.push(`${margin}${last ? '└─ ' : '├─ '}+${at}  ${label(child)}`);
      if (child.node !== 'loose') draw(child.children, `${margin}${last ? '   ' : '│  '}`);
    }
  };
  draw(root.children, '');
  return lines;
}

function label(node: TreeNode): string {
  switch (node.node) {
    case 'turn':
      return `${stepOf(node)}turn ${node.agentTurnId} of ${node.agentId ?? '?'}: ${outcome(node)}`;
    case 'call':
      return `${stepOf(node)}${node.tool}: ${outcome(node)}`;
    case 'loose':
      return `${node.primitive}/${node.phase}${node.kind === null ? '' : ` (${node.kind})`} without a partner`;
  }
}

const stepOf = ({ stepIndex }: CallNode | TurnNode): string => (stepIndex === null ? '' : `step ${stepIndex} `);

const outcome = ({ status, startedAt, endedAt }: CallNode | TurnNode): string =>
  endedAt === null ? status : `${status} after ${duration(endedAt - startedAt)}`;
