/**
 * What is said at a terminal, or in a log: words of models, users and third parties among it, which must neither draw, hide nor move anything.
 *
 * Invariant: no line of a command reaches the terminal but through `visible`; what draws there on purpose has a writer of its own.
 */
import type { CliIo } from './environment.ts';

/** Control characters but line breaks and tabs, and what turns the direction of writing. */
const UNSEEN = /(?![\n\t])[\p{Cc}\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/gu;

/** The text with escapes for what would do something to a terminal. In JSON they mean the same. */
export const visible = (text: string): string =>
  text.replaceAll('\r\n', '\n').replace(UNSEEN, (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, '0')}`);

/** The streams of a command, whose lines are made visible. */
export const visibleIo = (io: CliIo): CliIo => ({
  ...io,
  out: (line) => io.out(visible(line)),
  err: (line) => io.err(visible(line)),
});
