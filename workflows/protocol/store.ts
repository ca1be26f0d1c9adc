/**
 * The store contract: what must hold whatever the backend (SQLite, PostgreSQL).
 *
 * Invariants
 * 1. Each method is one transaction, idempotent by what it is keyed on; a second run returns the recorded outcome (T29).
 * 2. A method that takes a `Fence` writes nothing unless the head still carries that lease: it throws CodedError('stale_epoch') (T5).
 * 3. Every event is inserted in the transaction whose fact it states.
 */

import type { DeliverableSource } from '../kernel/actions.ts';
import type { BoxExtent, KernelConfig, SettledCall } from '../kernel/state.ts';
import type { Deferral } from '../waiting/decisions.ts';
import type { Card, CardContents, CardType, ResultStatus, ToolError, ToolResultContent } from './cards.ts';
import type { SteerAck, StopAck } from './control.ts';
import type { Delegation, DelegationOutcome, DelegationReport } from './delegation.ts';
import type { AcceptOutcome, EnqueueRequest, ResultFields } from './enqueue.ts';
import type { AgentEvent, DroppedEvent } from './events.ts';
import type { JsonValue } from './json.ts';
import type { ProfileSnapshot, Timeouts } from './profile.ts';
import type { ReportAck, ToolResultReport } from './tool-result.ts';
import type {
  AgentLifecycle,
  Deliverable,
  EngineUsage,
  Fence,
  HeadStatus,
  Termination,
  TurnStatus,
  Usage,
} from './turn.ts';

export interface AcceptInput {
  readonly agentId: string;
  readonly request: EnqueueRequest;
  /** Chosen by the caller so that its own retry converges; ignored when the request has an idempotency key. */
  readonly agentTurnId?: string;
}

/** Everything the mailbox needs to start a turn: ids, sizes and small decisions, never content. */
export interface Lease extends Fence {
  readonly profileName: string;
  readonly profileHash: string;
  readonly workerTarget: string;
  readonly kernel: KernelConfig;
  readonly timeouts: Timeouts;
  readonly outputBoxId: string;
  readonly memory: readonly BoxExtent[];
  readonly instructionSeq: number;
  readonly instructionTokens: number;
  /** First words of the instruction, for the Web UI. */
  readonly title: string;
}

export type LeaseOutcome = (
  | { readonly kind: 'leased'; readonly lease: Lease }
  /** The head is held by a turn that already started; the mailbox must take it over. */
  | { readonly kind: 'held'; readonly fence: Fence }
  /** `close` for an agent that was made for a delegation: its mailbox ends, and starts anew should anybody ring again. */
  | { readonly kind: 'empty'; readonly close?: true }
) & {
  /** Ended turns of the agent whose waiting parents have not been told yet; absent when there are none (T30). */
  readonly reports?: readonly string[];
};

export interface SettleInput extends Fence {
  /** How the turn's workflow closed; used only when the turn did not commit its own end. */
  readonly closed: Termination;
}

export interface TurnEnd {
  readonly agentTurnId: string;
  readonly status: TurnStatus;
  readonly errorCode: string | null;
  readonly deliverableCardId: string;
  readonly outputBoxId: string;
}

export interface SettleOutcome {
  readonly ended: TurnEnd;
  readonly next: LeaseOutcome;
}

/** One proposed call, as stored and as reported to the kernel. */
export interface CallRecord {
  readonly callId: string;
  readonly tool: string;
  readonly settled?: SettledCall;
}

export interface StepOutcomeRecord {
  readonly stepIndex: number;
  readonly thoughtCardId: string;
  readonly thoughtSeq: number;
  readonly thoughtTokens: number;
  readonly noteSeq: number | null;
  readonly noteTokens: number;
  readonly steers: readonly { readonly seq: number; readonly tokens: number }[];
  readonly hasText: boolean;
  /** The model or its content filter refused; the thought says so (W14). */
  readonly refused: boolean;
  readonly calls: readonly CallRecord[];
  readonly usage: Usage;
  readonly cost: number | null;
  readonly latencyMs: number;
}

