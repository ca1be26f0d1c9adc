/** Ways in which something outside can wake an agent: whoever has the token of a trigger (A9). */

/** A trigger that has not been revoked, as far as its agent must know it. */
export interface ActiveTrigger {
  readonly triggerId: string;
  /** What it is for, in a word of the one who made it. */
  readonly name: string;
}

/** The most triggers that an agent may have. */
export const MOST_TRIGGERS = 100;
/** The most characters of the name of a trigger. */
export const MOST_NAME_CHARACTERS = 100;
/** The most bytes of what one delivery says. */
export const MOST_DELIVERY_BYTES = 64 * 1024;
/** The most characters of the key by which a sender repeats a delivery. */
export const MOST_KEY_CHARACTERS = 200;
