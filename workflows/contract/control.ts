/** Answers to what an operator does to a turn (T21, T22). */
export interface StopAck {
  /** `canceled`: it was still queued. `already_ended`: nothing was changed. */
  readonly ack: 'stopped' | 'canceled' | 'already_ended' | 'unknown';
  readonly agentId?: string;
}

export interface SteerAck {
  /** `stale`: the turn has ended; enqueue the message as a request of its own. */
  readonly ack: 'accepted' | 'stale' | 'unknown';
  readonly agentId?: string;
  /** Its place among the steers of the turn, from 1. */
  readonly seq?: number;
}
