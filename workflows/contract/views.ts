/** What readers get: turns, agents, edges and events as they stand in the store. Times are in epoch ms by the store's clock. */

import type { AgentPosture, AgentSchedulingPosture } from '../agent-state/posture.ts';
import type { AgentStatus } from '../agent-state/status.ts';
import type { ChatIdentity } from '../chat/terminal.ts';
import type { ResultStatus, ToolError, ToolResultContent } from '../protocol/cards.ts';
import type { JsonValue } from '../protocol/json.ts';
import type { Fields } from '../protocol/output.ts';
import type { AgentLifecycle, Deliverable, EngineUsage, HeadStatus, TurnStatus, Usage } from '../protocol/turn.ts';
import type { Deferral } from '../waiting/decisions.ts';
import type { Border } from './border.ts';
import type { AgentEvent } from './events.ts';
import type { ProviderOutage } from './steps.ts';
import type { TranscriptEntry, TranscriptPage } from './transcript.ts';

/** A turn with its steps and calls; `Output` is what its agent delivers, where that is known. */
export interface TurnView<Output extends object = Fields> {
  readonly agentTurnId: string;
  readonly agentId: string;
  readonly status: TurnStatus;
  /** Null while the turn has not ended, and when it succeeded. */
  readonly errorCode: string | null;
  /** Why the turn ended as it did; null when its status says all there is. */
  readonly reason: string | null;
  /** What can be done about it; null where the catalogue does not know the code. */
  readonly cure: string | null;
  /** The epoch of its lease; null for a turn that was never leased. */
  readonly turnEpoch: number | null;
  /** The profile that its request names, or else that of its agent. */
  readonly profile: string;
  readonly instruction: string;
  /** The chat whose messages made it; null for all other turns (C2). */
  readonly chat: ChatIdentity | null;
  /** Null until the turn has ended. */
  readonly deliverable: Deliverable<Output> | null;
  /** Null until the turn has ended. */
  readonly deliverableCardId: string | null;
  /** Null while the turn is queued. */
  readonly outputBoxId: string | null;
  readonly usage: Usage;
  /** Sum over the steps; null before the first step, and as soon as the cost of one is unknown. */
  readonly cost: number | null;
  /** What the engine spent on it; null unless the turn committed its end itself. */
  readonly engine: EngineUsage | null;
  /** Steps that are committed. */
  readonly stepCount: number;
  readonly steps: readonly StepView[];
  readonly waiting: readonly WaitingView[];
  /** That nobody serves its worker target, as the supervisor found; null while the turn has workers, or needs none (T12). */
  readonly waitingForWorkers: MissingWorkers | null;
  /** That the provider fails its model call, which is tried again (W14); null while the turn does not wait for its provider. */
  readonly waitingForProvider: ProviderOutage | null;
  /** The turn and call that delegated it; null for a request from outside. */
  readonly parent: ParentView | null;
  /** How many delegations lead to it from a request from outside; 0 for such a request. */
  readonly depth: number;
  /** Its place among all turns that the agent ever accepted, from 1. */
  readonly acceptSeq: number;
  readonly acceptedAt: number;
  /** Null while it is queued. */
  readonly leasedAt: number | null;
  /** When its first step was opened; null before. */
  readonly startedAt: number | null;
  /** Null until the turn has ended. */
  readonly endedAt: number | null;
}

/** A worker target that nobody serves, and since when, epoch ms. */
export interface MissingWorkers {
  readonly workerTarget: string;
  readonly since: number;
}

/** The turn that caused another. */
export interface ParentView {
  readonly agentId: string;
  readonly agentTurnId: string;
  /** The call that delegated the turn; null for a turn that was a message to its parent and outlived it (T22). */
  readonly callId: string | null;
}

/** A call, or a question about a budget, that a turn waits for. */
export interface WaitingView {
  readonly callId: string;
  /** `join`: for a delegated turn; `approval`: for a person (K7). */
  readonly kind: 'tool' | 'join' | 'approval';
  readonly tool: string;
  readonly deadline: number;
  /** Who may answer the question; empty for a call, and where anybody may. */
  readonly approvers: readonly string[];
  /** The report that came and could not be applied yet; null when there is none (T18). */
  readonly deferred: Deferral | null;
}

