/**
 * What a prompt of this turn can show, and with how much of it (K3, K15): the part of the state that pressure.ts measures and eviction.ts
 * makes smaller.
 */
import type { BoxExtent, Handle } from './handles.ts';

/** How much of the window prompts may fill; sizes in tokens. */
export interface ContextConfig {
  /** What the model takes at once, its answer included. */
  readonly windowTokens: number;
  /** The part of the window that is kept for the answer. */
  readonly answerTokens: number;
  /** The system text and the tools, which are part of every prompt. */
  readonly fixedTokens: number;
}

/** The cards of one earlier turn, or of a box that came with the request; they stay in view, or go, together. */
export interface ContextUnit extends BoxExtent {
  /** Their length in tokens at each residency: rendered whole, snipped, as previews, collapsed. */
  readonly tokens: readonly [full: number, snipped: number, preview: number, collapsed: number];
}

/**
 * Up to which place of the output box results are rendered with less than the whole; of several marks that cover a place the strongest
 * counts.
 */
export interface Marks {
  readonly snipped: number;
  readonly preview: number;
  readonly collapsed: number;
}

/** All results are rendered whole. */
export const NO_MARKS: Marks = { snipped: 0, preview: 0, collapsed: 0 };

/** What is in view besides the cards of this turn, and how much of it all is rendered. */
export interface ContextState {
  /** Earlier turns in the output box, oldest first. */
  readonly earlier: readonly ContextUnit[];
  /** The context boxes that came with the request; they are never shortened. */
  readonly given: readonly ContextUnit[];
  /** The card that stands for all cards that were summarised, rendered before everything else; null until there is one. */
  readonly summary: Handle | null;
  readonly marks: Marks;
  /** How many sprints this turn has begun, each with little more than its task (K16). */
  readonly sprint: number;
  /** By how much the provider counted more than we did for the last prompt, as a factor of at least 1. */
  readonly correction: number;
  /** Our estimate of the last prompt, in tokens; 0 before the first. */
  readonly estimate: number;
  /** How many compactions the provider has forced since it last took a prompt (K11). */
  readonly overflows: number;
  /** When the model last answered, epoch ms: providers forget a cached prompt after a while. */
  readonly activityAt: number;
}

/** The cards in view. */
export interface ViewState {
  /** The box that holds the cards of this turn; empty before `start`. */
  readonly outputBoxId: string;
  /** The cards of this turn that are in view. */
  readonly handles: readonly Handle[];
  readonly context: ContextState;
}

/** The cards in view, with the window they must fit. */
export interface View extends ViewState {
  readonly config: { readonly context: ContextConfig };
}

/** The same view, with results shortened up to these marks. */
export const withMarks = <V extends ViewState>(view: V, marks: Marks): V => ({
  ...view,
  context: { ...view.context, marks },
});

/** The view before the turn starts. */
export const EMPTY_VIEW: ViewState = {
  outputBoxId: '',
  handles: [],
  context: {
    earlier: [],
    given: [],
    summary: null,
    marks: NO_MARKS,
    sprint: 0,
    correction: 1,
    estimate: 0,
    overflows: 0,
    activityAt: 0,
  },
};
