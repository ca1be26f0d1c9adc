/**
 * What each type of card holds. A card is one immutable piece of content: it is validated when it is written, trusted when it is read, and
 * never changed.
 */
import type { FailureCode } from './failures.ts';
import type { JsonObject, JsonValue } from './json.ts';
import type { Deliverable, Usage } from './turn.ts';

/** The content of a card that is nothing but text. */
export interface TextContent {
  readonly text: string;
}

/** One tool call as the model proposed it. */
export interface ThoughtCall {
  /** The id of the call in this runtime. */
  readonly callId: string;
  /** The id that the provider gave the call; it goes back to the provider with the call's result. */
  readonly providerCallId: string;
  readonly name: string;
  /** The raw text of the arguments, so that they go back on the wire exactly as they came. */
  readonly arguments: string;
}

/** What the model answered in one step: its text and the calls it proposed. */
export interface ThoughtContent {
  readonly text: string;
  readonly toolCalls: readonly ThoughtCall[];
  /** Why the model or its content filter refused to answer; absent when it did not refuse. */
  readonly refusal?: string;
}

/** A proposed call whose arguments have been parsed. */
export interface ToolCallContent {
  readonly callId: string;
  readonly tool: string;
  readonly arguments: JsonObject;
}

/** The statuses of a finished call (T14). A report may also say `running`, which is a heartbeat and never reaches a card. */
export const RESULT_STATUSES = ['success', 'failed', 'timeout', 'canceled', 'partial'] as const;
/** The status of a finished call. */
export type ResultStatus = (typeof RESULT_STATUSES)[number];

/**
 * What may follow a finished call (T19): `continue` goes on to the next step, `suspend` makes the call wait for a report from outside,
 * `terminate` ends the turn.
 */
export const AFTER_EXECUTION = ['continue', 'suspend', 'terminate'] as const;
/** What follows a finished call (T19). */
export type AfterExecution = (typeof AFTER_EXECUTION)[number];

/** Why a call had no success, written for the model (T20). */
export interface ToolError {
  /** A code of the catalogue, or one of the tool's own. */
  readonly code: FailureCode | (string & {});
  readonly message: string;
  /**
   * What sort of failure it was: `fatal` and `user_interrupt` take the whole step back, the others are shown to the model unless the
   * profile's `rollbackOn` names them (K13).
   */
  readonly kind?: 'recoverable' | 'fatal' | 'provider_failure' | 'timeout' | 'user_interrupt';
  /** Whether the same call may succeed later. */
  readonly retryable?: boolean;
  readonly detail?: JsonValue;
}

/** The result of a call. `error` is present exactly when `status` is not `success` (T20). */
export interface ToolResultContent {
  readonly callId: string;
  readonly tool: string;
  readonly status: ResultStatus;
  /** What follows the call, decided among the result's own wish, the report's and the tool's default (T19). */
  readonly afterExecution: AfterExecution;
  readonly result?: JsonValue;
  readonly error?: ToolError;
  /** What the approver changed or said, which is shown to the model (K7); absent when the call ran as it was proposed. */
  readonly approval?: { readonly by?: string; readonly reason?: string; readonly arguments?: JsonObject };
}

/**
 * A text that stands for older cards of its box (K15). `usage` and `cost` are what writing it took; `cost` is null when the price of the
 * model is unknown.
 */
export interface SummaryContent extends TextContent {
  readonly usage?: Usage;
  readonly cost?: number | null;
}

/** What a tool outside produced. It is written as a card first and then reported by the card's id (T18). */
export interface ToolOutputContent {
  readonly value: JsonValue;
}

/** The content that each type of card has. */
export interface CardContents {
  /** What a turn is asked to do, or what a user said to a turn that ran. */
  readonly 'task.instruction': TextContent;
  readonly 'task.deliverable': Deliverable;
  readonly 'tool.output': ToolOutputContent;
  readonly 'agent.thought': ThoughtContent;
  readonly 'tool.call': ToolCallContent;
  readonly 'tool.result': ToolResultContent;
  /** Tells the model by which tools it must end its turn (W13). */
  readonly 'sys.must_end_with_required': TextContent;
  /** Asks the model for its final report under an exhausted budget (K9). */
  readonly 'sys.final_report': TextContent;
  /** Tells the model that its last step was taken back, and why (K13). */
  readonly 'sys.rolled_back': TextContent;
  /** Asks the model to continue an answer that the output limit cut off (K11). */
  readonly 'sys.go_on': TextContent;
  /** One text of a context box, as its writer gave it. */
  readonly 'context.note': TextContent;
  readonly 'context.summary': SummaryContent;
}

/** The type of a card, as the store names it. */
export type CardType = keyof CardContents;

/** A card as it is read from the store; `type` tells which content it has. */
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