/** A step; what comes with the model's answer is null until the step is committed. */
export interface StepView {
  readonly stepIndex: number;
  readonly model: string | null;
  readonly usage: Usage | null;
  /** Null also when the price is not known. */
  readonly cost: number | null;
  readonly latencyMs: number | null;
  /** Null also when nothing was streamed. */
  readonly firstTokenMs: number | null;
  readonly calls: readonly CallView[];
}

/** A call and what became of it. */
export interface CallView {
  readonly callId: string;
  readonly tool: string;
  /** Null where the view has a megabyte of arguments without them: the transcript has them all. */
  readonly arguments: JsonValue;
  /** What an approver changed of the call, or said; null when it ran as proposed. */
  readonly approval: ToolResultContent['approval'] | null;
  /** `open`: it has no result. */
  readonly status: ResultStatus | 'waiting' | 'open';
  /** How far its tool said last that it is; null when it said nothing, and when the call has its result. */
  readonly progress: JsonValue | null;
  readonly error: ToolError | null;
  /** How long its tool ran; null while it has no result, and for a result that no tool of ours brought. */
  readonly durationMs: number | null;
}

/** An agent: its head, and what the roster says of it. */
export interface AgentView {
  readonly agentId: string;
  /** The profile of its turns where a request names none: that of its first request. */
  readonly profile: string;
  /** Whose it is; null for one of the operators. */
  readonly tenant: string | null;
  /** What an operator wants of the agent; a stopped one refuses requests and keeps its queue (T10). */
  readonly lifecycle: AgentLifecycle;
  /** How far its open turn is; `idle` without one. */
  readonly status: HeadStatus;
  /** What it does (A1). */
  readonly agentStatus: AgentStatus;
  /** What it is to those who look at it, and why (A2). */
  readonly posture: AgentPosture;
  readonly turnEpoch: number;
  /** The open turn; null when the agent is idle. */
  readonly activeAgentTurnId: string | null;
  /** How many turns it ever accepted, ended ones included. */
  readonly acceptedTurns: number;
  readonly queuedTurns: number;
  /** That nobody serves the worker target of its active turn; null otherwise (T12). */
  readonly waitingForWorkers: MissingWorkers | null;
  /** The box of what it remembers; null before its first turn. */
  readonly outputBoxId: string | null;
  /** Calls and questions that its open turn waits for. */
  readonly waitingToolCount: number;
  /** The nearest deadline of them; null when none waits. */
  readonly resumeDeadline: number | null;
  /** When something was last written of its head or under its lease; a request that is queued behind an open turn does not count. */
  readonly updatedAt: number;
}

/** Who caused what, as it was written with the fact itself; the call tree of a request is drawn from these alone (T26). */
export interface EdgeView {
  readonly primitive: 'enqueue' | 'tool_call' | 'report' | 'join';
  readonly phase: 'request' | 'response';
  /** The tool of a call or a join; what a report says: the status of a turn, `tool_result` or `timeout` of a call; null for an enqueue. */
  readonly kind: string | null;
  readonly sourceAgentId: string | null;
  readonly sourceAgentTurnId: string | null;
  readonly sourceStepIndex: number | null;
  readonly targetAgentId: string | null;
  readonly targetAgentTurnId: string | null;
  /** The call that a `tool_call` makes, a `report` answers, a `join` waits for or an `enqueue` comes from; null where there is none. */
  readonly callId: string | null;
  readonly correlationId: string | null;
  readonly depth: number;
  readonly traceId: string | null;
  readonly createdAt: number;
  /** Of an enqueue: the other edges of the turn that it made are left out, because the list is long enough without them. */
  readonly unread?: true;
}

/** How far the edges of a tree are read: no further turn beyond so many edges, and none that so many turns lead to. */
export interface EdgeBounds {
  readonly edges: number;
  readonly levels: number;
}

