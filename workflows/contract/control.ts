/** What an operator does to a turn or an agent: stop, steer, set budgets, set the lifecycle (T8, T10, T21, T22, K9). */

import type { BudgetChange } from '../protocol/profile.ts';
import type { AgentLifecycle } from '../protocol/turn.ts';
import type { Border } from './border.ts';
import type { Handover } from './lease.ts';

/** The answer to a stop. */
export interface StopAck {
  /** `stopped`: the open turn has ended. `canceled`: it was still queued. `already_ended`: nothing was changed. `unknown`: no such turn. */
  readonly ack: 'stopped' | 'canceled' | 'already_ended' | 'unknown';
  /** The agent of the turn; absent when the turn is unknown. */
  readonly agentId?: string;
  /** How many messages the turn had not read: they went with it, each with a `dropped` event. Absent when there were none. */
  readonly droppedSteers?: number;
}

/** How a turn is broken off. */
export interface BreakOff {
  /** Takes its cards out of what its agent remembers, as if it had not been. */
  readonly rollback?: boolean;
  readonly reason: string;
}

/** A stop, and what follows from it. */
export interface Stopped extends StopAck {
  /** Null when nothing was ended. */
  readonly handover: Handover | null;
}

/** The answer to a message for a turn. */
export interface SteerAck {
  /** `stale`: the turn has ended, and the message is to be enqueued as a request of its own. `unknown`: no such turn. */
  readonly ack: 'accepted' | 'stale' | 'unknown';
  /** The agent of the turn; absent when the turn is unknown. */
  readonly agentId?: string;
  /** The place of the message among all that came for the turn, from 1; present when it was accepted. */
  readonly seq?: number;
}

/** What setting budgets has done. */
export interface BudgetsChanged {
  readonly agentId: string;
  /** Whether any budget is another one than before: then a turn that runs is to be woken. */
  readonly changed: boolean;
}

/** What setting the lifecycle of an agent has done. */
export interface LifecycleChange {
  /** The active turn that the stop has ended; null when there was none. */
  readonly stoppedTurnId: string | null;
  readonly handover: Handover;
}

/** Each method is final by itself; workflows are told afterwards, and only so that they let go of what they hold. */
export interface ControlStore {
  /**
   * Ends a turn at once: a queued one `canceled`, an open one `failed` with the code `stopped` and the epoch raised (T8, T21). Idempotent
   * by the turn: one that has ended already stays as it is.
   */
  stopTurn(agentTurnId: string, reason: string): Promise<Stopped>;
  /**
   * Ends a turn as `stopTurn` does, but for its messages: those that it has not read become the agent's next turn. With `rollback` its cards are
   * left out of what the agent remembers (C8). Idempotent as `stopTurn` is: an ended turn stays as it is, and is not rolled back.
   */
  breakOffTurn(agentTurnId: string, how: BreakOff): Promise<Stopped>;
  /**
   * Queues a message that the turn reads with its next step (T22). Idempotent by `key`: the same message again changes nothing; without a
   * key each call queues one. Errors: `inbox_full` when too many messages of the turn are unread; `idempotency_conflict` when the key
   * belongs to another message.
   */
  steerTurn(agentTurnId: string, text: string, key?: string, border?: Border): Promise<SteerAck>;
  /**
   * Sets budgets of a queued or open turn; those that are left out stay (K9). A question that the new budgets answer is answered by them.
   * Null when the turn has ended or was never accepted. Idempotent: the same budgets again are no change. Errors: `budget_refused` where a
   * delegated turn would get more than the turn it works for has left (K20).
   */
  setBudgets(agentTurnId: string, budgets: BudgetChange): Promise<BudgetsChanged | null>;
  /**
   * Starts or stops an agent (T10). A stopped one accepts and leases nothing; stopping ends its open turn with this reason, starting leases
   * what is queued. Idempotent: repeating it ends nothing further, and gives the lease of a turn that has not started again. Errors:
   * `agent_not_found`.
   */
  setLifecycle(agentId: string, lifecycle: AgentLifecycle, reason: string): Promise<LifecycleChange>;
}
