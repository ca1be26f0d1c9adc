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
import type { Notice } from './notices.ts';
import type { BudgetStanding, StepOutcomeRecord, SummaryRecord } from './steps.ts';
import type { Suspension, TurnCommit, TurnEnd, Until, WaitingState } from './store.ts';
import type { SupervisorPass } from './supervision.ts';

export interface CallModelInput extends Fence {
  readonly profileHash: string;
  readonly request: CallLlmAction;
  /** Since the last step began; absent when there is nothing to tell. */
  readonly noticed?: readonly Notice[];
}

export interface RunToolInput extends Fence {
  readonly profileHash: string;
  readonly callId: string;
  readonly tool: string;
}

export type RunToolOutcome =
  | { readonly kind: 'settled'; readonly settled: SettledCall }
  | ({ readonly kind: 'suspended' } & Until);

export interface CommitTurnInput extends Fence, TurnCommit {}

/** What a foreign client sent inline, as it came: validated by the activity, not by the workflow. */
export interface InlineMessage {
  /** The same however often the message is handled. */
  readonly messageId: string;
  readonly body: unknown;
}

/** In the order they came; at most `INLINE_BATCH`. */
export interface AcceptInlineInput {
  readonly agentId: string;
  readonly requests: readonly InlineMessage[];
}

/** In the order they came; at most `INLINE_BATCH`. */
export interface ReportInlineInput {
  readonly agentId: string;
  readonly agentTurnId: string;
  readonly results: readonly InlineMessage[];
}

/** Messages in one activity, which takes less time than it takes for a hundred to come: then the server gives the task up. */
export const INLINE_BATCH = 20;

export interface StoreActivities {
  /**
   * Accepts the requests, and starts the workflow of what was leased; what cannot be accepted leaves an event that says why. Tells of each
   * whether it is accepted; the last of them may be left for another time.
   */
  acceptInline(input: AcceptInlineInput): Promise<readonly boolean[]>;
  /** How many it has handled: the last of them may be left for another time. */
  reportInline(input: ReportInlineInput): Promise<number>;
  refuseCalls(input: Fence & { refusals: readonly RefusedCall[] }): Promise<readonly SettledCall[]>;
  askApprovals(input: Fence & { requests: readonly ApprovalRequest[] }): Promise<readonly Suspension[]>;
  readBudgets(input: Fence): Promise<BudgetStanding>;
  /** Gives up a step whose model call has failed; what an attempt has recorded of it all the same (K13). */
  closeStep(input: Fence & { stepIndex: number; noticed?: readonly Notice[] }): Promise<StepOutcomeRecord | null>;
  resolveWaiting(input: Fence & { callIds: readonly string[] }): Promise<WaitingState>;
  /** Ends the turn, starts the agent's next one and tells the waiting parent; a second run finds what the first one did (T29, T30). */
  commitTurn(input: CommitTurnInput): Promise<TurnEnd>;
}

export interface SummarizeInput extends Fence {
  readonly profileHash: string;
  readonly request: SummarizeAction;
}

export interface TurnActivities {
  callModel(input: CallModelInput): Promise<StepOutcomeRecord>;
  /** Never fails because of the model: what it cannot write is written by rule. */
  summarize(input: SummarizeInput): Promise<SummaryRecord>;
  runTool(input: RunToolInput): Promise<RunToolOutcome>;
}

export interface SupervisorActivities {
  supervise(): Promise<SupervisorPass>;
}

/** Error types that no retry can heal. */
const FINAL = ['stale_epoch', 'protocol_violation', 'invalid_request', 'store_corrupt'];

const LOCAL: LocalActivityOptions = {
  startToCloseTimeout: '15s',
  retry: { initialInterval: '100ms', backoffCoefficient: 2, maximumInterval: '10s', nonRetryableErrorTypes: FINAL },
};

const HEARTBEAT_TIMEOUT = '20s';

const MODEL: ActivityOptions = {
  startToCloseTimeout: '30m',
  heartbeatTimeout: HEARTBEAT_TIMEOUT,
  cancellationType: 'TRY_CANCEL',
  retry: {
    initialInterval: '1s',
    backoffCoefficient: 2,
    maximumInterval: '60s',
    maximumAttempts: 8,
    nonRetryableErrorTypes: FINAL,
  },
};

const TOOL: ActivityOptions = {
  startToCloseTimeout: '24h',
  heartbeatTimeout: HEARTBEAT_TIMEOUT,
  cancellationType: 'TRY_CANCEL',
  // The tool itself is not retried here: a second attempt adopts the stored result or obeys the claim (W10).
  retry: { initialInterval: '500ms', backoffCoefficient: 2, maximumInterval: '10s', nonRetryableErrorTypes: FINAL },
};

export const storeActivities = proxyLocalActivities<StoreActivities>(LOCAL);
export const modelActivities = (summary: string): Pick<TurnActivities, 'callModel' | 'summarize'> =>
  proxyActivities<Pick<TurnActivities, 'callModel' | 'summarize'>>({ ...MODEL, summary });
export const toolActivities = (summary: string): Pick<TurnActivities, 'runTool'> =>
  proxyActivities<Pick<TurnActivities, 'runTool'>>({ ...TOOL, summary });
