/** Where a line of a stack says it is: as `at name (FILE:LINE:COLUMN)`, `at FILE:LINE:COLUMN`, or `FILE:LINE`. */

/** A place in code; the file as the platform names it. */
export interface FramePlace {
  readonly file: string;
  readonly line: string;
}

const NUMBER = /^\d+$/;

/** The place of a frame; null where it names none. */
export function framePlace(frame: string): FramePlace | null {
  const trimmed = frame.trim();
  const open = trimmed.lastIndexOf('(');
  const bare = open >= 0 ? trimmed.slice(open + 1) : trimmed.replace(/^at (?:async )?/, '');
  const parts = (bare.endsWith(')') ? bare.slice(0, -1) : bare).split(':');
  const [last = '', before = ''] = [parts.pop(), parts.at(-1)];
  const line = NUMBER.test(before) ? parts.pop() : last;
  const file = parts.join(':');
  return file !== '' && line !== undefined && NUMBER.test(last) ? { file, line } : null;
}
