/**
 * The activities the workflows need, as interfaces, with their timeouts and retry policies; `activities/` implements them.
 *
 * Local activities are one store transaction each, idempotent, and retried for as long as the store is away.
 * Activities of the model and of tools heartbeat every few seconds and are retried on another worker when silent (T23).
 */
import {
  type ActivityOptions,
  type LocalActivityOptions,
  proxyActivities,
  proxyLocalActivities,
} from '@temporalio/workflow';
import type { CallLlmAction, RefusedCall, SummarizeAction } from '../kernel/actions.ts';
import type { SettledCall } from '../kernel/calls.ts';
import type { Fence } from '../protocol/turn.ts';
import type { ApprovalRequest } from './approvals.ts';
import type { BurstInput, BurstOutcome } from './burst.ts';
import type { WaitingState } from './calls.ts';
import type { InboxDelivery, InboxMark } from './inbox.ts';
import type { TurnCommit, TurnEnd } from './lease.ts';
import type { Notice } from './notices.ts';
import type { StepClose, StepOutcomeRecord, SummaryRecord } from './steps.ts';
import type { SupervisorPass } from './supervision.ts';
import type { Suspension, Until } from './suspension.ts';

/** A model call, as the kernel asks for it. */
export interface CallModelInput extends Fence, InboxMark {
  readonly profileHash: string;
  readonly request: CallLlmAction;
  /** What the kernel did on its own account since the last step began; absent when it did nothing. */
  readonly noticed?: readonly Notice[];
}

/** A call of a tool that is to be started. */
export interface RunToolInput extends Fence {
  readonly profileHash: string;
  readonly callId: string;
  readonly tool: string;
  /** Present where an attempt at a burst that was lost may have started the call. */
  readonly again?: true;
}

/** What became of a call that was started: it has its result, or waits. */
export type RunToolOutcome =
  | { readonly kind: 'settled'; readonly settled: SettledCall }
  | ({ readonly kind: 'suspended' } & Until);

/** The end of a turn, and the lease under which it is committed. */
export interface CommitTurnInput extends Fence, TurnCommit {
  /** As in the lease. */
  readonly privateTitles?: true;
}

/** What a foreign client sent inline, unchanged: the activity validates it, not the workflow. */
export interface InlineMessage {
  /** The id of the message: the same however often it is handled. */
  readonly messageId: string;
  readonly body: unknown;
}

/** Requests of foreign clients for one agent. */
export interface AcceptInlineInput {
  readonly agentId: string;
  /** In the order in which they came; at most `INLINE_BATCH`. */
  readonly requests: readonly InlineMessage[];
}

/** Results that foreign clients report for one turn. */
export interface ReportInlineInput {
  readonly agentId: string;
  readonly agentTurnId: string;
  /** In the order in which they came; at most `INLINE_BATCH`. */
  readonly results: readonly InlineMessage[];
}

/** Messages in one activity: few enough that it ends before a hundred more have come, when the server would give the task up. */
export const INLINE_BATCH = 20;

/** Local activities: a transaction of the store each. */
export interface StoreActivities {
  /**
   * Accepts the requests, and starts the workflow of what was leased; what cannot be accepted leaves an event that says why. Tells of each
   * whether it is accepted. The list is shorter than that of the requests when time was up: the rest is to be sent again.
   */
  acceptInline(input: AcceptInlineInput): Promise<readonly boolean[]>;
  /** Stores the results that are reported. Tells how many it has handled: the rest is to be sent again. */
  reportInline(input: ReportInlineInput): Promise<number>;
  /** Writes down why calls are not run, as their results (K6). */
  refuseCalls(input: Fence & { refusals: readonly RefusedCall[] }): Promise<readonly SettledCall[]>;
  /** Asks people; a question that was asked before keeps its deadline (K7, K9). */
  askApprovals(input: Fence & { requests: readonly ApprovalRequest[] }): Promise<readonly Suspension[]>;
  /** Reads what is in the turn's inbox between two steps. */
  readInbox(input: Fence & InboxMark): Promise<InboxDelivery>;
  /**
   * Gives up a step whose model call has failed; returns what an attempt has recorded of it all the same, null when there is nothing (K13).
   */
  closeStep(input: Fence & StepClose): Promise<StepOutcomeRecord | null>;
  /** Tells where the waiting calls stand; overdue ones get a timeout as their result (T17). */
  resolveWaiting(input: Fence & InboxMark & { callIds: readonly string[] }): Promise<WaitingState>;
  /** Ends the turn, starts the agent's next one and tells the waiting parent; a second run finds what the first one did (T29, T30). */
  commitTurn(input: CommitTurnInput): Promise<TurnEnd>;
}