/** One broken part of the promise, found in the rows of the store. */
export interface Violation {
  /** The name of the check that found it. */
  readonly check: string;
  /** Null where the finding is of no agent. */
  readonly agentId: string | null;
  /** Null where the finding is of no turn. */
  readonly agentTurnId: string | null;
  readonly detail: string;
}

/** Which turns of an agent are listed. */
export interface TurnFilter {
  readonly status?: TurnStatus;
  /** Lists turns whose `acceptSeq` is above this one. */
  readonly after?: number;
  /** The most turns to list; 100 when left out. */
  readonly limit?: number;
  /** Lists so many of the turns that were accepted last, instead of `limit` from the oldest on. */
  readonly last?: number;
}

/** Which agents are looked for. */
export interface AgentFilter {
  readonly posture?: AgentSchedulingPosture;
  readonly agentStatus?: AgentStatus;
  /** The profile of its requests that name none. */
  readonly profile?: string;
  /**
   * Whether one-shot agents count, those of `run`, whose turn has ended and that have nothing else: `with` the others, or they `only`. They
   * are left out where nothing is said.
   */
  readonly oneShot?: 'with' | 'only';
}

/** Which agents are listed. */
export interface AgentPage extends AgentFilter {
  /** Lists agents behind this id. */
  readonly after?: string;
  /** The most agents to list; 1,000 when left out. */
  readonly limit?: number;
}

/** Which events are read. */
export interface EventFilter {
  readonly agentId: string;
  /** Reads only the events of this turn of the agent. */
  readonly agentTurnId?: string;
  /** Reads events behind this place; 0 when left out. */
  readonly afterSeq?: number;
  /** The most events to read; 1,000 when left out. */
  readonly limit?: number;
}

/** Who a store is. */
export interface StoreIdentity {
  /** Given when the store was made; a copy of the store has the same. */
  readonly storeId: string;
  /** Where this process has found it, for people: a path, or a URL without its password. */
  readonly where: string;
}

/** The read model: nothing of it writes or takes a lock. */
export interface ReadStore {
  /** Reads who the store is. */
  identity(): Promise<StoreIdentity>;
  /** Reads a turn with its steps and calls; null when it was never accepted. */
  getTurn(agentTurnId: string): Promise<TurnView | null>;
  /**
   * Reads a page of what was asked, said, called, answered and delivered in a turn, in order, with what the model does not see any more; null
   * when the turn was never accepted.
   */
  readTranscript(agentTurnId: string, page?: TranscriptPage): Promise<readonly TranscriptEntry[] | null>;
  /** Reads the status of a turn, which is cheaper than `getTurn`; null when the turn was never accepted. */
  getTurnStatus(agentTurnId: string): Promise<TurnStatus | null>;
  /** Lists turns of an agent, oldest first; none for an agent that is not there. */
  listTurns(agentId: string, filter?: TurnFilter): Promise<readonly TurnView[]>;
  /** Reads an agent; null when it never accepted a turn. */
  getAgent(agentId: string): Promise<AgentView | null>;
  /** Lists agents by id. */
  listAgents(page?: AgentPage, border?: Border): Promise<readonly AgentView[]>;
  /** Counts agents, exactly. */
  countAgents(filter?: AgentFilter, border?: Border): Promise<number>;
  /** Lists the edges of a turn and, recursively, of the turns it enqueued, oldest first; calls of one step in their order. */
  listEdges(agentTurnId: string, bounds?: EdgeBounds): Promise<readonly EdgeView[]>;
  /** Reads events of an agent or of one of its turns, oldest first. */
  readEvents(filter: EventFilter): Promise<readonly AgentEvent[]>;
  /** Checks the rows of the store and returns what breaks the promise, at most `limit` (1,000) findings; empty when all is well. */
  violations(limit?: number): Promise<readonly Violation[]>;
  /**
   * Checks the rows of the store and yields all that breaks the promise, a page at a time: memory stays bounded whatever the size of the
   * store, and however much of it is broken.
   */
  violationPages(): AsyncIterable<readonly Violation[]>;
}
