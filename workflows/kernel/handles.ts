/**
 * The list of handles: always by place, so that most of what is asked about it needs a look at one end, or a binary search. Pure.
 */
import type { Handle } from './state.ts';

/** The index of the first card behind `seq`. */
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

/** New cards mostly come behind all others; one that does not, because a steer came in between, is put into its place. */
export function merge(handles: readonly Handle[], more: readonly Handle[]): readonly Handle[] {
  if (more.length === 0) return handles;
  const added = [...more].sort(byPlace);
  const from = indexAfter(handles, added[0]?.[0] ?? 0);
  if (from === handles.length) return handles.concat(added);
  return handles.slice(0, from).concat([...handles.slice(from), ...added].sort(byPlace));
}

const byPlace = (a: Handle, b: Handle): number => a[0] - b[0];

/** Places of the task, and of the newest messages of users. */
export function userMessages(handles: readonly Handle[], newest: number): readonly number[] {
  const users: number[] = [];
  for (const handle of handles) if (handle[1] === 'user') users.push(handle[0]);
  return [...users.slice(0, 1), ...users.slice(1).slice(-newest)];
}
