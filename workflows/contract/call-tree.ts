/** The call tree of a request, as readers see it: each call and turn below what made it. Times are in epoch ms by the store's clock. */
import type { EdgeView } from './views.ts';

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
  /** How it ended, `open` until then; `not_read` where the tree is too large: the tree of this turn has what is below it. */
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
