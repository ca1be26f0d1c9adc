/**
 * The cards of this turn that a prompt shows, as handles: where a card stands, who speaks in it and how long it is, never its text (K3).
 *
 * Invariant: the list is in the order of the output box, each place at most once. Most questions about it are therefore answered at one of
 * its ends, or by a binary search. Pure.
 */

/** Who speaks in a card: a user, the model (`assistant`), a tool with its result, or the runtime with a note or a summary. */
export type HandleRole = 'user' | 'assistant' | 'tool' | 'note' | 'summary';

/** One card: its place in the output box, who speaks in it, and its length in tokens when it is rendered whole. */
export type Handle = readonly [seq: number, role: HandleRole, tokens: number];

/** The handle of a result's card. */
export const handleOf = ({ seq, tokens }: { readonly seq: number; readonly tokens: number }): Handle => [
  seq,
  'tool',
  tokens,
];

/** Neighbouring cards of a box, first and last place included. The kernel knows no more of cards that other turns wrote. */
export interface BoxExtent {
  readonly boxId: string;
  readonly fromSeq: number;
  readonly toSeq: number;
}

/** The index of the first handle whose place is behind `seq`; the length of the list when there is none. */
export function indexAfter(handles: readonly Handle[], seq: number): number {
  let low = 0;
  let high = handles.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((handles[middle]?.[0] ?? 0) <= seq) low = middle + 1;
    else high = middle;
  }
  return low;
}

/**
 * Both lists in one, ordered by place. New cards mostly come behind all others; only a message that a user sent meanwhile takes a place
 * in between.
 */
export function merge(handles: readonly Handle[], more: readonly Handle[]): readonly Handle[] {
  if (more.length === 0) return handles;
  const added = [...more].sort(byPlace);
  const from = indexAfter(handles, added[0]?.[0] ?? 0);
  if (from === handles.length) return handles.concat(added);
  return handles.slice(0, from).concat([...handles.slice(from), ...added].sort(byPlace));
}

const byPlace = (a: Handle, b: Handle): number => a[0] - b[0];

/** The places of the task, which is the first message of a user, and of the `newest` messages that users sent after it. */
export function userMessages(handles: readonly Handle[], newest: number): readonly number[] {
  const users: number[] = [];
  for (const handle of handles) if (handle[1] === 'user') users.push(handle[0]);
  return [...users.slice(0, 1), ...users.slice(1).slice(-newest)];
}