export interface StepOpening {
  /** Present when the step's thought is already stored: the model is not called again. */
  readonly recorded: StepOutcomeRecord | null;
  readonly snapshot: ProfileSnapshot;
  /** Parsed result fields of the request or the profile, null when none (or malformed, then with a warning). */
  readonly resultFields: ResultFields | null;
  /** Messages for this turn that this step shows to the model, in the output box (T22). */
  readonly steers: readonly BoxExtent[];
  readonly warnings: readonly string[];
}

export interface NewCall {
  readonly index: number;
  readonly content: CardContents['tool.call'];
  /** A result known at once: refused arguments, or an accepted `submit_result`. */
  readonly result?: ToolResultContent;
}

export interface StepCommit {
  readonly stepIndex: number;
  /** Sequence numbers of the steers that were rendered into the request. */
  readonly steerSeqs: readonly number[];
  readonly note: { readonly type: CardType & `sys.${string}`; readonly text: string } | null;
  readonly thought: CardContents['agent.thought'];
  readonly calls: readonly NewCall[];
  readonly usage: Usage;
  readonly model: string;
  readonly finishReason: string;
  /** In the currency of the app's price list; null when the model is not in it, never 0 for unknown (W17). */
  readonly cost: number | null;
  readonly latencyMs: number;
  readonly firstTokenMs: number | null;
}

export interface CallClaim {
  readonly callId: string;
  readonly attempt: number;
  /** Whether a second start is allowed after a lost one (W10). */
  readonly repeatable: boolean;
}

export type ClaimOutcome =
  /** `suspendTimeoutMs` by the pinned tool or profile, null when neither sets one (T13). */
  | {
      readonly kind: 'go';
      readonly call: CardContents['tool.call'];
      readonly suspendTimeoutMs: number | null;
      /** W3C trace context of the request, for whatever the tool calls (T27). */
      readonly traceparent: string | null;
    }
  | { readonly kind: 'settled'; readonly settled: SettledCall }
  | { readonly kind: 'suspended'; readonly deadline: number };

export interface CallResult {
  readonly callId: string;
  readonly attempt: number;
  readonly content: ToolResultContent;
  readonly durationMs: number;
}

export interface TurnCommit {
  readonly termination: Termination;
  readonly deliverable: DeliverableSource;
  readonly engine: EngineUsage | null;
}

export interface TurnHealth {
  readonly status: HeadStatus;
  readonly leasedAt: number;
  /** Of the last write under the lease. */
  readonly progressAt: number;
}

export interface WaitingState {
  readonly settled: readonly SettledCall[];
  /** `wakeAt` when the store must be asked before the deadline: a report is to be tried again (T18). */
  readonly waiting: readonly {
    readonly callId: string;
    readonly tool: string;
    readonly deadline: number;
    readonly wakeAt?: number;
  }[];
}

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

/** A mailbox that may need a doorbell: it has old queued rows, or a head that has been held for a while. */
export interface DoorbellCandidate {
  readonly agentId: string;
  readonly headStatus: HeadStatus;
  /** The active turn, when a result was accepted for it that it has not read yet. */
  readonly unreadTurnId: string | null;
}

/** One broken part of the promise, found in the rows of the store. */
export interface Violation {
  readonly check: string;
  readonly agentId: string | null;
  readonly agentTurnId: string | null;
  readonly detail: string;
}

