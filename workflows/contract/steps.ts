/** The steps of a turn as the store keeps them: what an activity brings, what it gets back, what the workflow is told. */

import type { WorkEffect } from '../agent-state/effects.ts';
import type { ProposedCall } from '../kernel/calls.ts';
import type { ArgumentFacts } from '../kernel/governance.ts';
import type { BoxExtent } from '../kernel/handles.ts';
import type { Card, CardContents, CardType, ToolResultContent } from '../protocol/cards.ts';
import type { ResultFields } from '../protocol/enqueue.ts';
import type { ProfileSnapshot } from '../protocol/profile.ts';
import type { AnswerLimit, Fence, Usage } from '../protocol/turn.ts';
import type { BetweenSteps } from './between-steps.ts';
import type { InboxDelivery, InboxMark } from './inbox.ts';
import type { Notice } from './notices.ts';

/** The beginnings of what a step said and proposed, for the workflow page of the Web UI: a few hundred bytes, whatever the model wrote. */
export interface ShownStep {
  readonly text: string;
  /** The arguments of its first calls, by call id. */
  readonly calls: Readonly<Record<string, string>>;
}

/**
 * What a committed step has brought, with what is in the turn's inbox: when it is read, where the workflow itself asked for the step and its
 * history keeps what came; when it was committed, where a burst asked, so that another attempt decides by the same.
 */
export interface StepOutcomeRecord extends InboxDelivery {
  readonly stepIndex: number;
  readonly thoughtCardId: string;
  /** The place of the thought in the output box. */
  readonly thoughtSeq: number;
  readonly thoughtTokens: number;
  /** The place of the note that was asked for; null when there was none. */
  readonly noteSeq: number | null;
  /** Tokens of the note; 0 when there was none. */
  readonly noteTokens: number;
  /** Messages of users that this step took into the conversation, by their places in the output box. */
  readonly steers: readonly { readonly seq: number; readonly tokens: number }[];
  /** When the model had answered, epoch ms by the clock of the workflow; absent where a burst did not ask. */
  readonly answeredAt?: number;
  /** Whether the model said anything besides its calls. */
  readonly hasText: boolean;
  /** Whose limit cut the model short; absent when none did (K11). */
  readonly truncated?: AnswerLimit;
  /** Whether the model or its content filter refused; the thought says so (W14). */
  readonly refused: boolean;
  readonly calls: readonly ProposedCall[];
  /** What the Web UI shows of it; absent where the profile keeps titles private. */
  readonly shown?: ShownStep;
  readonly usage: Usage;
  /** In the currency of the app's price list; null when the price is not known. */
  readonly cost: number | null;
  readonly latencyMs: number;
}

/** A step that is to be opened, and what comes with it. */
export interface StepBegin extends InboxMark {
  readonly stepIndex: number;
  /** The version of the profile that the turn was leased with. */
  readonly profileHash: string;
  /** Places in the output box that a rollback takes out of view first (K13). */
  readonly hide?: readonly number[];
  /** What the kernel did on its own account; written once, with a step that is new. */
  readonly noticed?: readonly Notice[];
  /**
   * Tokens that messages for the turn may take in this step's prompt; unbounded when left out. The first one is shown in any case (T22).
   */
  readonly room?: number;
  /** What led to it from the step before, where no history says so yet; written once, with a step that is new. */
  readonly ledBy?: readonly BetweenSteps[];
}

/** What a model call needs to know of its turn. */
export interface StepOpening {
  /** The outcome of a step that is committed already: the model is not called again. Null for one that is not. */
  readonly recorded: StepOutcomeRecord | null;
  readonly snapshot: ProfileSnapshot;
  /** The result fields of the request, or else of the profile; null when there are none. */
  readonly resultFields: ResultFields | null;
  /** What the request says must be true of the result (K14). */
  readonly criteria: readonly string[];
  /** Messages for this turn that the model has not seen; the step that shows them and is committed takes them (T22). */
  readonly steers: readonly Card[];
  /** How many attempts have opened the step, this one included. */
  readonly openings: number;
  /** That the provider has failed this step before; null when it has not. */
  readonly outage: OpenOutage | null;
  /** What is wrong with the profile and yet no error, for the worker's log. */
  readonly warnings: readonly string[];
}

/**
 * That the provider fails the model call of a step, which is tried again until the patience of the profile is used up (W14). Times in epoch ms
 * by the store's clock.
 */
export interface ProviderOutage {
  /** `provider_auth`: the credentials are refused, and an operator must correct them. */
  readonly code: 'provider_error' | 'provider_auth';
  /** What the provider answered, in our words, and what to check. */
  readonly message: string;
  /** How many attempts it has failed. */
  readonly failures: number;
  /** When it failed the first of them. */
  readonly since: number;
  readonly nextTryAt: number;
}

/** An outage as an attempt at the model call finds it. */
export interface OpenOutage extends Pick<ProviderOutage, 'failures'> {
  /** How long ago the provider failed first, in ms. */
  readonly forMs: number;
}

/** An attempt at a model call that the provider has failed and that is made again. */
export interface FailedAttempt extends Pick<ProviderOutage, 'code' | 'message'> {
  readonly stepIndex: number;
  /** When the attempt was scheduled, epoch ms by the Temporal server's clock: each attempt at the step has another one, also in another burst. */
  readonly attempt: number;
  readonly retryInMs: number;
}

