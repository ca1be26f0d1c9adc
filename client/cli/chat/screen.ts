/**
 * The terminal of a chat: what was said scrolls up, and beneath it stay the row that is being written, what waits, and the line that the person
 * edits.
 *
 * Invariants
 * 1. Whatever comes, the line that the person edits is drawn anew below it, with its cursor where it was; each change is one write.
 * 2. Only what is written with `print` and full rows of the stream stay in the scrollback; what waits is drawn over.
 * 3. Plain ANSI: cursor up, begin of the row, clear below.
 */
import { createInterface, type Interface } from 'node:readline';
import { styleText } from 'node:util';
import type { PersonTerminal } from '../environment.ts';
import { FoldedText, PASTE_MARKS, PasteFilter } from './paste.ts';
import { clipped, columnsOf, rowsOf, TextFlow } from './text.ts';

/** How a row is set off from others. */
export type RowStyle = Parameters<typeof styleText>[0];

/** A row that is drawn over when something changes. */
export interface LiveRow {
  readonly text: string;
  readonly style?: RowStyle;
}

/** How a text is printed. */
export interface PrintOptions {
  readonly style?: RowStyle;
  /** What stands before its first row; further rows are as far to the right. */
  readonly head?: string;
}

/** What the person does. */
export interface PersonKeys {
  /** Has written something, and sends it. */
  line(text: string): void;
  /** Presses Ctrl-C; `typed` says whether there is something in the line. */
  interrupt(typed: boolean): void;
  /** Presses Ctrl-D in an empty line, or is gone. */
  end(): void;
  /** Presses Tab: the word as far as it is certain. */
  complete(line: string): string;
}

const CLEAR_BELOW = '\u001b[J';
const HISTORY = 200;

/** The terminal while a chat has it. */
export class ChatScreen {
  readonly #terminal: PersonTerminal;
  readonly #keys: PersonKeys;
  readonly #folded = new FoldedText();
  readonly #filter = new PasteFilter(this.#folded);
  readonly #flow = new TextFlow();
  readonly #lines: Interface;
  #waiting: readonly LiveRow[] = [];
  /** The rows above the line as they were drawn last. */
  #drawn: readonly string[] = [];
  /** How far below the beginning of the line the cursor is, where readline does not know: behind a line that was sent. */
  #below: number | null = null;
  #prompt = '';
  #isOpen = true;
  /** Whether there may still be keys. */
  #isReading = true;

  /** `history`: what the person sent before, the newest first. */
  constructor(terminal: PersonTerminal, keys: PersonKeys, history: readonly string[]) {
    this.#terminal = terminal;
    this.#keys = keys;
    const { input, output } = terminal;
    output.write(PASTE_MARKS.on);
    input.setRawMode(true);
    input.pipe(this.#filter);
    this.#lines = createInterface({
      input: this.#filter,
      output,
      terminal: true,
      history: history.map((text) => this.#folded.fold(text)),
      historySize: HISTORY,
      removeHistoryDuplicates: true,
      completer: (line: string) => {
        const word = keys.complete(line);
        return [word === line ? [] : [word], line];
      },
    });
    this.#lines.on('line', (line) => this.#sent(line));
    this.#lines.on('SIGINT', () => this.#interrupted());
    this.#lines.on('close', () => {
      this.#isReading = false;
      if (this.#isOpen) keys.end();
    });
    output.on('resize', this.#resized);
  }

  /** How wide a row may be: one column less than there is, so that no terminal breaks it. */
  get columns(): number {
    return Math.max(20, (this.#terminal.output.columns ?? 80) - 1);
  }

  /** Shows what the person is asked for before the line. */
  ask(prompt: string): void {
    if (prompt === this.#prompt) return;
    this.#prompt = prompt;
    this.#lines.setPrompt(this.#painted(prompt, 'bold'));
    this.#draw([]);
  }

  /** Writes a text to the scrollback; it ends what is being streamed. */
  print(text: string, { style, head = '' }: PrintOptions = {}): void {
    const rows = rowsOf(text, this.columns - columnsOf(head));
    const margin = ' '.repeat(columnsOf(head));
    const shown = rows.map((row, index) => this.#painted(`${index === 0 ? head : margin}${row}`.trimEnd(), style));
    this.#draw([...this.#ended(), ...shown]);
  }

  /** Goes on with the text that is being written. */
  stream(piece: string): void {
    this.#draw(this.#flow.add(piece, this.columns));
  }

  /** Ends the text that is being written. */
  endStream(): void {
    this.#draw(this.#ended());
  }

  /** Shows these rows above the line, in place of those that were shown there. */
  wait(rows: readonly LiveRow[]): void {
    this.#waiting = rows;
    this.#draw([]);
  }

  /** Empties the line. */
  clearLine(): void {
    this.#lines.write(null, { ctrl: true, name: 'e' });
    this.#lines.write(null, { ctrl: true, name: 'u' });
  }

  /** Gives the terminal back. */
  close(): void {
    if (!this.#isOpen) return;
    const { input, output } = this.#terminal;
    this.#waiting = [];
    const up = this.#rowsAbove();
    output.write(
      `${up}${CLEAR_BELOW}${this.#ended()
        .map((row) => `${row}\n`)
        .join('')}${PASTE_MARKS.off}`,
    );
    this.#isOpen = false;
    output.off('resize', this.#resized);
    this.#lines.close();
    input.unpipe(this.#filter);
    input.setRawMode(false);
    input.pause();
  }

  readonly #resized = () => this.#draw([]);

  #sent(line: string): void {
    // The cursor is one row below the line, whose rows stay to be drawn over.
    this.#below = Math.floor(columnsOf(this.#prompt + line) / (this.#terminal.output.columns ?? 80)) + 1;
    this.#draw([]);
    const text = this.#folded.unfold(line);
    if (text.trim() !== '') this.#keys.line(text);
  }

  #interrupted(): void {
    this.#keys.interrupt(this.#lines.line !== '');
  }

  #ended(): readonly string[] {
    const last = this.#flow.end();
    return last === null ? [] : [last];
  }

  #painted(text: string, style: RowStyle | undefined): string {
    return style === undefined || !this.#terminal.colour ? text : styleText(style, text, { validateStream: false });
  }

  /** To the beginning of what is drawn over. */
  #rowsAbove(): string {
    const width = this.#terminal.output.columns ?? 80;
    // A terminal that has become narrower has broken them.
    const rows = this.#drawn.reduce((sum, row) => sum + Math.max(1, Math.ceil(columnsOf(row) / width)), 0);
    const up = rows + (this.#below ?? this.#lines.getCursorPos().rows);
    return `\r${up === 0 ? '' : `\u001b[${up}A`}`;
  }

  #draw(rows: readonly string[]): void {
    if (!this.#isOpen) return;
    const { output } = this.#terminal;
    const start = `${this.#rowsAbove()}${CLEAR_BELOW}`;
    const open = this.#flow.open;
    const waiting = this.#waiting.map(({ text, style }) => this.#painted(clipped(text, this.columns), style));
    this.#drawn = [...(open === '' ? [] : [open]), ...waiting];
    // Readline goes up by as many rows as its cursor was below the beginning of the line before it draws.
    const down = '\n'.repeat(this.#below === null ? this.#lines.getCursorPos().rows : 0);
    this.#below = null;
    output.cork();
    output.write(`${start}${[...rows, ...this.#drawn].map((row) => `${row}\n`).join('')}${down}`);
    if (this.#isReading) this.#lines.prompt(true);
    output.uncork();
  }
}
