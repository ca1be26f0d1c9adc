/** Statuses and shapes of a turn, shared by store, workflows and clients. */
import type { FailureCode } from './failures.ts';
import type { FieldOf, Fields } from './output.ts';

/** What an agent does at the moment, as the head row of its lease says. */
export type HeadStatus = 'idle' | 'dispatched' | 'running' | 'suspended';

/** What an operator wants of an agent; a stopped agent refuses requests from outside and keeps its queue (T10). */
export type AgentLifecycle = 'started' | 'stopped';

/** The statuses in which a turn has ended (T8). */
export const TERMINAL_STATUSES = ['success', 'failed', 'partial', 'timeout', 'canceled'] as const;
/** The status of a turn that has ended (T8). */
export type TerminalStatus = (typeof TERMINAL_STATUSES)[number];
/** The statuses of a turn that has not ended. */
export const OPEN_STATUSES = ['queued', 'dispatched', 'running', 'suspended'] as const;
/** The status of a turn from its acceptance to its end. */
export type TurnStatus = (typeof OPEN_STATUSES)[number] | TerminalStatus;

/** Whether a turn with this status has ended. */
export const isTerminal = (status: string): status is TerminalStatus =>
  (TERMINAL_STATUSES as readonly string[]).includes(status);

/**
 * The lanes of an agent's inbox, the most urgent first. A lane waits for all before it; inside a lane turns are first in, first out (T9).
 */
export const PRIORITIES = ['now', 'normal', 'background'] as const;
/** The lane of an agent's inbox in which a request waits (T9). */
export type Priority = (typeof PRIORITIES)[number];

/** The tokens that one model call, or several together, took. */
export interface Usage {
  readonly input: number;
  readonly output: number;
  /** How many of the input tokens the provider had in its prompt cache. */
  readonly cached: number;
  /** Present when the runtime counted some of the tokens, because no provider gave a count that can be believed. */
  readonly estimated?: true;
}

/** The sum of two usages; it is an estimate as soon as one of them is. */
export const addUsage = (a: Usage, b: Usage): Usage => ({
  input: a.input + b.input,
  output: a.output + b.output,
  cached: a.cached + b.cached,
  ...(a.estimated || b.estimated ? { estimated: true } : {}),
});

/** A number of tokens for people to read; a tilde before it says that it is an estimate. */
export const shownTokens = (tokens: number, { estimated }: Usage): string => `${estimated ? '~' : ''}${tokens}`;

/** What the engine itself spent on a turn (W17). */
export interface EngineUsage {
  readonly historyEvents: number;
  readonly historyBytes: number;
  /** Billable Actions by Temporal's table; retries of activities are not counted. */
  readonly actions: number;
}

/** The usage of a turn that has not called a model. */
export const NO_USAGE: Usage = { input: 0, output: 0, cached: 0 };

/** An attempt at an activity of a turn's workflow. */
export interface ActivityAttempt {
  /** The id of the workflow's run. */
  readonly run: string;
  /** The place of the activity among those of the run, which rises. */
  readonly activity: number;
  /** The number of the attempt, from 1: it rises until the activity is reset. */
  readonly attempt: number;
  /** Whether it is the first one after a reset of the activity; false when absent. */
  readonly afterReset?: boolean;
  /** When it was scheduled, epoch ms by the server's clock, which may be set back: it tells attempts apart, and no order. */
  readonly scheduledAt: number;
}

/**
 * What every write of a turn must present: the agent, the turn and the epoch of its lease. The store writes nothing when its head row says
 * otherwise (T5).
 */
export interface Fence {
  readonly agentId: string;
  readonly agentTurnId: string;
  readonly turnEpoch: number;
  /**
   * The attempt that writes: once a later one of the same turn has written, this one can write nothing. Absent for what no other attempt
   * can overtake.
   */
  readonly acting?: ActivityAttempt;
}

/**
 * Why an answer may not be whole (K11): the limit of the profile, `model.maxTokens`; that of the model or its provider; what this runtime keeps of
 * an answer, and how long it waits for one; or a reason of the provider that is not known.
 */
export type AnswerLimit = 'profile' | 'provider' | 'runtime' | 'unknown';

/** How a turn ended. */
export interface Termination {
  readonly status: TerminalStatus;
  /** A code of the catalogue, or the code of the tool that ended the turn; absent when `status` is `success` (T8). */
  readonly errorCode?: FailureCode | (string & {});
  /** Why the turn ended so, written for people; absent when there is nothing to explain. */
  readonly reason?: string;
}

/** What a turn delivers: a text or named fields (T28), which are those of `Output` where the agent says what it delivers. */
export interface Deliverable<Output extends object = Fields> {
  readonly text?: string;
  readonly fields?: readonly FieldOf<Output>[];
  /**
   * What could be saved of a turn that ended without a deliverable of its own: why it ended, how many results its calls had, and the last
   * text of its model (T7). Absent from a deliverable that the turn made itself.
   */
  readonly fallback?: { readonly reason: string; readonly toolResults: number; readonly lastThought?: string };
  /** The length of the text as it was written, in bytes of UTF-8; present only where a card could not hold all of it. */
  readonly wholeBytes?: number;
}