/** A call that the model proposed in a step. */
export interface NewCall {
  /** Its place among the calls of the step, from 0. */
  readonly index: number;
  readonly content: CardContents['tool.call'];
  /** The digest of its canonical arguments, by which repetitions are found (K4). */
  readonly digest: string;
  /** The skill that the call takes up; absent when it takes up none (K8). */
  readonly skill?: string;
  /** What governance rules look at; absent when they look at nothing (K6). */
  readonly facts?: ArgumentFacts;
  /** Present when its first start is claimed with the step: it may be started twice, and no rule can forbid it (W10). */
  readonly claimed?: true;
  /** A result that is known at once: refused arguments, or an accepted `submit_result`. */
  readonly result?: ToolResultContent;
  /** What the call changes of its agent's work with the commit of its turn; it has a result then (A7). */
  readonly effect?: WorkEffect;
}

/** What a model call has brought, as it is committed. */
export interface StepCommit extends InboxMark {
  readonly stepIndex: number;
  /** Cards of the steers that were rendered into the prompt. */
  readonly steerIds: readonly string[];
  /** What the runtime had to say to the model with this step; null when it had nothing to say. */
  readonly note: { readonly type: CardType & `sys.${string}`; readonly text: string } | null;
  readonly thought: CardContents['agent.thought'];
  readonly calls: readonly NewCall[];
  /** As in `StepOutcomeRecord`. */
  readonly answeredAt?: number;
  /** As in `StepOutcomeRecord`. */
  readonly shown?: ShownStep;
  readonly usage: Usage;
  /** The model that answered, as the provider names it. */
  readonly model: string;
  readonly finishReason: string;
  /** As in the record. */
  readonly truncated?: AnswerLimit;
  /** In the currency of the app's price list; null when the model is not in it, never 0 for unknown (W17). */
  readonly cost: number | null;
  readonly latencyMs: number;
  /** Ms until the first token came; null when nothing was streamed. */
  readonly firstTokenMs: number | null;
}

/** A step that a burst has opened, and what led to it from the one before. */
export interface LedStep {
  readonly stepIndex: number;
  readonly ledBy: readonly BetweenSteps[];
}

/** A step that is given up. */
export interface StepClose extends InboxMark {
  readonly stepIndex: number;
  /** As in `StepBegin`; written where no attempt has opened the step. */
  readonly noticed?: readonly Notice[];
}

/** A summary to be stored. */
export interface SummaryCommit {
  /** The step that waits for the summary. */
  readonly stepIndex: number;
  readonly text: string;
  /** What the summary stands for: it leaves the view. */
  readonly hide: readonly BoxExtent[];
  /** What was spent to write it. */
  readonly usage: Usage;
  /** The cost of writing it; null when the price is not known. */
  readonly cost: number | null;
}

/** A stored summary, and what it cost to write. */
export interface SummaryRecord {
  /** The place of the summary in the output box. */
  readonly seq: number;
  readonly tokens: number;
  readonly usage: Usage;
  /** Null when the price is not known. */
  readonly cost: number | null;
}

/** The steps of a turn: one model call each, and the summaries that make room for it. */
export interface StepStore {
  /**
   * Opens a step before its model call: the first one moves the turn to `running` (T12), and messages that wait are handed over (T22).
   * Idempotent by turn and step: a step that was opened is opened again, and one that is committed comes back as `recorded`. Errors:
   * `stale_epoch` (T5); `step_closed` when the turn has gone on without the step (K13); `profile_not_found` and `store_corrupt` for the
   * profile of that hash.
   */
  openStep(fence: Fence, begin: StepBegin): Promise<StepOpening>;
  /**
   * Commits thought, calls and usage of a step, and takes the messages that it rendered into the conversation. Idempotent by turn and step:
   * the first writer wins, and another attempt gets what was recorded (T5). Errors: `stale_epoch` (T5); `step_closed` when the turn has
   * gone on without the step (K13); `payload_too_large` for a card over the limit.
   */
  commitStep(fence: Fence, commit: StepCommit): Promise<StepOutcomeRecord>;
  /**
   * Reads what led to the steps that bursts have opened, from the one of that index on, in their order; steps that the workflow itself asked
   * for are left out. It is the first thing that another attempt at a burst does: from then on no attempt before it can write (W10). Errors:
   * `stale_epoch`, `call_overtaken` (T5).
   */
  readLedSteps(fence: Fence, fromStep: number): Promise<readonly LedStep[]>;
  /**
   * Gives up a step whose model call has failed, before the turn goes on without it: from then on no late attempt can open or commit it
   * (`step_closed`). Returns what was recorded when an attempt was faster, and then closes nothing; null when the step is closed (K13).
   * Idempotent by turn and step. Errors: `stale_epoch` (T5).
   */
  closeStep(fence: Fence, close: StepClose): Promise<StepOutcomeRecord | null>;
  /**
   * Writes down that the provider has failed an attempt at the model call of a step, and when the next one is made; readers see the turn wait
   * for its provider until the step is committed (W14). Returns the outage so far. Idempotent by step and attempt; nothing is written for a step
   * that is committed or given up, and null is returned. Errors: `stale_epoch` (T5).
   */
  noteOutage(fence: Fence, failed: FailedAttempt): Promise<ProviderOutage | null>;
  /** Finds the summary of these extents; null when it is not in the output box. Errors: `stale_epoch`, `call_overtaken` (T5). */
  findSummary(fence: Fence, hide: readonly BoxExtent[]): Promise<SummaryRecord | null>;
  /**
   * Puts a summary into the output box and what it stands for out of view (K15). Idempotent by turn and extents: a summary that is there is
   * returned, and nothing is written. Errors: `stale_epoch` (T5); `payload_too_large`.
   */
  commitSummary(fence: Fence, commit: SummaryCommit): Promise<SummaryRecord>;
  /**
   * Reads what is in the turn's inbox between two steps, which is no answer: those come where the turn checks its waits. Idempotent by the
   * mark. Errors: `stale_epoch` (T5).
   */
  readInbox(fence: Fence, mark?: InboxMark): Promise<InboxDelivery>;
}