/** What clients use: accept, report, read. */
export interface ClientStore {
  accept(input: AcceptInput): Promise<AcceptOutcome>;
  reportResult(agentTurnId: string, report: ToolResultReport): Promise<ReportAck>;
  /** Writes a text as a card for a later request; returns its id. Same text, same author key: same card. */
  writeInstructionCard(text: string): Promise<string>;
  /** Writes a tool's output as a card for a later report; returns its id (T18). */
  writeOutputCard(value: JsonValue): Promise<string>;
  /** Writes texts as cards into a new read-only context box; returns its id. */
  writeContextBox(texts: readonly string[]): Promise<string>;
  /** Tells the waiting call of its parent that a turn has ended, once; null when nobody waits or it has not ended (T30). */
  reportDelegation(agentTurnId: string): Promise<DelegationReport | null>;
  /**
   * Makes a new output box of these cards and moves the agent's pointer to it, if it still points at `expectedBoxId` and no turn is
   * open; returns the new box (T25). Errors: `agent_busy`, `box_unavailable`.
   */
  replaceOutputBox(agentId: string, expectedBoxId: string, cardIds: readonly string[]): Promise<string>;
  /** Ends a queued or active turn at once (T8, T21). */
  stopTurn(agentTurnId: string, reason: string): Promise<StopAck>;
  /** Queues a message for a turn's next step (T22). */
  steerTurn(agentTurnId: string, text: string): Promise<SteerAck>;
  setLifecycle(
    agentId: string,
    lifecycle: AgentLifecycle,
    reason: string,
  ): Promise<{ readonly stoppedTurnId: string | null }>;
  getTurn(agentTurnId: string): Promise<TurnView | null>;
  /** Cheaper than `getTurn`: where the turn stands, null when it was never accepted. */
  getTurnStatus(agentTurnId: string): Promise<TurnStatus | null>;
  listAgents(): Promise<readonly AgentView[]>;
  getAgent(agentId: string): Promise<AgentView | null>;
  /** Oldest first; of those in `status`, and only the `last` accepted, where given. */
  listTurns(
    agentId: string,
    filter?: { readonly status?: TurnStatus; readonly last?: number },
  ): Promise<readonly TurnView[]>;
  /** Edges of a turn and, recursively, of the turns it enqueued, oldest first; calls of one step in their order. */
  listEdges(agentTurnId: string): Promise<readonly EdgeView[]>;
  /** Events of one turn (or one agent) with `seq` above `afterSeq`, oldest first, at most `limit`. */
  readEvents(filter: {
    agentId: string;
    agentTurnId?: string;
    afterSeq?: number;
    limit?: number;
  }): Promise<readonly AgentEvent[]>;
  readBox(boxId: string): Promise<readonly { readonly seq: number; readonly card: Card }[]>;
  /** What breaks the promise in this store; empty when all is well. */
  violations(): Promise<readonly Violation[]>;
  /** Resolves soon after any process committed something, at the latest after `timeoutMs`. */
  changed(timeoutMs: number): Promise<void>;
  close(): Promise<void>;
}

/** What activities use besides. */
export interface Store extends ClientStore {
  recordDropped(agentId: string, drop: DroppedEvent['payload']): Promise<void>;
  registerProfiles(snapshots: readonly ProfileSnapshot[]): Promise<void>;
  leaseNext(agentId: string): Promise<LeaseOutcome>;
  settle(input: SettleInput): Promise<SettleOutcome>;
  /** Where a leased turn stands, null when the lease is over. */
  turnHealth(fence: Fence): Promise<TurnHealth | null>;
  /** Ends the turn like a reap, but only if it still holds the lease in that status: the watchdog's CAS (T12). */
  expireTurn(fence: Fence, status: HeadStatus, termination: Termination): Promise<boolean>;
  openStep(fence: Fence, stepIndex: number, profileHash: string): Promise<StepOpening>;
  commitStep(fence: Fence, commit: StepCommit): Promise<StepOutcomeRecord>;
  readExtents(extents: readonly BoxExtent[]): Promise<readonly Card[]>;
  claimCall(fence: Fence, claim: CallClaim): Promise<ClaimOutcome>;
  /** The delegation call of a turn: its claim, the new turn and its own result or wait, in one transaction (W10, T26, T27). */
  delegate(fence: Fence, delegation: Delegation): Promise<DelegationOutcome>;
  settleCall(fence: Fence, result: CallResult): Promise<SettledCall>;
  suspendCall(fence: Fence, callId: string, deadline: number): Promise<ClaimOutcome>;
  /** Injects timeout results for calls overdue at `nowMs`, then tells where every call of the waiting set stands (T17). */
  resolveWaiting(fence: Fence, callIds: readonly string[], nowMs: number): Promise<WaitingState>;
  commitTurn(fence: Fence, commit: TurnCommit): Promise<TurnEnd>;
  /** Turns that ended longer than `olderThanMs` ago and whose waiting parents have not been told. */
  overdueReports(olderThanMs: number, limit: number): Promise<readonly string[]>;
  /** Up to `limit` agents after `cursor` (agent id order) whose queued rows or held head are older than `olderThanMs`. */
  doorbellCandidates(olderThanMs: number, cursor: string | null, limit: number): Promise<readonly DoorbellCandidate[]>;
}
