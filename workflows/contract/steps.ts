/** The steps of a turn as the store keeps them: what an activity brings, what it gets back, what the workflow is told. */

import type { Delegated } from '../kernel/budgets.ts';
import type { ProposedCall } from '../kernel/calls.ts';
import type { ArgumentFacts } from '../kernel/governance.ts';
import type { BoxExtent } from '../kernel/handles.ts';
import type { Card, CardContents, CardType, ToolResultContent } from '../protocol/cards.ts';
import type { ResultFields } from '../protocol/enqueue.ts';
import type { ProfileSnapshot } from '../protocol/profile.ts';
import type { Usage } from '../protocol/turn.ts';
import type { BudgetChange } from './approvals.ts';
import type { Notice } from './notices.ts';

/** What a turn's budgets are up to, besides what it spends itself (K9). */
export interface BudgetStanding {
  /** Budgets that operators set so far, when there are any: the signal that told of them may have been lost. */
  readonly budgets?: BudgetChange;
  /** Absent when it has delegated nothing. */
  readonly delegated?: Delegated;
}

/** With the budgets as they stand now, whenever the step was recorded. */
export interface StepOutcomeRecord extends BudgetStanding {
  readonly stepIndex: number;
  readonly thoughtCardId: string;
  readonly thoughtSeq: number;
  readonly thoughtTokens: number;
  readonly noteSeq: number | null;
  readonly noteTokens: number;
  readonly steers: readonly { readonly seq: number; readonly tokens: number }[];
  readonly hasText: boolean;
  /** Its output limit cut the model short (K11). */
  readonly truncated?: true;
  /** The model or its content filter refused; the thought says so (W14). */
  readonly refused: boolean;
  readonly calls: readonly ProposedCall[];
  readonly usage: Usage;
  readonly cost: number | null;
  readonly latencyMs: number;
}

/** What comes with the opening of a step. */
export interface StepBegin {
  /** Places in the output box that a rollback takes out of view first (K13). */
  readonly hide?: readonly number[];
  /** Told of once, with a new step. */
  readonly noticed?: readonly Notice[];
  /** Tokens that messages for the turn may take in this step's prompt; unbounded when left out. The first one is shown in any case (T22). */
  readonly room?: number;
}

export interface StepOpening {
  /** Present when the step's thought is already stored: the model is not called again. */
  readonly recorded: StepOutcomeRecord | null;
  readonly snapshot: ProfileSnapshot;
  /** Parsed result fields of the request or the profile, null when none (or malformed, then with a warning). */
  readonly resultFields: ResultFields | null;
  /** Of the request. */
  readonly criteria: readonly string[];
  /** Messages for this turn that the model has not seen; the step that shows them and is committed takes them (T22). */
  readonly steers: readonly Card[];
  readonly warnings: readonly string[];
}

export interface NewCall {
  readonly index: number;
  readonly content: CardContents['tool.call'];
  readonly digest: string;
  /** The skill it takes up (K8). */
  readonly skill?: string;
  readonly facts?: ArgumentFacts;
  /** Its first start is claimed with the step: it may be started twice, and no rule can forbid it (W10). */
  readonly claimed?: true;
  /** A result known at once: refused arguments, or an accepted `submit_result`. */
  readonly result?: ToolResultContent;
}

export interface StepCommit {
  readonly stepIndex: number;
  /** Cards of the steers that were rendered into the request. */
  readonly steerIds: readonly string[];
  readonly note: { readonly type: CardType & `sys.${string}`; readonly text: string } | null;
  readonly thought: CardContents['agent.thought'];
  readonly calls: readonly NewCall[];
  readonly usage: Usage;
  readonly model: string;
  readonly finishReason: string;
  /** In the currency of the app's price list; null when the model is not in it, never 0 for unknown (W17). */
  readonly cost: number | null;
  readonly latencyMs: number;
  readonly firstTokenMs: number | null;
}

/** A summary as it is stored, and what it cost to write. */
export interface SummaryCommit {
  /** Of the step that waits for it: one summary is made before each step at most… in one place of the box. */
  readonly stepIndex: number;
  readonly text: string;
  readonly hide: readonly BoxExtent[];
  readonly usage: Usage;
  readonly cost: number | null;
}

export interface SummaryRecord {
  readonly seq: number;
  readonly tokens: number;
  readonly usage: Usage;
  readonly cost: number | null;
}
