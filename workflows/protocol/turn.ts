/** Statuses and shapes of a turn, shared by store, workflows and clients. */
import type { FailureCode } from './failures.ts';
import type { JsonValue } from './json.ts';

export type HeadStatus = 'idle' | 'dispatched' | 'running' | 'suspended';

/** What an operator wants of an agent; `status` says what it does. */
export type AgentLifecycle = 'started' | 'stopped';

/** Terminal statuses of a turn (T8). */
export const TERMINAL_STATUSES = ['success', 'failed', 'partial', 'timeout', 'canceled'] as const;
export type TerminalStatus = (typeof TERMINAL_STATUSES)[number];
export type TurnStatus = 'queued' | 'dispatched' | 'running' | 'suspended' | TerminalStatus;

export const isTerminal = (status: string): status is TerminalStatus =>
  (TERMINAL_STATUSES as readonly string[]).includes(status);

/** Priority lanes, strict between lanes, first in first out inside one (T9). */
export const PRIORITIES = ['now', 'normal', 'background'] as const;
export type Priority = (typeof PRIORITIES)[number];

/**
 * Token usage of one model call or a sum of them; `cached` is part of `input`. `estimated`: of some of it no provider gave a count that can
 * be believed, so we counted.
 */
export interface Usage {
  readonly input: number;
  readonly output: number;
  readonly cached: number;
  readonly estimated?: true;
}

export const addUsage = (a: Usage, b: Usage): Usage => ({
  input: a.input + b.input,
  output: a.output + b.output,
  cached: a.cached + b.cached,
  ...(a.estimated || b.estimated ? { estimated: true } : {}),
});

/** For people: a tilde says that it is about so many. */
export const shownTokens = (tokens: number, { estimated }: Usage): string => `${estimated ? '~' : ''}${tokens}`;

/** What the engine itself spent on a turn; billable Actions by Temporal's table, retries not counted (W17). */
export interface EngineUsage {
  readonly historyEvents: number;
  readonly historyBytes: number;
  readonly actions: number;
}

export const NO_USAGE: Usage = { input: 0, output: 0, cached: 0 };

/** The lease under which a turn may write: checked by every store write (T5). */
export interface Fence {
  readonly agentId: string;
  readonly agentTurnId: string;
  readonly turnEpoch: number;
}

/** How a turn ended. `errorCode` is absent when `status` is `success`; a catalogue code, or that of a terminating tool (T8). */
export interface Termination {
  readonly status: TerminalStatus;
  readonly errorCode?: FailureCode | (string & {});
  readonly reason?: string;
}

export interface DeliverableField {
  readonly name: string;
  readonly value: JsonValue;
}

/** What a deliverable card holds (T28): text, or named fields; `fallback` marks a best-effort one (T7). */
export interface Deliverable {
  readonly text?: string;
  readonly fields?: readonly DeliverableField[];
  readonly fallback?: { readonly reason: string; readonly toolResults: number; readonly lastThought?: string };
  /** Bytes in UTF-8 of the text as it was written; only where a card could not hold all of it. */
  readonly wholeBytes?: number;
}
