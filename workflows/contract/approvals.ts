/** Questions to people: may this call run, may this budget be extended; and their answers (K7, K9). */

import { z } from 'zod';
import type { BudgetAsk } from '../kernel/budgets.ts';
import type { ApprovalDecision } from '../kernel/events.ts';
import type { GovernancePolicy } from '../protocol/governance.ts';
import type { JsonObject } from '../protocol/json.ts';
import { budgetsSchema } from '../protocol/profile.ts';
import type { ReportAck } from '../protocol/tool-result.ts';
import type { Fence } from '../protocol/turn.ts';
import type { Border } from './border.ts';
import type { Suspension } from './suspension.ts';

/** Budgets as an operator sets them while the turn runs; a budget that is left out stays. At least one is expected. */
export const budgetChangeSchema = z
  .strictObject({
    maxSteps: budgetsSchema.shape.maxSteps.unwrap().optional(),
    maxToolCalls: budgetsSchema.shape.maxToolCalls.unwrap().optional(),
    maxTokens: budgetsSchema.shape.maxTokens.unwrap().optional(),
    maxWallTimeMs: budgetsSchema.shape.maxWallTimeMs,
    maxCost: budgetsSchema.shape.maxCost,
  })
  .refine((budgets) => Object.values(budgets).some((limit) => limit !== undefined), {
    error: 'needs at least one of maxSteps, maxToolCalls, maxTokens, maxWallTimeMs, maxCost',
  });

/** An answer to a question; only an approval may carry arguments or budgets. */
export const approvalAnswerSchema = z
  .strictObject({
    /** The call that is asked about; for a question about a budget, the id under which it was asked. */
    callId: z.string().min(1).max(128),
    decision: z.enum(['approved', 'denied']),
    /** Who answers; must be among the approvers where the agent names some. */
    by: z.string().min(1).max(200).optional(),
    /** Shown to the model when the call is denied. */
    reason: z.string().max(1_000).optional(),
    /** Runs the call with these instead of the `written` ones: they must match the tool's schema, and the rules judge them again. */
    arguments: z.record(z.string(), z.json()).optional(),
    /** The new budgets, where the question is about an exhausted one. */
    budgets: budgetChangeSchema.optional(),
  })
  .refine(({ decision, ...more }) => decision === 'approved' || !(more.arguments || more.budgets), {
    error: 'only an approval may carry arguments or budgets',
  });
/** A valid answer to a question. */
export type ApprovalAnswer = z.output<typeof approvalAnswerSchema>;

/**
 * The fate of an answer: `duplicate` when the question was answered before, `stale` when its turn is over, `unknown` when there is none.
 */
export type ApprovalAck = Pick<ReportAck, 'agentId'> & {
  readonly ack: 'applied' | 'duplicate' | 'stale' | 'unknown';
  /** What the question had come to before; present when it is a duplicate. */
  readonly recorded?: {
    readonly status: Exclude<ApprovalStatus, 'waiting' | 'dropped'>;
    /** Null where nobody gave a name. */
    readonly by: string | null;
    /** What took the place of the model's arguments; null where they stood. */
    readonly arguments: JsonObject | null;
  };
};

/** Where a question stands: `unanswered` when its time ran out, `dropped` when its turn ended first. */
export type ApprovalStatus = 'waiting' | 'approved' | 'denied' | 'unanswered' | 'dropped';

/** A question as people see it. Times in epoch ms by the store's clock. */
export interface ApprovalView {
  readonly callId: string;
  readonly agentId: string;
  readonly agentTurnId: string;
  /** The turn that the whole delegation tree began with; the turn itself when nobody delegated it. */
  readonly rootTurnId: string;
  readonly kind: 'call' | 'budget';
  /** The tool of the call; empty for a question about a budget. */
  readonly tool: string;
  /** The arguments that will run: with the defaults of the tool's schema, and transformed by it. Null for a budget. */
  readonly arguments: JsonObject | null;
  /** The arguments as the model wrote them; edited arguments take their place, and are parsed like them. Null for a budget. */
  readonly written: JsonObject | null;
  /** Why it is asked. */
  readonly reason: string;
  /** Who may answer; empty when anybody may. */
  readonly approvers: readonly string[];
  /** Whether the question went to those who come next, because nobody answered in time. */
  readonly escalated: boolean;
  readonly deadline: number;
  readonly status: ApprovalStatus;
  /** Who answered; null while nobody has, and for an answer without a name. */
  readonly answeredBy: string | null;
  readonly createdAt: number;
}

/** Which questions are listed; without a filter, all that wait. */
export interface ApprovalFilter {
  /** Questions of the whole delegation tree that began with this turn. */
  readonly rootTurnId?: string;
  readonly agentId?: string;
  readonly agentTurnId?: string;
  readonly callId?: string;
  /** Lists questions that wait no more, too. */
  readonly all?: boolean;
  /** Lists questions behind this one: the last one of a page gives the next page. */
  readonly after?: ApprovalPlace;
  /** The most questions to list; 1,000 when left out. */
  readonly limit?: number;
}

/** Where a question stands in the list, which is ordered by these. */
export type ApprovalPlace = Pick<ApprovalView, 'createdAt' | 'agentTurnId' | 'callId'>;

/** A question that a turn's workflow asks. */
export interface ApprovalRequest {
  /** The gated call; for a budget, an id that the kernel made. */
  readonly callId: string;
  readonly kind: 'call' | 'budget';
  /** The tool of the call; empty for a budget. */
  readonly tool: string;
  /** Why it is asked. */
  readonly reason: string;
  /** The budget that is used up, so that an extension by too little is refused; absent for a call. */
  readonly budget?: BudgetAsk;
}

/** Arguments that an approver put in place of the model's, and what is needed to judge them (K7). */
export interface EditedCall {
  readonly tool: string;
  /** The arguments as the approver wrote them, not yet parsed by the tool's own schema. */
  readonly arguments: JsonObject;
  /** The rules of the turn's profile. */
  readonly governance: GovernancePolicy;
}

/**
 * An answer as the store keeps it. What the rules look at of edited arguments is found outside, with the tool's schema, which is code of a
 * user and runs in no transaction.
 */
export interface RecordedAnswer extends Omit<ApprovalDecision, 'edited'> {
  /** Present when the approver changed the arguments and the profile has rules that judge them again. */
  readonly edited?: EditedCall;
}

/** Questions to people, and their answers. */
export interface ApprovalStore {
  /**
   * Asks people, and suspends the turn until each question is answered or its time is up (K7, K9). Idempotent by call: a question that was
   * asked before keeps its deadline, and one that has its answer is due at once. Errors: `stale_epoch` (T5); `profile_not_found`.
   */
  askApprovals(fence: Fence, requests: readonly ApprovalRequest[]): Promise<readonly Suspension[]>;
  /**
   * Answers a question about a call or a budget, once (K7, K9). Idempotent by the question: what was answered first stands, and a later
   * answer is a `duplicate`. Errors: `approval_refused` for somebody who may not answer, for arguments that do not fit or that the rules
   * deny, and for a budget without new budgets; `budget_refused` for budgets of a delegated turn that nobody can pay for (K20).
   */
  answerApproval(agentTurnId: string, answer: ApprovalAnswer): Promise<ApprovalAck>;
  /** Lists questions, oldest first, from the first one behind `after` on, at most `limit`. */
  listApprovals(filter: ApprovalFilter, border?: Border): Promise<readonly ApprovalView[]>;
}
