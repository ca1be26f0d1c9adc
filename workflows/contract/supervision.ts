/**
 * What the supervisor asks of the store: which turns are due for a check, and what it may do to them (T12, T23, T29). Times are in epoch
 * ms.
 */
import type { Timeouts } from '../protocol/profile.ts';
import type { Fence, Termination, TurnStatus } from '../protocol/turn.ts';
import type { Handover } from './lease.ts';

/** A turn whose check is due, as the rows of the store describe it. */
export interface DueTurn {
  readonly agentId: string;
  readonly agentTurnId: string;
  /** The epoch of its lease; null while it is queued. */
  readonly turnEpoch: number | null;
  readonly status: TurnStatus;
  /** The target whose workers run the turn; null while it is queued. */
  readonly workerTarget: string | null;
  /** When this check became due: it identifies the schedule that the check may replace. */
  readonly checkAt: number;
  /** The pause before this check; the next one is twice as long while nothing changes. */
  readonly everyMs: number;
  /** When the turn was leased; while it is queued, when it was accepted. */
  readonly leasedAt: number;
  /** When something was last written under the lease. */
  readonly progressAt: number;
  /** The nearest deadline of its waiting calls; null when none waits. */
  readonly resumeDeadline: number | null;
  /** When the whole turn's time is up; null when it is unbounded. */
  readonly endsBy: number | null;
  /** Since when its target was last found without any worker; null while it has workers. */
  readonly noWorkersSince: number | null;
  /** When workers of its target were found again after there had been none; null when there always were. */
  readonly workersSince: number | null;
  /** Whether the store holds results, answers or retries that its workflow has not read. */
  readonly unread: boolean;
  /** When a report that could not be applied yet is to have been tried again; null when none is kept (T18). */
  readonly retryAt: number | null;
  /** When the supervisor woke it for what is unread, or asked it to end itself after its turn had ended; null when it has not. */
  readonly wokenAt: number | null;
  /** Whether the agent has no open turn and is started: its next queued turn may be leased. */
  readonly agentIsFree: boolean;
  /** Whether the turn has ended and the parent that waits for it has not been told (T30). */
  readonly settlementDue: boolean;
  /** Whether its parent's turn ended without success, and its call says that it is to be stopped then. */
  readonly parentGone: boolean;
  /** Whether calls of it wait since a time that is still to come, because a clock was ahead: they are to be counted from now. */
  readonly waitsAhead: boolean;
  /** The timeouts of its pinned profile; null while the turn is queued, and where the profile cannot be read: then nothing is overdue. */
  readonly timeouts: Timeouts | null;
}

/** What identifies the schedule that a check replaces, and whether it was known to be without workers. */
export type CheckedTurn = Pick<DueTurn, 'agentId' | 'agentTurnId' | 'checkAt' | 'noWorkersSince'>;

/** When a turn is checked next, and what was found of its workers; the members mean what they mean in `DueTurn`. */
export interface NextCheck {
  /** Null when the turn needs no further check. */
  readonly checkAt: number | null;
  readonly everyMs: number;
  readonly noWorkersSince: number | null;
  readonly workersSince: number | null;
  readonly wokenAt: number | null;
}

/** What was seen of a turn when its end was decided: an end is refused when the turn has moved since. */
export interface SeenTurn extends Fence {
  readonly status: TurnStatus;
  readonly progressAt: number;
}

/** The lease of the store's one active supervisor. */
export interface SupervisorLease {
  /** Since when some supervisor has been active without a longer break: nothing is judged by times before it. */
  readonly since: number;
  /** Closed workflows have been listed up to this time; null when never. */
  readonly listedUntil: number | null;
}

/** What the supervisor reads and writes. */
export interface SupervisorStore {
  /**
   * Takes the lease of the active supervisor for `ttlMs`, or renews it for the same holder; null while another holder has it. Idempotent by
   * the holder.
   */
  holdSupervisorLease(holder: string, ttlMs: number): Promise<SupervisorLease | null>;
  /** Writes down that closed workflows have been listed up to `listedUntil`; does nothing when `holder` does not have the lease. */
  noteListed(holder: string, listedUntil: number): Promise<void>;
  /** Ends the lease of `holder` at once, so that another supervisor need not wait for its expiry; does nothing when it has none. */
  releaseSupervisorLease(holder: string): Promise<void>;
  /** Until when a supervisor is, or was, active, epoch ms by the store's clock; null when none ever was. */
  supervisedUntil(): Promise<number | null>;
  /**
   * Reads turns whose check is due, those first that have been due for longest, at most `limit`; behind them those whose times were written
   * while a clock was ahead.
   */
  dueTurns(limit: number): Promise<readonly DueTurn[]>;
  /**
   * Counts from now what waits of a turn since a time that is still to come; its check stays due. Idempotent: what waits since a time that
   * has come stays as it is.
   */
  recountWaits(agentTurnId: string): Promise<void>;
  /** Schedules the next check of a turn; does nothing when the turn has changed its schedule itself since it was found due. */
  scheduleCheck(turn: CheckedTurn, next: NextCheck): Promise<void>;
  /**
   * Makes those of the turns that are open and not due yet due now, behind what is due already; returns how many they are. Idempotent: a
   * turn that is due stays so.
   */
  makeDue(agentTurnIds: readonly string[]): Promise<number>;
  /**
   * Ends an open turn over its head, with the epoch raised, and leases the agent's next one (T7). Null, with nothing written, when the turn
   * has moved since it was seen: it has ended, has another status, or has written something.
   */
  reapTurn(seen: SeenTurn, termination: Termination): Promise<Handover | null>;
  /** Counts the turns that run or are suspended: each of them has a workflow. */
  countOpenTurns(): Promise<number>;
  /** Reads the ids of turns that run or are suspended, in their order, from the first one behind `afterId` on, at most `limit`. */
  listOpenTurns(afterId: string, limit: number): Promise<readonly string[]>;
}

/** What a pass of the supervisor has done. */
export interface SupervisorPass {
  /** Whether this supervisor made the pass; false when another one is active. */
  readonly active: boolean;
  /** Turns whose check was made. */
  readonly checked: number;
  /** Turns whose check failed; they stay due. */
  readonly failed: number;
}
