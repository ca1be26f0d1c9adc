/**
 * The store contract: what must hold whatever the backend (SQLite, PostgreSQL).
 *
 * Invariants
 * 1. Each method is one transaction, idempotent by what it is keyed on; a second run returns the recorded outcome (T29).
 * 2. A method that takes a `Fence` writes nothing unless the head still carries that lease: it throws CodedError('stale_epoch') (T5).
 * 3. Every event is inserted in the transaction whose fact it states.
 */

import type { DeliverableSource, RefusedCall } from '../kernel/actions.ts';
import type { SettledCall } from '../kernel/calls.ts';
import type { ContextUnit } from '../kernel/context.ts';
import type { BoxExtent } from '../kernel/handles.ts';
import type { KernelConfig } from '../kernel/state.ts';
import type { Card, CardContents, ToolResultContent } from '../protocol/cards.ts';
import type { EnqueueAck, EnqueueRequest, RefusedRequest } from '../protocol/enqueue.ts';
import type { JsonObject, JsonValue } from '../protocol/json.ts';
import type { ProfileSnapshot, Timeouts } from '../protocol/profile.ts';
import type { ReportAck, ToolResultReport } from '../protocol/tool-result.ts';
import type { AgentLifecycle, EngineUsage, Fence, Termination, TurnStatus } from '../protocol/turn.ts';
import type {
  ApprovalAck,
  ApprovalAnswer,
  ApprovalDecision,
  ApprovalFilter,
  ApprovalRequest,
  ApprovalView,
  BudgetChange,
} from './approvals.ts';
import type { SteerAck, StopAck } from './control.ts';
import type { Delegation, DelegationOutcome, DelegationSettlement } from './delegation.ts';
import type { AgentEvent, DroppedEvent } from './events.ts';
import type { Notice } from './notices.ts';
import type {
  BudgetStanding,
  StepBegin,
  StepCommit,
  StepOpening,
  StepOutcomeRecord,
  SummaryCommit,
  SummaryRecord,
} from './steps.ts';
import type { SupervisorStore } from './supervision.ts';
import type { AgentView, EdgeView, TurnView } from './views.ts';

export interface AcceptInput {
  readonly agentId: string;
  readonly request: EnqueueRequest;
  /** Chosen by the caller so that its own retry converges; ignored when the request has an idempotency key. */
  readonly agentTurnId?: string;
}

/** What a turn's workflow is started with: ids, sizes and small decisions, never content. */
export interface Lease extends Fence {
  readonly profileName: string;
  readonly profileHash: string;
  readonly workerTarget: string;
  readonly kernel: KernelConfig;
  readonly timeouts: Timeouts;
  readonly outputBoxId: string;
  /** Earlier turns of the output box, oldest first, then what came with the request (K15). */
  readonly earlier: readonly ContextUnit[];
  readonly instructionSeq: number;
  readonly instructionTokens: number;
  /** Continue as new after this many history events; the default is our own threshold (K22). */
  readonly maxEvents?: number;
  /** First words of the instruction, for the Web UI. */
  readonly title: string;
}

/**
 * What follows from a transaction that may have freed an agent, to be carried out by whoever ran it: workflows to start, parents to tell.
 * The rows say the same, so the supervisor does it when that process is gone.
 */
export interface Handover {
  readonly agentId: string;
  /** The agent's dispatched turn, whose workflow is to be started; null when there is none, or when it has started. */
  readonly next: Lease | null;
  /** Turns wait behind a batch of turns that could not start: the agent is to be leased again. */
  readonly more: boolean;
  /** Turns that have ended, and whose waiting parents have not been told yet (T30). */
  readonly settlements: readonly string[];
}

export interface TurnEnd {
  readonly agentTurnId: string;
  readonly status: TurnStatus;
  readonly errorCode: string | null;
  readonly deliverableCardId: string;
  readonly outputBoxId: string;
}

