/** A real terminal of a known size: a program at a pseudo-terminal, and what a terminal emulator makes of its output. */
import { type IPty, spawn } from '@lydell/node-pty';
import xterm, { type IBufferCell, type IBufferLine } from '@xterm/headless';
import { WAIT } from './wait.ts';

const SCROLLED_ROWS = 10_000;
const ESCAPE = '\u001b';
/** What the keys that tests press send. */
const KEYS = { Enter: '\r', Up: `${ESCAPE}[A`, 'C-c': '\u0003', 'C-d': '\u0004', 'C-u': '\u0015' } as const;

export interface TerminalOptions {
  readonly cwd: string;
  readonly env: Readonly<Record<string, string>>;
  readonly columns?: number;
  readonly rows?: number;
}

/** A program in a terminal; what it shows is read as a person sees it. */
export class Terminal {
  readonly #emulator: InstanceType<typeof xterm.Terminal>;
  readonly #program: IPty;
  readonly #ended: Promise<number>;
  #running = true;
  #onChange: () => void = () => {};

  /** Starts the program with nothing of this process's environment but PATH. Its end is shown as `ended: CODE`. */
  constructor([file = '', ...args]: readonly string[], { cwd, env, columns = 80, rows = 24 }: TerminalOptions) {
    this.#emulator = new xterm.Terminal({
      cols: columns,
      rows,
      scrollback: SCROLLED_ROWS,
      // For `buffer` and `modes`.
      allowProposedApi: true,
    });
    const { PATH = '' } = process.env;
    const given = { PATH, LANG: 'C.UTF-8', ...env };
    this.#program = spawn(file, args, { name: 'xterm-256color', cols: columns, rows, cwd, env: given });
    // Programs ask the terminal where its cursor is, say.
    this.#emulator.onData((answer) => this.#program.write(answer));
    this.#program.onData((output) => this.#show(output));
    this.#ended = new Promise((resolve) => {
      this.#program.onExit(({ exitCode }) => {
        this.#running = false;
        this.#show(`ended: ${exitCode}\r\n`);
        resolve(exitCode);
      });
    });
  }

  /** Types a text as keys. */
  type(text: string): void {
    this.#program.write(text);
  }

  /** Presses a key. */
  press(key: keyof typeof KEYS): void {
    this.type(KEYS[key]);
  }

  /** Types a line and sends it. */
  send(line: string): void {
    this.type(line);
    this.press('Enter');
  }

  /** Pastes a text as a terminal does that marks what is pasted, where the program wants it marked. */
  paste(text: string): void {
    const keys = text.replaceAll('\n', '\r');
    this.type(this.#emulator.modes.bracketedPasteMode ? `${ESCAPE}[200~${keys}${ESCAPE}[201~` : keys);
  }

  resize(columns: number, rows: number): void {
    this.#emulator.resize(columns, rows);
    this.#program.resize(columns, rows);
  }

  /** What is to be seen, with what has scrolled away; with its colours as ANSI sequences where they are asked for. */
  screen({ colours = false } = {}): string {
    const { active } = this.#emulator.buffer;
    const rows = Array.from({ length: active.length }, (_, index) => active.getLine(index));
    const text = (row: IBufferLine) => (colours ? coloured(row) : row.translateToString()).trimEnd();
    return rows
      .map((row) => (row ? text(row) : ''))
      .join('\n')
      .trimEnd();
  }

  /** Resolves with the screen once it matches; rejects when the program has ended without, and bounds a hang. */
  until(pattern: RegExp): Promise<string> {
    const { promise, resolve, reject } = Promise.withResolvers<string>();
    const fail = () => reject(new Error(`the terminal did not show ${pattern}:\n${this.screen()}`));
    const bound = setTimeout(fail, WAIT.timeoutMs);
    this.#onChange = () => {
      const screen = this.screen();
      if (pattern.test(screen)) resolve(screen);
      else if (!this.#running && screen.includes('ended: ')) fail();
    };
    this.#onChange();
    return promise.finally(() => clearTimeout(bound));
  }

  /** The program's exit code, once it has ended. */
  get ended(): Promise<number> {
    return this.#ended;
  }

  /** Ends the program if it still runs. */
  async close(): Promise<void> {
    if (this.#running) this.#program.kill('SIGKILL');
    await this.#ended;
    this.#emulator.dispose();
  }

  #show(output: string): void {
    this.#emulator.write(output, () => this.#onChange());
  }
}

/** A row with an SGR sequence wherever the style changes. */
function coloured(row: IBufferLine): string {
  let [text, before] = ['', ''];
  for (let column = 0; column < row.length; column += 1) {
    const cell = row.getCell(column);
    if (!cell || cell.getWidth() === 0) continue;
    const style = styleOf(cell);
    if (style !== before) text += `${ESCAPE}[0${style}m`;
    before = style;
    text += cell.getChars() || ' ';
  }
  return before === '' ? text : `${text}${ESCAPE}[0m`;
}

/** The SGR codes of a cell: bold, dim, and the eight colours. */
function styleOf(cell: IBufferCell): string {
  const colour = cell.isFgPalette() ? `;${30 + cell.getFgColor()}` : '';
  return `${cell.isBold() ? ';1' : ''}${cell.isDim() ? ';2' : ''}${colour}`;
}
