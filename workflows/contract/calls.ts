/** Calls of tools: claiming, suspending and settling one, and reports of results from outside (T13–T18, W10). */

import type { RefusedCall } from '../kernel/actions.ts';
import type { SettledCall } from '../kernel/calls.ts';
import type { ApprovalDecision } from '../kernel/events.ts';
import type { CardContents, ToolResultContent } from '../protocol/cards.ts';
import type { JsonValue } from '../protocol/json.ts';
import type { ReportAck, ToolResultReport } from '../protocol/tool-result.ts';
import type { ActivityAttempt, Fence } from '../protocol/turn.ts';
import type { RecordedAnswer } from './approvals.ts';
import type { Border } from './border.ts';
import type { InboxDelivery, InboxMark } from './inbox.ts';
import type { StepBegin, StepOpening } from './steps.ts';
import type { Suspension, Until } from './suspension.ts';

/** One attempt at one call. */
export interface CallAttempt {
  readonly callId: string;
  /** The number that the store gave the attempt with its claim, from 1: it rises with each claim of the call. */
  readonly attempt: number;
}

/** What an attempt says before it starts a call. */
export interface CallClaim {
  readonly callId: string;
  /** Whether nothing can have started the call before: then a claim that was made with the step is this one. */
  readonly first: boolean;
  /** The attempt at the activity: one that claims after a later one is refused. */
  readonly by: ActivityAttempt;
  /** Whether the tool may be started again after an attempt that was lost (W10). */
  readonly repeatable: boolean;
}

/** A call that may start, and what its tool needs to know. */
export interface ClaimedCall {
  readonly kind: 'go';
  /** As in `CallAttempt`. */
  readonly attempt: number;
  readonly call: CardContents['tool.call'];
  /** True when an approver changed the arguments: they are as written, not yet parsed by the tool's own schema (K7). */
  readonly edited: boolean;
  /** How long the call may wait, by the pinned tool or else its profile; null when neither says (T13). */
  readonly suspendTimeoutMs: number | null;
  /** The W3C trace context of the request, for whatever the tool calls; null when the request has none (T27). */
  readonly traceparent: string | null;
  /** The caller's own id for a chain of requests; null when the request has none (T26). */
  readonly correlationId: string | null;
  /** What the caller sent along with the request; empty when nothing was sent. */
  readonly metadata: Readonly<Record<string, string>>;
}

/** What a claim comes to: the call may start, has its result already, or waits. */
export type ClaimOutcome =
  | ClaimedCall
  | { readonly kind: 'settled'; readonly settled: SettledCall }
  | ({ readonly kind: 'suspended' } & Until);

/** The result that an attempt brings. */
export interface CallResult extends CallAttempt {
  readonly content: ToolResultContent;
  readonly durationMs: number;
}

/** A result that was stored, and the step that was opened with it; `next` is null where none was. */
export interface SettledAndOpened {
  readonly settled: SettledCall;
  readonly next: StepOpening | null;
}

/** Where the waiting calls of a turn stand, and what is in its inbox: an answer's call is neither settled nor waiting. */
export interface WaitingState<Answer = ApprovalDecision> extends InboxDelivery<Answer> {
  /** Calls that have their result. */
  readonly settled: readonly SettledCall[];
  /** Calls that still wait; `wakeInMs` when the store must be asked before the deadline, because a report is to be tried again (T18). */
  readonly waiting: readonly (Suspension & { readonly tool: string; readonly wakeInMs?: number })[];
}

/** A report of a result, as opposed to a heartbeat. */
export type ResultReport = ToolResultReport & { readonly status: Exclude<ToolResultReport['status'], 'running'> };

/** Whether the report brings a result; a heartbeat brings none. */
export const bringsResult = (report: ToolResultReport): report is ResultReport => report.status !== 'running';

/** The answer to a report (T14). */
export interface Reported extends ReportAck {
  /**
   * Whether the turn's workflow is to be woken: the report is new, and brings what the turn waits for. A report that is repeated wakes
   * nobody, so that it adds nothing to a history; a wake-up that was lost is made good by the supervisor (T10).
   */
  readonly wake: boolean;
}

/** How a report compares with the result that its call has: it has none, one that says the same, or another one. */
export type ResultComparison = 'none' | 'same' | 'other';