/** A summary, as the kernel asks for it. */
export interface SummarizeInput extends Fence {
  readonly profileHash: string;
  readonly request: SummarizeAction;
}

/** Activities that reach a model or a tool; they heartbeat. */
export interface TurnActivities {
  /** Calls the model and commits the step; a step that is committed already is returned, and the model is not called again (T29). */
  callModel(input: CallModelInput): Promise<StepOutcomeRecord>;
  /** Writes a summary and commits it; it never fails because of the model, for what the model cannot write is written by rule (K15). */
  summarize(input: SummarizeInput): Promise<SummaryRecord>;
  /** Claims a call and runs its tool; a second attempt adopts the stored result or obeys the claim (W10). */
  runTool(input: RunToolInput): Promise<RunToolOutcome>;
  /** Performs several actions one after the other, and ends the turn when that is what follows (T5, W10). */
  runSteps(input: BurstInput): Promise<BurstOutcome>;
}

/** What the workflow of a scheduled supervisor runs. */
export interface SupervisorActivities {
  /** Makes passes until nothing is due any more, unless another supervisor is active. */
  supervise(): Promise<SupervisorPass>;
}

/** Error types that no retry can heal; of others the activity says so itself. */
const FINAL = ['stale_epoch', 'protocol_violation', 'invalid_request'];

const LOCAL: LocalActivityOptions = {
  startToCloseTimeout: '15s',
  retry: { initialInterval: '100ms', backoffCoefficient: 2, maximumInterval: '10s', nonRetryableErrorTypes: FINAL },
};

const MODEL_RETRY = {
  initialInterval: '1s',
  backoffCoefficient: 2,
  maximumInterval: '60s',
  nonRetryableErrorTypes: FINAL,
} as const;

/** How often a model call is tried, and when, the activity decides: it knows the patience of the profile, and which attempts were lost (W14). */
const MODEL: ActivityOptions = {
  startToCloseTimeout: '30m',
  cancellationType: 'TRY_CANCEL',
  retry: MODEL_RETRY,
};

/** A summary that no model writes is written by rule, so that few attempts do. */
const SUMMARY: ActivityOptions = { ...MODEL, retry: { ...MODEL_RETRY, maximumAttempts: 8 } };

/** A model call and a tool may take their whole time in one burst, since what has begun is finished. */
const BURST: ActivityOptions = { ...MODEL, startToCloseTimeout: '24h' };

const TOOL: ActivityOptions = {
  startToCloseTimeout: '24h',
  cancellationType: 'TRY_CANCEL',
  // No retry runs the tool again by itself: a second attempt adopts the stored result or obeys the claim (W10).
  retry: { initialInterval: '500ms', backoffCoefficient: 2, maximumInterval: '10s', nonRetryableErrorTypes: FINAL },
};

/** Local activities of the store. */
export const storeActivities = proxyLocalActivities<StoreActivities>(LOCAL);
/** Activities that call a model; `summary` is what the Web UI shows of them, `heartbeatMs` the silence after which they are tried again (T23). */
export const modelActivities = (
  summary: string,
  heartbeatMs: number,
): Pick<TurnActivities, 'callModel' | 'summarize'> => {
  const shown = { heartbeatTimeout: heartbeatMs, summary };
  return {
    callModel: proxyActivities<Pick<TurnActivities, 'callModel'>>({ ...MODEL, ...shown }).callModel,
    summarize: proxyActivities<Pick<TurnActivities, 'summarize'>>({ ...SUMMARY, ...shown }).summarize,
  };
};
/** The activity that performs several actions of a turn; `summary` and `heartbeatMs` as for those that call a model. */
export const burstActivities = (summary: string, heartbeatMs: number): Pick<TurnActivities, 'runSteps'> =>
  proxyActivities<Pick<TurnActivities, 'runSteps'>>({ ...BURST, heartbeatTimeout: heartbeatMs, summary });
/** Activities that run a tool; `summary` and `heartbeatMs` as for those that call a model. */
export const toolActivities = (summary: string, heartbeatMs: number): Pick<TurnActivities, 'runTool'> =>
  proxyActivities<Pick<TurnActivities, 'runTool'>>({ ...TOOL, heartbeatTimeout: heartbeatMs, summary });
