/** What an agent waits for between its turns (A8). */

/** Who or what ends a wait. */
export const WAIT_KINDS = ['operator', 'task', 'external', 'timer', 'system'] as const;
/** Who or what ends a wait. */
export type WaitKind = (typeof WAIT_KINDS)[number];

/** How a wait stands: `expired` when its deadline passed, `cancelled` when another one, or the end of its work item, took its place. */
export type WaitStatus = 'active' | 'resolved' | 'expired' | 'cancelled';

/** A wait that has not ended. Times are in epoch ms by the store's clock. */
export interface ActiveWait {
  readonly waitId: string;
  readonly kind: WaitKind;
  /** The work item that waits; null when the agent does. */
  readonly workItemId: string | null;
  /** What exactly is waited for: a turn, a trigger, a timer; null for any of its kind. */
  readonly resource: string | null;
  readonly reason: string;
  /** When the agent is to check by itself; null for not before the deadline. */
  readonly recheckAt: number | null;
  /** When the wait ends by itself. */
  readonly deadline: number;
  readonly createdAt: number;
}

/** How long a wait lasts where nobody says: no agent rests silently for ever. */
export const DEFAULT_DEADLINE_MS = 24 * 60 * 60_000;
