/**
 * The lease of an agent: which of its turns may run, from the request that is accepted to the end that hands over to the next turn
 * (T1, T2, T6, T29).
 */

import type { AgentPosture } from '../agent-state/posture.ts';
import type { ChatIdentity } from '../chat/terminal.ts';
import type { DeliverableSource } from '../kernel/actions.ts';
import type { ContextUnit } from '../kernel/context.ts';
import type { KernelConfig } from '../kernel/state.ts';
import type { EnqueueAck, EnqueueRequest, RefusedRequest } from '../protocol/enqueue.ts';
import type { BurstLimits, Timeouts } from '../protocol/profile.ts';
import type { EngineUsage, Fence, Termination, TurnStatus } from '../protocol/turn.ts';
import type { Border } from './border.ts';
import type { CallAttempt, ClaimedCall } from './calls.ts';
import type { DroppedEvent } from './events.ts';
import type { Notice } from './notices.ts';
import type { StepCommit, StepOutcomeRecord } from './steps.ts';

/** A request and the agent it is for. */
export interface AcceptInput {
  readonly agentId: string;
  readonly request: EnqueueRequest;
  /**
   * The id of the new turn, chosen by the caller so that its own retry finds the same turn. It is ignored when the request has an
   * idempotency key, from which the id is made; with neither, every call of `accept` makes a new turn.
   */
  readonly agentTurnId?: string;
}

/** What a turn's workflow is started with: ids, sizes and small decisions, never content. */
export interface Lease extends Fence {
  readonly profileName: string;
  /** The version of the profile that the turn keeps to its end (W4). */
  readonly profileHash: string;
  readonly workerTarget: string;
  readonly kernel: KernelConfig;
  readonly timeouts: Timeouts;
  readonly outputBoxId: string;
  /** Cards of turns before this one: those of the output box, oldest first, then those of the box that came with the request (K15). */
  readonly earlier: readonly ContextUnit[];
  /** The place of the instruction card in the output box. */
  readonly instructionSeq: number;
  readonly instructionTokens: number;
  /** Present where one activity may perform several steps; with the limits that the profile sets, if it sets any. */
  readonly burst?: true | BurstLimits;
  /** How many calls of one step run at once; absent where all of them do. */
  readonly parallelCalls?: number;
  /** History events after which the turn continues as new; absent when the profile leaves that to our own threshold (K22). */
  readonly maxEvents?: number;
  /** First words of the instruction, for the Web UI; without them where the profile keeps titles private. */
  readonly title: string;
  /** Present where the profile keeps titles private: then no words of the turn are shown in the Web UI. */
  readonly privateTitles?: true;
  /** The chat whose turn it is; absent for all other turns (C2). */
  readonly chat?: Pick<ChatIdentity, 'sessionId' | 'chatId'>;
  /** The turn that delegated this one; absent for a request from outside. */
  readonly parent?: Pick<Fence, 'agentId' | 'agentTurnId'>;
}

/**
 * What follows from a transaction that may have freed an agent, to be carried out by the process that ran it: workflows to start, parents
 * to tell. The rows say the same, so the supervisor does it when that process is gone.
 */
export interface Handover {
  readonly agentId: string;
  /** The agent's dispatched turn, whose workflow is to be started; null when there is none, or when it has started. */
  readonly next: Lease | null;
  /** Turns wait behind a batch of turns that could not start: `leaseNext` is to be called again. */
  readonly more: boolean;
  /** Turns that have ended, and whose waiting parents have not been told yet (T30). */
  readonly settlements: readonly string[];
  /** What an agent is at that rests now; absent for one that never had work of its own, and where a turn follows. */
  readonly resting?: Pick<AgentPosture, 'posture' | 'reason'>;
}

/** The recorded end of a turn. */
export interface TurnEnd {
  readonly agentTurnId: string;
  readonly status: TurnStatus;
  /** Null when the turn succeeded. */
  readonly errorCode: string | null;
  /** Why the turn ended as it did; null when its status says all there is. */
  readonly reason: string | null;
  readonly deliverableCardId: string;
  readonly outputBoxId: string;
  /** The beginning of the deliverable, for the Web UI; absent where the profile keeps titles private. */
  readonly deliverable?: string;
  /** What its agent is at from then on, for the Web UI; absent for an agent that never had work of its own, and where a turn follows. */
  readonly agent?: NonNullable<Handover['resting']>;
}

