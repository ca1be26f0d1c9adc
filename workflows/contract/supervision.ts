/** What the supervisor asks of the store: which turns are due for a check, and what it may do to them (T12, T23, T29). */
import type { Timeouts } from '../protocol/profile.ts';
import type { Fence, Termination, TurnStatus } from '../protocol/turn.ts';
import type { Handover } from './store.ts';

/** A turn whose check is due, as the rows of the store describe it. Times in epoch ms. */
export interface DueTurn {
  readonly agentId: string;
  readonly agentTurnId: string;
  /** The epoch of its lease; null while it is queued. */
  readonly turnEpoch: number | null;
  readonly status: TurnStatus;
  readonly workerTarget: string | null;
  /** When this check became due: it identifies the schedule that the check may replace. */
  readonly checkAt: number;
  /** The pause before this check; the next one is twice as long while nothing changes. */
  readonly everyMs: number;
  readonly leasedAt: number;
  /** The last write under the lease. */
  readonly progressAt: number;
  /** The nearest deadline of its waiting calls; null when none waits. */
  readonly resumeDeadline: number | null;
  /** When the whole turn's time is up; null when it is unbounded. */
  readonly endsBy: number | null;
  /** Since when its target was last found without any worker; null while it has workers. */
  readonly noWorkersSince: number | null;
  /** When workers of its target were found again after there had been none; null when there always were. */
  readonly workersSince: number | null;
  /** The store holds results, answers or retries that its workflow has not read. */
  readonly unread: boolean;
  /** When a report that could not be applied yet is to have been tried again; null when none is kept (T18). */
  readonly retryAt: number | null;
  /** When the supervisor woke it for what is unread, or asked it to end itself after its turn had ended; null when it has not. */
  readonly wokenAt: number | null;
  /** The agent has no open turn and is started: its next queued turn may be leased. */
  readonly agentIsFree: boolean;
  /** It has ended, and the parent that waits for it has not been told (T30). */
  readonly settlementDue: boolean;
  /** Its parent's turn ended without success, and its call says that it is to be stopped then. */
  readonly parentGone: boolean;
  /** Of its pinned profile; null while it is queued. */
  readonly timeouts: Timeouts | null;
}

/** What identifies the schedule that a check replaces, and whether it was known to be without workers. */
export type CheckedTurn = Pick<DueTurn, 'agentId' | 'agentTurnId' | 'checkAt' | 'noWorkersSince'>;

/** When a turn is checked next; `checkAt` null when it needs no further check. */
export interface NextCheck {
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

export interface SupervisorStore {
  /** Takes or renews the lease of the active supervisor for `ttlMs`; null while somebody else holds it. */
  holdSupervisorLease(holder: string, ttlMs: number): Promise<SupervisorLease | null>;
  /** Writes down that closed workflows have been listed up to `listedUntil`; only while `holder` has the lease. */
  noteListed(holder: string, listedUntil: number): Promise<void>;
  /** Ends the lease at once, so that another supervisor need not wait for its expiry. */
  releaseSupervisorLease(holder: string): Promise<void>;
  /** Turns whose check is due, the longest due first. */
  dueTurns(limit: number): Promise<readonly DueTurn[]>;
  /** Schedules the next check, unless the turn itself has changed its schedule since it was found due. */
  scheduleCheck(turn: CheckedTurn, next: NextCheck): Promise<void>;
  /** Makes those of the turns that are open and not due yet due now, behind what is due already; returns how many they are. */
  makeDue(agentTurnIds: readonly string[]): Promise<number>;
  /** Ends a turn over its head and leases the next one; null when it has moved since it was seen (T7). */
  reapTurn(seen: SeenTurn, termination: Termination): Promise<Handover | null>;
  /** How many turns run or are suspended: each of them has a workflow. */
  countOpenTurns(): Promise<number>;
  /** Up to `limit` ids of turns that run or are suspended, in their order, after `afterId`. */
  listOpenTurns(afterId: string, limit: number): Promise<readonly string[]>;
}

/** What a pass of the supervisor has done. */
export interface SupervisorPass {
  /** False: another supervisor is active. */
  readonly active: boolean;
  readonly checked: number;
  readonly failed: number;
}
