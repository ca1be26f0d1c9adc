/** A call of the model, as far as it is more than the conversation. Only types: the funnel fills them in, the model activity renders them. */
import type { Termination } from '../protocol/turn.ts';

/** A note that the runtime writes into the conversation, as a card of its own, before it calls the model. */
export type Note =
  /** The turn can only end with one of these tools, and the model ended without one (W13). */
  | { readonly kind: 'must_end_with'; readonly tools: readonly string[] }
  /** A budget is used up, and this is the last call: the model is asked for its report (K9). */
  | { readonly kind: 'final_report'; readonly reason: string }
  /** The last step was taken back (K13). */
  | { readonly kind: 'rolled_back'; readonly reason: string }
  /** The answer was cut short, and the model is asked to go on with it (K11). */
  | { readonly kind: 'go_on' };

/** What a model call carries besides its plan. */
export interface CallExtra {
  /** The names of the only tools to offer; absent when all tools of the profile are. */
  readonly onlyTools?: readonly string[];
  /** Present when the model must call one of the offered tools. */
  readonly requireTool?: true;
  readonly note?: Note;
}

/** A call of the model that is under way, or waits for a summary that makes room for it. */
export interface ModelCall {
  readonly extra: CallExtra;
  /** How the turn ends when the call is the final report of an exhausted budget (K9); null for every other call. */
  readonly ending: Termination | null;
}