/** How a turn ended, and what follows from it. */
export interface Ending {
  readonly ended: TurnEnd;
  readonly handover: Handover;
}

/** What a tool makes of arguments: with defaults, transformed. Throws when they do not match its schema. */
export type ParseArguments = (tool: string, args: JsonObject) => JsonObject;

/**
 * When a wait is over: `deadline` in epoch ms by the store's clock, `leftMs` from now on. Whoever waits does so for as long as is left, by a
 * clock of its own, and the store alone says whether the time is up: no clock is compared with another.
 */
export interface Until {
  readonly deadline: number;
  readonly leftMs: number;
}

/** A call, or a question, that waits. */
export interface Suspension extends Until {
  readonly callId: string;
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
      /** An approver changed the arguments: they are as written, not yet parsed by the tool's own schema (K7). */
      readonly edited: boolean;
      readonly suspendTimeoutMs: number | null;
      /** W3C trace context of the request, for whatever the tool calls (T27). */
      readonly traceparent: string | null;
    }
  | { readonly kind: 'settled'; readonly settled: SettledCall }
  | ({ readonly kind: 'suspended' } & Until);

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
  /** Places in the output box that a rollback takes out of view first (K13). */
  readonly hide?: readonly number[];
  /** What was noticed since the last step began. */
  readonly noticed?: readonly Notice[];
}

export interface WaitingState extends BudgetStanding {
  readonly settled: readonly SettledCall[];
  /** Questions that have an answer; their calls are neither settled nor waiting. */
  readonly answers?: readonly ApprovalDecision[];
  /** `wakeInMs` when the store must be asked before the deadline: a report is to be tried again (T18). */
  readonly waiting: readonly (Suspension & { readonly tool: string; readonly wakeInMs?: number })[];
}

/** One broken part of the promise, found in the rows of the store. */
export interface Violation {
  readonly check: string;
  readonly agentId: string | null;
  readonly agentTurnId: string | null;
  readonly detail: string;
}

/** An accepted request, and its lease when its workflow is to be started. */
export interface Accepted extends EnqueueAck {
  readonly kind: 'accepted';
  readonly lease: Lease | null;
}

export interface BudgetsChanged {
  readonly agentId: string;
  /** Whether any budget is another one than before. */
  readonly changed: boolean;
  /** Whether the new budgets answered a question that the turn waits for: it is to be woken. */
  readonly answered: boolean;
}

export interface LifecycleChange {
  /** The active turn that a stop has ended; null when there was none. */
  readonly stoppedTurnId: string | null;
  readonly handover: Handover;
}

export interface TurnFilter {
  readonly status?: TurnStatus;
  readonly after?: number;
  readonly limit?: number;
  readonly last?: number;
}

