/** What readers get: turns, agents and edges as they stand in the store. Times in epoch ms. */

import type { ResultStatus, ToolError, ToolResultContent } from '../protocol/cards.ts';
import type { JsonValue } from '../protocol/json.ts';
import type { AgentLifecycle, Deliverable, EngineUsage, HeadStatus, TurnStatus, Usage } from '../protocol/turn.ts';
import type { Deferral } from '../waiting/decisions.ts';

export interface TurnView {
  readonly agentTurnId: string;
  readonly agentId: string;
  readonly status: TurnStatus;
  readonly errorCode: string | null;
  readonly reason: string | null;
  readonly turnEpoch: number | null;
  readonly profile: string | null;
  readonly instruction: string;
  readonly deliverable: Deliverable | null;
  readonly deliverableCardId: string | null;
  readonly outputBoxId: string | null;
  readonly usage: Usage;
  /** Sum over the steps; null as soon as one step's cost is unknown. */
  readonly cost: number | null;
  /** Null until the turn committed its end itself. */
  readonly engine: EngineUsage | null;
  readonly stepCount: number;
  readonly steps: readonly StepView[];
  readonly waiting: readonly WaitingView[];
  /** The worker target that nobody serves at present; null while the turn has workers, or needs none (T12). */
  readonly waitingForWorkers: string | null;
  /** The turn and call that delegated it; null for a request from outside. */
  readonly parent: ParentView | null;
  readonly depth: number;
  readonly acceptSeq: number;
  readonly acceptedAt: number;
  readonly leasedAt: number | null;
  readonly startedAt: number | null;
  readonly endedAt: number | null;
}

export interface ParentView {
  readonly agentId: string;
  readonly agentTurnId: string;
  /** Null for a message to its parent that outlived it. */
  readonly callId: string | null;
}

export interface WaitingView {
  readonly callId: string;
  /** `join`: for a delegated turn; `approval`: for a person (K7). */
  readonly kind: 'tool' | 'join' | 'approval';
  readonly tool: string;
  readonly deadline: number;
  /** A report came that could not be applied yet (T18). */
  readonly deferred: Deferral | null;
}

export interface StepView {
  readonly stepIndex: number;
  readonly model: string | null;
  readonly usage: Usage | null;
  readonly cost: number | null;
  readonly latencyMs: number | null;
  readonly firstTokenMs: number | null;
  readonly calls: readonly CallView[];
}

export interface CallView {
  readonly callId: string;
  readonly tool: string;
  readonly arguments: JsonValue;
  /** What an approver changed of it, or said; null when it ran as proposed. */
  readonly approval: ToolResultContent['approval'] | null;
  readonly status: ResultStatus | 'waiting' | 'open';
  readonly error: ToolError | null;
  readonly durationMs: number | null;
}

export interface AgentView {
  readonly agentId: string;
  readonly profile: string | null;
  /** What an operator wants of it; a stopped agent refuses requests and keeps its queue (T10). */
  readonly lifecycle: AgentLifecycle;
  readonly status: HeadStatus;
  readonly turnEpoch: number;
  readonly activeAgentTurnId: string | null;
  /** All it ever accepted, ended ones included. */
  readonly acceptedTurns: number;
  readonly queuedTurns: number;
  /** The worker target that its active turn waits for and nobody serves; null otherwise (T12). */
  readonly waitingForWorkers: string | null;
  /** What it remembers; null before its first turn. */
  readonly outputBoxId: string | null;
  readonly waitingToolCount: number;
  readonly resumeDeadline: number | null;
  readonly updatedAt: number;
}

/** Who caused what, as it was written with the fact itself; the call tree of a request is drawn from these alone (T26). */
export interface EdgeView {
  readonly primitive: 'enqueue' | 'tool_call' | 'report' | 'join';
  readonly phase: 'request' | 'response';
  /** The tool of a call; what a report says: the status of a turn, `tool_result` or `timeout` of a call. */
  readonly kind: string | null;
  readonly sourceAgentId: string | null;
  readonly sourceAgentTurnId: string | null;
  readonly sourceStepIndex: number | null;
  readonly targetAgentId: string | null;
  readonly targetAgentTurnId: string | null;
  /** The call that a `tool_call` makes or a `report` answers. */
  readonly callId: string | null;
  readonly correlationId: string | null;
  readonly depth: number;
  readonly traceId: string | null;
  readonly createdAt: number;
}
