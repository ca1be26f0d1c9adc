/** Questions to people: may this call run, may this budget be extended; and their answers (K7, K9). */
import { z } from 'zod';
import type { BudgetAsk } from '../kernel/budgets.ts';
import type { ApprovalDecision } from '../kernel/events.ts';
import type { JsonObject } from '../protocol/json.ts';
import { type BudgetChange, budgetsSchema } from '../protocol/profile.ts';
import type { ReportAck } from '../protocol/tool-result.ts';

/** Budgets as an operator sets them while the turn runs; what is left out stays. */
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

export const approvalAnswerSchema = z
  .strictObject({
    callId: z.string().min(1).max(128),
    decision: z.enum(['approved', 'denied']),
    /** Who answers; must be among the approvers where the agent names some. */
    by: z.string().min(1).max(200).optional(),
    /** Shown to the model when the call is denied. */
    reason: z.string().max(1_000).optional(),
    /** Runs the call with these instead of the `written` ones: they must match the tool's schema, and the rules judge them again. */
    arguments: z.record(z.string(), z.json()).optional(),
    /** For an exhausted budget: the new ones. */
    budgets: budgetChangeSchema.optional(),
  })
  .refine(({ decision, ...more }) => decision === 'approved' || !(more.arguments || more.budgets), {
    error: 'only an approval may carry arguments or budgets',
  });
export type ApprovalAnswer = z.output<typeof approvalAnswerSchema>;

/** As for a tool result (T14): `duplicate` for one that was answered before, `stale` when the turn is over. */
export type ApprovalAck = Pick<ReportAck, 'agentId'> & { readonly ack: 'applied' | 'duplicate' | 'stale' | 'unknown' };

export type ApprovalStatus = 'waiting' | 'approved' | 'denied' | 'unanswered' | 'dropped';

export interface ApprovalView {
  readonly callId: string;
  readonly agentId: string;
  readonly agentTurnId: string;
  /** The turn that the whole delegation tree started with; itself when nobody delegated. */
  readonly rootTurnId: string;
  readonly kind: 'call' | 'budget';
  /** Of a call. */
  readonly tool: string;
  /** What will run: with the defaults of the tool's schema, and transformed by it. */
  readonly arguments: JsonObject | null;
  /** As the model wrote them; edited arguments take their place, and are parsed like them. */
  readonly written: JsonObject | null;
  readonly reason: string;
  /** Empty: anybody. */
  readonly approvers: readonly string[];
  readonly escalated: boolean;
  readonly deadline: number;
  readonly status: ApprovalStatus;
  readonly answeredBy: string | null;
  readonly createdAt: number;
}

export interface ApprovalFilter {
  /** Those of its whole delegation tree. */
  readonly rootTurnId?: string;
  readonly agentId?: string;
  readonly agentTurnId?: string;
  readonly callId?: string;
  /** Answered ones too. */
  readonly all?: boolean;
  /** Those behind this one in the list: the last one of a page gives the next page. */
  readonly after?: ApprovalPlace;
  readonly limit?: number;
}

/** Where a question stands in the list, which is in this order. */
export type ApprovalPlace = Pick<ApprovalView, 'createdAt' | 'agentTurnId' | 'callId'>;

/** What the turn's workflow asks for. */
export interface ApprovalRequest {
  readonly callId: string;
  readonly kind: 'call' | 'budget';
  readonly tool: string;
  readonly reason: string;
  /** What is used up; absent in what an earlier version asked. */
  readonly budget?: BudgetAsk;
}

export type { ApprovalDecision, BudgetChange };