/** What clients use: accept, report, read. */
export interface ClientStore {
  /** Queues a request, and leases it at once when the agent is idle: then the caller starts its workflow (T3). */
  accept(input: AcceptInput): Promise<Accepted | RefusedRequest>;
  /** Leases the next turn of an idle agent; of a busy one whose turn has not started, gives that lease again (T29). */
  leaseNext(agentId: string): Promise<Handover>;
  /** `wake`: the turn is to be woken, because it waits for what the report has brought. */
  reportResult(agentTurnId: string, report: ToolResultReport): Promise<ReportAck & { readonly wake: boolean }>;
  /** Writes a text as a card for a later request; returns its id. Same text, same author key: same card. */
  writeInstructionCard(text: string): Promise<string>;
  /** Writes a tool's output as a card for a later report; returns its id (T18). */
  writeOutputCard(value: JsonValue): Promise<string>;
  /** Writes texts as cards into a new read-only context box; returns its id. */
  writeContextBox(texts: readonly string[]): Promise<string>;
  /** Tells the waiting call of its parent that a turn has ended, once; null when nobody waits or it has not ended (T30). */
  settleDelegation(agentTurnId: string): Promise<DelegationSettlement | null>;
  /**
   * Makes a new output box of these cards and moves the agent's pointer to it, if it still points at `expectedBoxId` and no turn is
   * open; returns the new box (T25). Errors: `agent_busy`, `box_unavailable`.
   */
  replaceOutputBox(agentId: string, expectedBoxId: string, cardIds: readonly string[]): Promise<string>;
  /** Ends a queued or active turn at once (T8, T21); the handover is null when nothing was ended. */
  stopTurn(agentTurnId: string, reason: string): Promise<StopAck & { readonly handover: Handover | null }>;
  /** Answers a question about a call or a budget, once (K7, K9). Errors: `approval_refused`, `budget_refused`. */
  answerApproval(agentTurnId: string, answer: ApprovalAnswer): Promise<ApprovalAck>;
  /** Oldest first, from the first one behind `after` on, at most `limit` (1,000). */
  listApprovals(filter: ApprovalFilter): Promise<readonly ApprovalView[]>;
  /**
   * New budgets for a queued or running turn; null when it has ended or was never accepted (K9). Errors: `budget_refused` where a delegated
   * turn would get more than the turn it works for has left (K20).
   */
  setBudgets(agentTurnId: string, budgets: BudgetChange): Promise<BudgetsChanged | null>;
  /** Queues a message for a turn's next step (T22). */
  /** `key`: the same message again changes nothing. Errors: `inbox_full`, `idempotency_conflict`. */
  steerTurn(agentTurnId: string, text: string, key?: string): Promise<SteerAck>;
  setLifecycle(agentId: string, lifecycle: AgentLifecycle, reason: string): Promise<LifecycleChange>;
  getTurn(agentTurnId: string): Promise<TurnView | null>;
  /** Cheaper than `getTurn`: where the turn stands, null when it was never accepted. */
  getTurnStatus(agentTurnId: string): Promise<TurnStatus | null>;
  /** By id, from the first one behind `after` on, at most `limit` (1,000). */
  listAgents(page?: { readonly after?: string; readonly limit?: number }): Promise<readonly AgentView[]>;
  getAgent(agentId: string): Promise<AgentView | null>;
  /** Oldest first: from the first one behind `after`, a turn's `acceptSeq`, on, at most `limit` (100); or the `last` accepted ones. */
  listTurns(agentId: string, filter?: TurnFilter): Promise<readonly TurnView[]>;
  /** Edges of a turn and, recursively, of the turns it enqueued, oldest first; calls of one step in their order. */
  listEdges(agentTurnId: string): Promise<readonly EdgeView[]>;
  /** Events of one turn (or one agent) with `seq` above `afterSeq`, oldest first, at most `limit`. */
  readEvents(filter: {
    agentId: string;
    agentTurnId?: string;
    afterSeq?: number;
    limit?: number;
  }): Promise<readonly AgentEvent[]>;
  /** What is in view; with `all`, also what was summarised or taken back. */
  readBox(boxId: string, all?: boolean): Promise<readonly { readonly seq: number; readonly card: Card }[]>;
  /** What breaks the promise in this store, at most `limit` (1,000) of it; empty when all is well. */
  violations(limit?: number): Promise<readonly Violation[]>;
  /** All of it, a page at a time: whatever the size of the store, and however much of it is broken, memory stays bounded. */
  violationPages(): AsyncIterable<readonly Violation[]>;
  /**
   * Resolves soon after any process committed something, at the latest after `timeoutMs`. One who waits for turns to end says so: some
   * backends then wake him for nothing else.
   */
  changed(timeoutMs: number, only?: 'turn_ended'): Promise<void>;
  /** By how many ms the store's clock, which all deadlines follow, is ahead of this machine's; negative when it is behind. */
  clockAheadMs(): number;
  close(): Promise<void>;
}

