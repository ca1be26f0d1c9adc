/** Until when a call or a question waits, in a form that no two clocks must agree on (T13, T17). */

/**
 * The end of a wait. `deadline` is in epoch ms by the store's clock, `leftMs` is the time from now until then. Whoever waits sets a timer
 * of its own clock for `leftMs`, and the store alone says whether the time is up: no clock is ever compared with another.
 */
export interface Until {
  readonly deadline: number;
  /** Ms until the deadline; zero or less when it has passed. */
  readonly leftMs: number;
}

/** A call, or a question to people, that waits. */
export interface Suspension extends Until {
  /** The id of the call; for a question about a budget, the id under which it was asked. */
  readonly callId: string;
  /** Who may answer the question; absent for a call, and where anybody may. */
  readonly approvers?: readonly string[];
}