/** The calls of turns and their results. */
export interface CallStore {
  /**
   * Claims a call before its tool is started; a claim is never taken back (W10). The outcome is `settled` when the call has a result, which
   * is then adopted; `suspended` when it waits; and a failed result `outcome_unknown` when an earlier attempt was claimed and the tool may
   * not be repeated. A claim that is repeated is another attempt, with the next number. Errors: `call_overtaken` when an attempt
   * that comes later has claimed it; `stale_epoch` (T5); `protocol_violation` when the turn has no such call.
   */
  claimCall(fence: Fence, claim: CallClaim): Promise<ClaimOutcome>;
  /**
   * Stores the result of a call. The first result of a call wins: when there is one already, it is returned and nothing is written (T14).
   * Errors: `stale_epoch` (T5); `protocol_violation` when the turn has no such call. A result over the size limit is stored as a failed
   * one, `result_too_large` (T4).
   */
  settleCall(fence: Fence, result: CallResult): Promise<SettledCall>;
  /**
   * Stores the result of the last call of a step as `settleCall` does, reads the inbox as `readInbox` does and, where `openWith` answers to
   * both with the step of that index, opens it as `openStep` does, in one transaction; one that was opened before is left to `openStep`.
   * `openWith` only computes, and may be asked more than once. Idempotent like these three. Errors: theirs.
   */
  settleCallAndOpen(
    fence: Fence,
    result: CallResult,
    stepIndex: number,
    mark: InboxMark,
    openWith: (settled: SettledCall, delivery: InboxDelivery) => StepBegin | null,
  ): Promise<SettledAndOpened>;
  /**
   * Writes down how far the attempt says it is, in place of what it said before, as an event too. Errors: `stale_epoch` (T5); `call_overtaken` when
   * the call has its result or a later attempt, or was never claimed by this one; `payload_too_large` for more than `SIZES.progressBytes` of JSON.
   */
  noteProgress(fence: Fence, attempt: CallAttempt, progress: JsonValue): Promise<void>;
  /**
   * Puts a call into the waiting set for `waitMs`, so that its turn is suspended (T13). A call that has its result by now returns it; one
   * that waits already keeps its deadline. Errors: `stale_epoch` (T5); `protocol_violation` when the turn has no such call.
   */
  suspendCall(fence: Fence, callId: string, waitMs: number): Promise<ClaimOutcome>;
  /**
   * Writes down why calls are not run, as their failed results, so that the model reads it (K6). A call that has a result already keeps it.
   * Errors: `stale_epoch` (T5); `protocol_violation` when the turn has no such call.
   */
  refuseCalls(fence: Fence, refusals: readonly RefusedCall[]): Promise<readonly SettledCall[]>;
  /**
   * Takes a result that is brought from outside the turn; the answer is final and immediate, whether or not a worker is there (T14). The
   * ack is `applied` or `buffered` for the one report that counts, `duplicate` for any later one, `deferred` while the card that it names
   * is not in the store (T18), `stale` when the turn is over (unless the call had its result: then `duplicate`) or has another epoch, and `unknown` for a turn or call that is not there.
   * Idempotent by the call.
   */
  reportResult(agentTurnId: string, report: ToolResultReport, border?: Border): Promise<Reported>;
  /**
   * Tells where each of these calls stands, and makes the clock count: a report that was deferred is tried again, and an overdue call gets
   * a timeout as its result, once (T17, T18). Idempotent: what was settled before is returned again. Errors: `stale_epoch` (T5);
   * `protocol_violation` when the turn has no such call.
   */
  resolveWaiting(fence: Fence, callIds: readonly string[], mark?: InboxMark): Promise<WaitingState<RecordedAnswer>>;
  /** Compares a report with the result of its call, while the turn is open and after it. Writes nothing; a heartbeat is no result's equal. */
  compareResult(agentTurnId: string, report: ToolResultReport, border?: Border): Promise<ResultComparison>;
  /** Reads a call of this turn as it was proposed; null when the turn has no such call. Reads only: the lease is not checked. */
  readCall(fence: Fence, callId: string): Promise<CardContents['tool.call'] | null>;
  /**
   * Reads the whole result of a call of this turn or an earlier one; null when no such result is in the turn's output box (W11). Reads
   * only: the lease is not checked.
   */
  readResult(fence: Fence, callId: string): Promise<ToolResultContent | null>;
}
