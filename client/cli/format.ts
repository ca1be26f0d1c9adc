/** Plain text for people: durations, times, tables, values. */
import { shownTime } from '../../workflows/protocol/time.ts';
import type { Deliverable } from '../../workflows/protocol/turn.ts';

/** The most characters of a value that a line shows. */
const LINE_CHARACTERS = 200;

/** A number of milliseconds as people read it. */
export function duration(ms: number): string {
  if (ms < 1_000) return `${Math.round(ms)} ms`;
  if (ms < 60_000) return `${(ms / 1_000).toFixed(1)} s`;
  return `${Math.floor(ms / 60_000)} min ${Math.round((ms % 60_000) / 1_000)} s`;
}

/** An epoch time in ISO 8601. */
export const time = shownTime;

/** A number of things with their name: `1 call`, `2 calls`. */
export const counted = (count: number, name: string): string => `${count} ${name}${count === 1 ? '' : 's'}`;

/** Columns as wide as their widest cell; the last one is left as it is. */
export function table(rows: readonly (readonly string[])[]): string[] {
  const widths: number[] = [];
  for (const row of rows) {
    for (const [index, cell] of row.entries()) widths[index] = Math.max(widths[index] ?? 0, cell.length);
  }
  return rows.map((row) =>
    row
      .map((cell, index) => (index === row.length - 1 ? cell : cell.padEnd(widths[index] ?? 0)))
      .join('  ')
      .trimEnd(),
  );
}

/** Each line of a text behind `by`. */
export const indent = (text: string, by = '  '): string =>
  text
    .split('\n')
    .map((line) => (line === '' ? '' : by + line))
    .join('\n');

/** On one line, and no longer than that. */
export function shortened(text: string, characters: number): string {
  const line = text.replace(/\s+/g, ' ').trim();
  return line.length > characters ? `${line.slice(0, characters).replace(/[\ud800-\udbff]$/, '')}...` : line;
}

/** The deliverable as text: its text, its fields by name, or why there is no answer, with the last thought. */
export function deliverableText({ text, fields, fallback, wholeBytes }: Deliverable): string {
  if (fields) return fields.map(({ name, value }) => `${name}:\n${indent(valueText(value))}`).join('\n');
  const cut = wholeBytes === undefined ? '' : `\n(cut: the whole has ${wholeBytes} bytes)`;
  if (fallback === undefined) return `${text ?? ''}${cut}`;
  const last = fallback.lastThought === undefined ? '' : `\nlast thought: ${fallback.lastThought}${cut}`;
  return `(no answer: ${fallback.reason}; ${counted(fallback.toolResults, 'tool result')})${last}`;
}

/** A value of JSON on one line; a text stands for itself. */
export const valueLine = (value: unknown): string =>
  shortened(typeof value === 'string' ? value : JSON.stringify(value), LINE_CHARACTERS);

const valueText = (value: unknown): string => (typeof value === 'string' ? value : JSON.stringify(value, null, 2));
