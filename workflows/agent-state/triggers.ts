/** Ways in which something outside can wake an agent: whoever has the token of a trigger (A9). */

/** A trigger that has not been revoked, as far as its agent must know it. */
export interface ActiveTrigger {
  readonly triggerId: string;
  /** What it is for, in a word of the one who made it. */
  readonly name: string;
}

/** The most triggers that an agent may have. */
export const MOST_TRIGGERS = 100;