/** How a turn ended, and what follows from it. */
export interface Ending {
  readonly ended: TurnEnd;
  readonly handover: Handover;
}

/** A committed step, and the end of the turn that was committed with it; `ending` is null when the turn goes on. */
export interface CommittedStep {
  readonly record: StepOutcomeRecord;
  readonly ending: Ending | null;
  /** The calls whose first start this has claimed, ready to start; none where an attempt before has committed the step. */
  readonly claims: readonly ClaimedCall[];
}

/** What a turn commits as its end (T6). */
export interface TurnCommit {
  readonly termination: Termination;
  /** Which of the turn's cards the deliverable is made of. */
  readonly deliverable: DeliverableSource;
  /** What the engine spent on the turn; null when its workflow did not end it itself. */
  readonly engine: EngineUsage | null;
  /** Places in the output box that a rollback takes out of view before the end (K13). */
  readonly hide?: readonly number[];
  /** Puts its messages that were not read into the agent's next turn, also where somebody ended it on purpose (C8). */
  readonly keepSteers?: true;
  /** Takes all its cards out of view, its deliverable too (C8). */
  readonly rollBack?: true;
  /** What the kernel did on its own account since the last step began. */
  readonly noticed?: readonly Notice[];
  /** The step that tells of these notices when an attempt has opened it: then they are not told again. Absent when none can have. */
  readonly noticedWith?: number;
}

/** An accepted request. */
export interface Accepted extends EnqueueAck {
  readonly kind: 'accepted';
  /** The lease with which the caller starts the turn's workflow; null when the turn is queued, has started or has ended. */
  readonly lease: Lease | null;
}

/** The lease of each agent, under whose head row everything of the agent is written. */
export interface LeaseStore {
  /**
   * Accepts a request as a queued turn, and leases it in the same transaction when the agent is idle and nothing is queued ahead of it:
   * then the caller starts its workflow (T3). Idempotent by the request's idempotency key, else by `agentTurnId`: the same request again
   * returns the turn it made, with `duplicate`, and the lease for as long as the turn has not started. Refused, as a value, with
   * `agent_stopped`, `agent_busy` (a UI action that would wait, T11), `inbox_full`, `profile_not_found` (while any profile is registered),
   * `invalid_request` (an instruction card that is not there, or an agent that is named like its profile, which is no `singleton`) or
   * `idempotency_conflict` (the key belongs to another request). A refusal leaves no agent behind.
   */
  accept(input: AcceptInput, border?: Border): Promise<Accepted | RefusedRequest>;
  /**
   * Writes down, as an event of the agent, that a message of a foreign client could not be used and why. Idempotent by `messageId`: there
   * is one event for each message, however often it is handled.
   */
  recordDropped(agentId: string, messageId: string, drop: DroppedEvent['payload']): Promise<void>;
  /**
   * Leases the next queued turn of an agent that is idle and started; queued turns that cannot start end on the way, fifty at most (T8). An
   * agent whose turn has been leased and has not started gives that lease again, so that calling it twice starts one workflow (T29). The
   * handover has no `next` when nothing can be leased.
   */
  leaseNext(agentId: string): Promise<Handover>;
  /**
   * Tells whether the lease still holds and, where an attempt at a call is named, whether the call still waits for that attempt. Writes
   * nothing. Errors: `stale_epoch` when the lease is over (T5); `call_overtaken` when the call has a result by now, or a later attempt at
   * it was claimed (W10).
   */
  checkLease(fence: Fence, attempt?: CallAttempt): Promise<void>;
  /**
   * Ends the turn with its deliverable and its one task event, and leases the agent's next turn in the same transaction (T6, T29).
   * Idempotent by the turn: of one that has ended already, by its own commit or over its head, the recorded end is returned and nothing is
   * written to it. Errors: `stale_epoch` when the turn is open and does not hold this lease.
   */
  commitTurn(fence: Fence, commit: TurnCommit): Promise<Ending>;
  /**
   * Commits a step as `commitStep` does and, where `endWith` answers to what is recorded of it, ends the turn as `commitTurn` does, in one
   * transaction. `endWith` only computes, and may be asked more than once. Not idempotent once it has ended the turn: the lease is over then,
   * and `commitTurn` gives the recorded end. Errors: those of `commitStep`.
   */
  commitStepAndEnd(
    fence: Fence,
    commit: StepCommit,
    endWith: (record: StepOutcomeRecord) => TurnCommit | null,
  ): Promise<CommittedStep>;
}
