/** Where a message goes that comes for a session, by its policy and by what the session is at (C8). Pure. */
import type { QueuePolicy } from '../protocol/chat.ts';

/** What a session is at when a message comes. */
export interface SessionMoment {
  /** Whether a turn of it is open. */
  readonly active: boolean;
  /** Its turn that waits and collects messages: there is none, it has room for this one, or it is full. */
  readonly waiting: 'none' | 'room' | 'full';
  /** Whether the open turn can be told something more before it has read what it was told. */
  readonly steerable: boolean;
}

/** Where a message goes. */
export interface Placement {
  /**
   * `turn`: it makes a turn. `join`: it is collected by the turn that waits. `steer`: the open turn is told before its next model call.
   * `reject`: nothing comes of it.
   */
  readonly to: 'turn' | 'join' | 'steer' | 'reject';
  /** How the open turn is ended for it; absent where that goes on. */
  readonly ends?: 'interrupt' | 'rollback';
}

/** The one decision about a message. A message is never lost for want of room: what cannot be steered is collected. */
export function placementOf(policy: QueuePolicy, { active, waiting, steerable }: SessionMoment): Placement {
  const queued: Placement = { to: waiting === 'room' ? 'join' : 'turn' };
  if (!active) return queued;
  switch (policy) {
    case 'collect':
      return queued;
    case 'steer':
      return steerable ? { to: 'steer' } : queued;
    case 'interrupt':
    case 'rollback':
      return { ...queued, ends: policy };
    case 'reject':
      return { to: 'reject' };
  }
}
