/** What an operator asks of a whole store: which turns there are, what they cost, what waits for people. Times are in epoch ms by the store's clock. */

import type { JsonObject } from '../protocol/json.ts';
import type { TurnStatus, Usage } from '../protocol/turn.ts';
import type { Border } from './border.ts';

/** Where a turn stands in the list of all turns, which is ordered by these. */
export interface TurnPlace {
  readonly acceptedAt: number;
  readonly agentTurnId: string;
}

/** Which turns of the store are listed, the newest first. */
export interface TurnQuery {
  /** Turns in one of these statuses; in any when left out. */
  readonly status?: readonly TurnStatus[];
  readonly profile?: string;
  readonly agentId?: string;
  /** Turns that were accepted at that time or later; all when left out. Where few turns fit the filter, a late time makes the list cheap. */
  readonly since?: number;
  /** Turns older than this one: the last one of a page gives the next page. */
  readonly before?: TurnPlace;
  /** The most turns to list; 100 when left out. */
  readonly limit?: number;
}

/** A turn in a list, without its steps. */
export interface TurnSummary extends TurnPlace {
  readonly agentId: string;
  /** The profile that its request names, or else that of its agent. */
  readonly profile: string;
  readonly status: TurnStatus;
  /** Null while the turn has not ended, and when it succeeded. */
  readonly errorCode: string | null;
  /** Why the turn ended as it did; null when its status says all there is. */
  readonly reason: string | null;
  /** The first characters of the instruction. */
  readonly asked: string;
  readonly usage: Usage;
  /** Sum over the steps; null before the first step, and as soon as the cost of one is unknown. */
  readonly cost: number | null;
  readonly stepCount: number;
  /** Null until its first step was opened. */
  readonly startedAt: number | null;
  /** Null until the turn has ended. */
  readonly endedAt: number | null;
}

/** What is added up of the turns of one agent, or of one profile. */
export interface Spending {
  /** The agent or the profile. */
  readonly of: string;
  readonly turns: number;
  readonly failed: number;
  /** Input and output tokens. */
  readonly tokens: number;
  /** In the currency of the price list; turns whose cost is not known are left out. */
  readonly cost: number;
  /** Turns with steps whose cost is not known. */
  readonly uncosted: number;
}

/** Over what is added up. */
export interface SpendingQuery {
  readonly by: 'agent' | 'profile';
  /** Turns that were accepted at that time or later. */
  readonly since: number;
  /** The most lines, those that cost most first; 100 when left out. */
  readonly limit?: number;
}

/** Something that waits for somebody outside: a person, or whoever brings a tool's result. */
export interface InboxEntry {
  /** `approval`: a call that needs it. `budget`: a larger budget. `result`: the result of a tool that suspends. */
  readonly kind: 'approval' | 'budget' | 'result';
  readonly callId: string;
  readonly agentId: string;
  readonly agentTurnId: string;
  /** The tool of the call; empty for a budget. */
  readonly tool: string;
  /** The arguments that will run, or ran; null for a budget. */
  readonly arguments: JsonObject | null;
  /** The arguments as the model wrote them, which an edit takes the place of; null for a budget and for a result. */
  readonly written: JsonObject | null;
  /** Why it is asked; null for a result. */
  readonly reason: string | null;
  /** Who may answer; empty when anybody may. */
  readonly approvers: readonly string[];
  readonly deadline: number;
  /** Turns that wait in the agent's inbox behind the one that asks. */
  readonly queuedBehind: number;
  readonly createdAt: number;
}

/** Where an entry stands in the list, which is ordered by these. */
export type InboxPlace = Pick<InboxEntry, 'createdAt' | 'agentTurnId' | 'callId'>;

/** Which entries are listed, the oldest first. */
export interface InboxQuery {
  /** Entries behind this one: the last one of a page gives the next page. */
  readonly after?: InboxPlace;
  /** Of this agent; of all when left out. */
  readonly agentId?: string;
  /** The most entries to list; 100 when left out. */
  readonly limit?: number;
}

/** Lists over the whole store. Each reads a page by an index, or what a time bounds. */
export interface ListStore {
  /** Lists turns, the newest first. */
  findTurns(query?: TurnQuery, border?: Border): Promise<readonly TurnSummary[]>;
  /** Adds up what turns spent, by agent or by profile. It reads all turns since then. */
  spending(query: SpendingQuery, border?: Border): Promise<readonly Spending[]>;
  /** Lists what waits for somebody outside, the oldest first. */
  listInbox(query?: InboxQuery, border?: Border): Promise<readonly InboxEntry[]>;
}
