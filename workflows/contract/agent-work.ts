/** What an agent has between its turns, and what comes for it: work items, waits, timers, triggers (A4, A7–A10). Times are in epoch ms. */

import type { TriggerKind } from '../agent-state/continuation.ts';
import type { AgentWork } from '../agent-state/effects.ts';
import type { ActiveTimer } from '../agent-state/timers.ts';
import type { WaitKind, WaitStatus } from '../agent-state/waits.ts';
import type { ScheduledWorkItem } from '../agent-state/work-items.ts';
import type { Fence } from '../protocol/turn.ts';
import type { Border } from './border.ts';
import type { Handover } from './lease.ts';

/** Something that has come for an agent and makes a turn, now or when the agent is free. A time that comes again meanwhile is one. */
export interface Came {
  readonly kind: TriggerKind;
  /** The id of what it comes from: a wait, a work item, a turn, a timer, a trigger. */
  readonly source: string;
  /** What it is, for the model. */
  readonly reason: string;
  /** How often it came; what somebody sends is one each time. */
  readonly count: number;
  /** The card with what it brought; null when it brought nothing. */
  readonly cardId: string | null;
  /** Present for the deadline or the recheck of a wait or of a work item. */
  readonly due?: true;
}

/** A time that has come for an agent. */
export interface DueWake {
  readonly agentId: string;
  readonly of: 'wait' | 'work_item' | 'timer';
  /** The id of the wait, of the work item or of the timer. */
  readonly id: string;
  readonly dueAt: number;
}

/** The work of an agent, and the time by which it stands so. */
export interface WorkReading {
  readonly work: AgentWork;
  readonly nowMs: number;
}

/** Work items and waits for the turns of their agent, and what is due of them for the supervisor. */
export interface WorkStore {
  /**
   * Reads the open work and the waits of the fence's agent, with what the calls of its open turn have changed and not committed yet. Reads
   * only: the lease is not checked.
   */
  readWork(fence: Pick<Fence, 'agentId' | 'agentTurnId'>): Promise<WorkReading>;
  /** Reads what came with that card, whole, once the fence's agent was told of it; null when it was not (A9). The lease is not checked. */
  readWake(fence: Pick<Fence, 'agentId'>, cardId: string): Promise<string | null>;
  /**
   * Reads the times that have come, those first that have been due for longest, at most `limit`; behind them those that were written while a
   * clock was ahead. Agents that are stopped have none.
   */
  dueWakes(limit: number): Promise<readonly DueWake[]>;
  /**
   * Acts on a time that has come: ends the wait whose deadline it is, and makes a turn of the agent, or keeps it for the end of the open one.
   * What was written while a clock was ahead is counted from now first. Idempotent: null when it is not due any more, or not yet.
   */
  fireWake(due: DueWake): Promise<Handover | null>;
  /** Makes a time that could not be acted on due again at `until`; nothing when it has been acted on meanwhile. */
  putOffWake(due: DueWake, until: number): Promise<void>;
  /** Forgets the keys of deliveries that came longer ago, at most `most` of them; returns how many. */
  dropDeliveries(olderThanMs: number, most: number): Promise<number>;
}

/** A wait as readers see it. */
export interface WaitView {
  readonly waitId: string;
  readonly kind: WaitKind;
  /** The work item that waits; null when the agent itself does. */
  readonly workItemId: string | null;
  /** What exactly is waited for: a turn, a trigger, a timer; null for any of its kind. */
  readonly resource: string | null;
  readonly reason: string;
  readonly status: WaitStatus;
  /** When the agent checks by itself next; null for not before the deadline. */
  readonly recheckAt: number | null;
  readonly deadline: number;
  /** The turn that began to wait. */
  readonly agentTurnId: string;
  readonly createdAt: number;
  /** Null while it is active. */
  readonly endedAt: number | null;
  /** The id of what ended it, or `deadline`; null while it is active. */
  readonly endedBy: string | null;
}

/** A trigger as readers see it: never its token. */
export interface TriggerView {
  readonly triggerId: string;
  readonly name: string;
  /** How often it was hit, repeated deliveries not counted. */
  readonly hits: number;
  /** Null when it was never hit. */
  readonly lastHitAt: number | null;
  /** Null while it is in use. */
  readonly revokedAt: number | null;
  readonly createdAt: number;
}

/** A trigger that is to be made. */
export interface NewTrigger {
  readonly triggerId: string;
  /** What it is for, in a word. */
  readonly name: string;
  /** SHA-256 of its token, in hex. */
  readonly tokenHash: string;
}

/** What somebody outside has sent to a trigger, or says to wake an agent. */
export interface WakeDelivery {
  /** What is said; null for nothing, which costs no model call (A4). */
  readonly text: string | null;
  /** By which its sender repeats it: it counts once. */
  readonly key?: string;
}

/**
 * What has become of a delivery. `woken`: a turn was made of it. `kept`: the agent has an open turn, or is not to be woken by it, and gets it
 * with its next own turn. `noted`: it said nothing. `duplicate`: it was delivered before.
 */
export type WakeDisposition = 'woken' | 'kept' | 'noted' | 'duplicate';

/** The answer to a delivery. */
export interface WakeAck {
  readonly agentId: string;
  readonly disposition: WakeDisposition;
}

/** A delivery, and what follows from it. */
export interface Woken extends WakeAck {
  readonly handover: Handover;
}

/** A page of what an agent has; the ids of `after` are those of the last entry of the page before. */
export interface WorkPage {
  /** Lists only what is open, active or in use; all when left out. */
  readonly open?: boolean;
  readonly after?: string;
  /** The most entries; 100 when left out. */
  readonly limit?: number;
}

/** What those outside do with the work and the triggers of an agent. */
export interface WakeStore {
  /** Lists work items of an agent, the oldest first. */
  listWorkItems(agentId: string, page?: WorkPage): Promise<readonly ScheduledWorkItem[]>;
  /** Lists waits of an agent, the oldest first. */
  listWaits(agentId: string, page?: WorkPage): Promise<readonly WaitView[]>;
  /** Lists the timers of an agent that will fire, the oldest first. */
  listTimers(agentId: string): Promise<readonly ActiveTimer[]>;
  /** Cancels a timer; false when the agent has no such timer that will fire. */
  cancelTimer(agentId: string, timerId: string): Promise<boolean>;
  /** Lists triggers of an agent, the oldest first. */
  listTriggers(agentId: string, page?: WorkPage): Promise<readonly TriggerView[]>;
  /** Makes a trigger. Errors: `agent_not_found`; `invalid_request` when the agent has too many. */
  createTrigger(agentId: string, trigger: NewTrigger, border?: Border): Promise<TriggerView>;
  /** Revokes a trigger, for good. Idempotent; false when the agent has no such trigger. */
  revokeTrigger(agentId: string, triggerId: string): Promise<boolean>;
  /**
   * Takes what somebody has sent to the trigger with this token, and wakes its agent where the agent is to be woken. Null when no trigger in
   * use has such a token. Errors: `agent_stopped`.
   */
  fireTrigger(tokenHash: string, delivery: WakeDelivery): Promise<Woken | null>;
  /** Wakes an agent as the system does, with a reason. Errors: `agent_not_found`, `agent_stopped`. */
  wakeAgent(agentId: string, delivery: WakeDelivery, border?: Border): Promise<Woken>;
}
