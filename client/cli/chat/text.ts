/** Text for a terminal of a known width: what must not reach it is taken out, rows are broken at words, wide characters count as two columns. */
import { stripVTControlCharacters } from 'node:util';
import stringWidth from 'string-width';

/** Control characters but for line breaks, and what turns the direction of writing: an answer must neither draw nor hide anything. */
const CONTROL = /(?!\n)[\p{Cc}\u202a-\u202e\u2066-\u2069]/gu;
const TAB = '    ';

/** The text without what would do something to the terminal; tabs become spaces. */
export const printable = (text: string): string =>
  stripVTControlCharacters(text.replaceAll('\r\n', '\n').replaceAll('\t', TAB)).replace(CONTROL, '');

/** How many columns the text takes. */
export const columnsOf = (text: string): number => stringWidth(text);

const graphemes = new Intl.Segmenter(undefined, { granularity: 'grapheme' });

/** The end of what fits into so many columns. */
function fitting(text: string, columns: number): number {
  let used = 0;
  let end = 0;
  for (const { segment, index } of graphemes.segment(text)) {
    used += columnsOf(segment);
    if (used > columns && end > 0) return end;
    end = index + segment.length;
    if (used > columns) return end;
  }
  return text.length;
}

/** A text without line breaks as rows: broken behind the last blank that fits, in the middle of a word that is longer than a row. */
function rowsOfLine(text: string, columns: number): string[] {
  const rows: string[] = [];
  let rest = text;
  for (let end = fitting(rest, columns); end < rest.length; end = fitting(rest, columns)) {
    const fits = rest.slice(0, end);
    const blank = rest[end] === ' ' ? end : fits.lastIndexOf(' ');
    const breaksAtWord = blank > 0 && fits.slice(0, blank).trim() !== '';
    rows.push((breaksAtWord ? rest.slice(0, blank) : fits).trimEnd());
    rest = rest.slice(breaksAtWord ? blank : end).replace(/^ +/, '');
  }
  return [...rows, rest];
}

/** The rows of a text. */
export const rowsOf = (text: string, columns: number): string[] =>
  printable(text)
    .split('\n')
    .flatMap((line) => rowsOfLine(line, Math.max(1, columns)).map((row) => row.trimEnd()));

/** The text on one row, and no wider than that; blanks before it stay. */
export function clipped(text: string, columns: number): string {
  const line = printable(text)
    .replace(/(?<=\S)\s+/g, ' ')
    .trimEnd();
  if (columnsOf(line) <= columns) return line;
  return `${line.slice(0, fitting(line, Math.max(1, columns - 1))).trimEnd()}…`;
}

/** How long something still waits, as people say it. */
export function roughly(ms: number): string {
  const seconds = Math.max(0, ms) / 1_000;
  if (seconds < 100) return `${Math.round(seconds)} s`;
  if (seconds < 100 * 60) return `${Math.round(seconds / 60)} min`;
  return seconds < 48 * 3_600 ? `${Math.round(seconds / 3_600)} h` : `${Math.round(seconds / 86_400)} days`;
}

/** A text that comes in pieces, broken into rows as it comes: into those of the whole text. */
export class TextFlow {
  #open = '';
  /** Whether the open row goes on with a line that was broken, at whose beginning there are no blanks. */
  #goesOn = false;
  /** The first half of a character whose second half is in the next piece. */
  #half = '';

  /** The last row, which is not full yet. */
  get open(): string {
    return this.#open;
  }

  /** Takes a piece, and returns the rows that are complete by now. */
  add(piece: string, columns: number): readonly string[] {
    const text = this.#half + piece;
    this.#half = /[\ud800-\udbff]$/.exec(text)?.[0] ?? '';
    const whole = text.slice(0, text.length - this.#half.length);
    const complete: string[] = [];
    for (const [index, line] of `${this.#open}${printable(whole)}`.split('\n').entries()) {
      if (index > 0) {
        complete.push(this.#open.trimEnd());
        this.#goesOn = false;
      }
      const rows = rowsOfLine(this.#goesOn ? line.replace(/^ +/, '') : line, Math.max(1, columns));
      this.#goesOn ||= rows.length > 1;
      this.#open = rows.pop() ?? '';
      complete.push(...rows);
    }
    return complete;
  }

  /** Ends the text, and returns its last row; null when there is none. */
  end(): string | null {
    const last = this.#open;
    this.#open = '';
    this.#goesOn = false;
    this.#half = '';
    return last.trim() === '' ? null : last.trimEnd();
  }
}
