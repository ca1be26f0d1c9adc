/** Content of each card type. Cards are immutable; a card is validated when it is written and trusted when read. */
import type { FailureCode } from './failures.ts';
import type { JsonObject, JsonValue } from './json.ts';
import type { Deliverable, Usage } from './turn.ts';

export interface TextContent {
  readonly text: string;
}

/** A tool call as the model proposed it; `arguments` is the raw text so that it goes back on the wire unchanged. */
export interface ThoughtCall {
  readonly callId: string;
  readonly providerCallId: string;
  readonly name: string;
  readonly arguments: string;
}

export interface ThoughtContent {
  readonly text: string;
  readonly toolCalls: readonly ThoughtCall[];
  readonly refusal?: string;
}

export interface ToolCallContent {
  readonly callId: string;
  readonly tool: string;
  readonly arguments: JsonObject;
}

/** Statuses of a finished call (T14); `running` is a heartbeat and never reaches a card. */
export const RESULT_STATUSES = ['success', 'failed', 'timeout', 'canceled', 'partial'] as const;
export type ResultStatus = (typeof RESULT_STATUSES)[number];

export const AFTER_EXECUTION = ['continue', 'suspend', 'terminate'] as const;
export type AfterExecution = (typeof AFTER_EXECUTION)[number];

export interface ToolError {
  /** A catalogue code, or one of the tool's own. */
  readonly code: FailureCode | (string & {});
  readonly message: string;
  readonly kind?: 'recoverable' | 'fatal' | 'provider_failure' | 'timeout' | 'user_interrupt';
  readonly retryable?: boolean;
  readonly detail?: JsonValue;
}

/** `error` is present exactly when `status` is not `success` (T20). */
export interface ToolResultContent {
  readonly callId: string;
  readonly tool: string;
  readonly status: ResultStatus;
  /** The effective one (T19). */
  readonly afterExecution: AfterExecution;
  readonly result?: JsonValue;
  readonly error?: ToolError;
  /** The approver changed the arguments, or said something: the model is told (K7). */
  readonly approval?: { readonly by?: string; readonly reason?: string; readonly arguments?: JsonObject };
}

/** Stands for older cards of its box; `usage` and `cost` are of writing it. */
export interface SummaryContent extends TextContent {
  readonly usage?: Usage;
  readonly cost?: number | null;
}

/** What a tool outside produced, written before it is reported by the card's id (T18). */
export interface ToolOutputContent {
  readonly value: JsonValue;
}

export interface CardContents {
  readonly 'task.instruction': TextContent;
  readonly 'task.deliverable': Deliverable;
  readonly 'tool.output': ToolOutputContent;
  readonly 'agent.thought': ThoughtContent;
  readonly 'tool.call': ToolCallContent;
  readonly 'tool.result': ToolResultContent;
  readonly 'sys.must_end_with_required': TextContent;
  readonly 'sys.final_report': TextContent;
  readonly 'sys.rolled_back': TextContent;
  readonly 'sys.go_on': TextContent;
  readonly 'context.note': TextContent;
  readonly 'context.summary': SummaryContent;
}

export type CardType = keyof CardContents;

/** A card as read from the store, discriminated by `type`. */
export type Card = {
  [T in CardType]: {
    readonly cardId: string;
    readonly type: T;
    readonly content: CardContents[T];
    readonly agentTurnId: string | null;
    readonly stepIndex: number | null;
    readonly callId: string | null;
    readonly tokens: number;
  };
}[CardType];
