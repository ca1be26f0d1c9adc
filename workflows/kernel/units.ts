/**
 * What of a turn belongs together and what stays (K15): cards are kept, shortened or summarised in units, so that the model never sees a
 * result without its call. Pure.
 *
 * Invariants
 * 1. A unit is a message of a user, or what the model said with all results of its calls and the notes before it.
 * 2. Pinned cards are in no unit: the task, and the newest messages of users.
 */
import type { View, ViewState } from './context.ts';
import { type Handle, userMessages } from './handles.ts';

/** How many units at the end are not touched but by a sprint or as a last resort. */
const NEWEST_UNITS = 2;

/** How many of the newest messages of users stay in view like the task (K16). */
const PINNED_USERS = 8;

/** The places of the pinned cards. */
export const pinnedSeqs = ({ handles }: View): ReadonlySet<number> => new Set(userMessages(handles, PINNED_USERS));

/** The last place before the newest two messages of the model, up to which results may be shortened; that of the earlier turns if none. */
export function shrinkable({ handles, context }: ViewState): number {
  let first: number | undefined;
  let units = 0;
  for (let index = handles.length - 1; index >= 0 && units < NEWEST_UNITS; index -= 1) {
    const handle = handles[index];
    if (handle?.[1] !== 'assistant') continue;
    first = handle[0];
    units += 1;
  }
  return first === undefined ? (context.earlier.at(-1)?.toSeq ?? 0) : first - 1;
}

/** The units of the turn, oldest first. */
export function* ownUnits({ handles }: ViewState, pinned: ReadonlySet<number>): Generator<readonly Handle[]> {
  let thought: Handle[] | undefined;
  /** The unit of the newest message of the model, to which results may still be added, and the units that began after it. */
  let open: Handle[][] = [];
  for (const handle of handles) {
    const role = handle[1];
    if (role === 'user' && pinned.has(handle[0])) continue;
    // A result goes with the message before it that made the call, whatever a user said in between.
    if (role === 'tool' && thought) {
      thought.push(handle);
      continue;
    }
    const notes = role === 'assistant' || role === 'note' ? trailingNotes(open) : undefined;
    const unit = notes ?? [];
    unit.push(handle);
    if (role === 'assistant') {
      for (const begun of open) if (begun !== unit) yield begun;
      open = [unit];
      thought = unit;
    } else if (!notes) open.push(unit);
  }
  yield* open;
}

/** The notes at the end that wait for the message of the model they lead to; undefined when there are none. */
function trailingNotes(open: readonly Handle[][]): Handle[] | undefined {
  const last = open.at(-1);
  return last?.every((handle) => handle[1] === 'note') ? last : undefined;
}

/** The place at which the newest units begin; 0 when there are no others. */
export function newestFrom({ handles }: ViewState, pinned: ReadonlySet<number>): number {
  let units = 0;
  let from = 0;
  let takesNotes = false;
  for (let index = handles.length - 1; index >= 0; index -= 1) {
    const handle = handles[index];
    if (!handle || handle[1] === 'tool' || pinned.has(handle[0])) continue;
    const role = handle[1];
    if (!(takesNotes && role === 'note')) {
      if (units === NEWEST_UNITS) return from;
      units += 1;
      takesNotes = role === 'assistant' || role === 'note';
    }
    from = handle[0];
  }
  return 0;
}
