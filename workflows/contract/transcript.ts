/** A turn as people read it: what was asked, said, called, answered and delivered, in the order of the conversation. */
import type { ResultStatus, ToolError, ToolResultContent } from '../protocol/cards.ts';
import type { JsonObject, JsonValue } from '../protocol/json.ts';
import type { BudgetChange } from '../protocol/profile.ts';
import type { Deliverable } from '../protocol/turn.ts';
import type { ApprovalStatus } from './approvals.ts';

/** A question to people, and what came of it. Times are in epoch ms by the store's clock. */
export interface AskedQuestion {
  readonly status: ApprovalStatus;
  /** Why it was asked. */
  readonly reason: string;
  /** Who may answer; empty when anybody may. */
  readonly approvers: readonly string[];
  readonly deadline: number;
  /** Who answered; null while nobody has, and for an answer without a name. */
  readonly answeredBy: string | null;
  /** What was said with the answer; null when nothing was. */
  readonly comment: string | null;
  /** Null while nobody has answered. */
  readonly answeredAt: number | null;
}

/** What an entry says. */
type Said =
  /** The instruction of the request. */
  | { readonly kind: 'request'; readonly text: string }
  /** A message of a user for the running turn, where the model read it. */
  | { readonly kind: 'steer'; readonly text: string }
  /** What the model said; `refusal` is present when it, or its content filter, refused to answer. */
  | { readonly kind: 'thought'; readonly stepIndex: number; readonly text: string; readonly refusal?: string }
  /** A call that the model made; `question` is null when nobody was asked about it. */
  | {
      readonly kind: 'call';
      readonly stepIndex: number;
      readonly callId: string;
      readonly tool: string;
      readonly arguments: JsonObject;
      readonly question: AskedQuestion | null;
    }
  /** What a call came to. */
  | {
      readonly kind: 'result';
      readonly callId: string;
      readonly tool: string;
      readonly status: ResultStatus;
      readonly result?: JsonValue;
      readonly error?: ToolError;
      readonly approval?: ToolResultContent['approval'];
    }
  /** An operator was asked for a larger budget (K9); `budgets` are those that operators have set by now, null for none. */
  | ({ readonly kind: 'budget'; readonly callId: string; readonly budgets: BudgetChange | null } & AskedQuestion)
  /** What the runtime said to the model. */
  | { readonly kind: 'note'; readonly text: string }
  /** A text that stands for older entries. */
  | { readonly kind: 'summary'; readonly text: string }
  | { readonly kind: 'deliverable'; readonly deliverable: Deliverable };

/** An entry of a transcript. */
export type TranscriptEntry = Said & {
  /**
   * Its place in the turn's output box; that of the entry before it where it has none. The last one of a page gives the next page. A question
   * about a budget comes with the card that it was asked behind, not with the page after it.
   */
  readonly seq: number;
  /** When it was written, epoch ms by the store's clock. */
  readonly at: number;
  /** Why the model does not see it any more: it was taken back (K13), or a summary stands for it (K15). Null while it does. */
  readonly hidden: 'rolled_back' | 'summarised' | null;
};

/** Which entries are read. */
export interface TranscriptPage {
  /** Reads entries behind this place; from the first one on when left out. */
  readonly after?: number;
  /** The most cards to read; 100 when left out. A card may hold a megabyte. */
  readonly limit?: number;
}