/** How an app stands to those that were registered before it. */
export interface Registration {
  /** Rises with each deployment. A higher one always counts, the same one only for versions that the store has not seen; default 0. */
  readonly revision?: number;
  /** Whatever was registered before: for whoever has the store for himself. */
  readonly takeOver?: boolean;
}

/** What activities use besides. */
export interface Store extends ClientStore, SupervisorStore {
  /** Writes down that a foreign client's message could not be used, once for each `messageId`. */
  recordDropped(agentId: string, messageId: string, drop: DroppedEvent['payload']): Promise<void>;
  /** Which version new turns get is decided by `Registration`; returns the names that stay with another version (W4). */
  registerProfiles(snapshots: readonly ProfileSnapshot[], registration?: Registration): Promise<readonly string[]>;
  /** The pinned version of an agent definition. Errors: `profile_not_found`. */
  readProfile(hash: string): Promise<ProfileSnapshot>;
  /** Errors: `step_closed`. */
  openStep(fence: Fence, stepIndex: number, profileHash: string, begun?: StepBegin): Promise<StepOpening>;
  commitStep(fence: Fence, commit: StepCommit): Promise<StepOutcomeRecord>;
  /**
   * `noticed` is told of where no attempt has opened the step. Gives up a step whose model call has failed, before the turn goes on without it: from then on no late attempt can open or commit it
   * (`step_closed`). Returns what was recorded when an attempt was faster, and closes nothing then (K13).
   */
  closeStep(fence: Fence, stepIndex: number, noticed?: readonly Notice[]): Promise<StepOutcomeRecord | null>;
  readExtents(extents: readonly BoxExtent[]): Promise<readonly Card[]>;
  /** The summary of these extents, when it is in the box already. */
  findSummary(fence: Fence, hide: readonly BoxExtent[]): Promise<SummaryRecord | null>;
  /** Puts the summary into the output box and what it stands for out of view (K15). */
  commitSummary(fence: Fence, commit: SummaryCommit): Promise<SummaryRecord>;
  /** A call of this turn as it was proposed. */
  readCall(fence: Fence, callId: string): Promise<CardContents['tool.call'] | null>;
  /** The whole result of a call of this agent, null when there is none in its output box (W11). */
  readResult(fence: Fence, callId: string): Promise<ToolResultContent | null>;
  claimCall(fence: Fence, claim: CallClaim): Promise<ClaimOutcome>;
  /**
   * A cheap look: whether the lease holds, and whether that attempt is still the one the call waits for. Writes nothing. Errors:
   * `stale_epoch` (T5, W10).
   */
  checkLease(fence: Fence, attempt?: Pick<CallClaim, 'callId' | 'attempt'>): Promise<void>;
  /** The delegation call of a turn: its claim, the new turn and its own result or wait, in one transaction (W10, T26, T27). */
  delegate(fence: Fence, delegation: Delegation): Promise<DelegationOutcome>;
  settleCall(fence: Fence, result: CallResult): Promise<SettledCall>;
  suspendCall(fence: Fence, callId: string, waitMs: number): Promise<ClaimOutcome>;
  /** Writes down why calls are not run, as their results (K6). */
  refuseCalls(fence: Fence, refusals: readonly RefusedCall[]): Promise<readonly SettledCall[]>;
  /** Asks people; a question that was asked before keeps its deadline (K7, K9). */
  askApprovals(fence: Fence, requests: readonly ApprovalRequest[]): Promise<readonly Suspension[]>;
  readBudgets(fence: Fence): Promise<BudgetStanding>;
  /** Injects timeout results for overdue calls, then tells where every call of the waiting set stands (T17). */
  resolveWaiting(fence: Fence, callIds: readonly string[], parse?: ParseArguments): Promise<WaitingState>;
  /** Ends the turn and leases the next one; a second run returns the recorded end (T6, T29). */
  commitTurn(fence: Fence, commit: TurnCommit): Promise<Ending>;
}
