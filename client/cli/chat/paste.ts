/**
 * Pasted text on its way into the line that a person edits: of several lines the first is shown, the others are folded to a mark, which is
 * unfolded when the line is sent.
 *
 * Invariant: nothing that was pasted is a key: line breaks do not send, and control characters are left out.
 */
import { Transform, type TransformCallback } from 'node:stream';
import { StringDecoder } from 'node:string_decoder';
import { withoutTrailing } from '../../trailing.ts';
import { counted } from '../format.ts';

/** What a terminal that was asked for it puts around pasted text. */
const BEGIN = '\u001b[200~';
const END = '\u001b[201~';
/** Asks a terminal to do so, and not to do so any more. */
export const PASTE_MARKS = { on: '\u001b[?2004h', off: '\u001b[?2004l' } as const;

const MARK = / \[\+\d+ lines? #(\d+)\]/g;
const CONTROL = /(?![\n\t])\p{Cc}/gu;

/** What was folded in one chat. */
export class FoldedText {
  readonly #rest: string[] = [];

  /** The text as one line. */
  fold(text: string): string {
    const plain = text.replaceAll(/\r\n?/g, '\n').replace(CONTROL, '');
    const [first = '', ...rest] = withoutTrailing(plain, '\n').split('\n');
    if (rest.length === 0) return first;
    this.#rest.push(`\n${rest.join('\n')}`);
    return `${first} [+${counted(rest.length, 'line')} #${this.#rest.length}]`;
  }

  /** The line as the text that it stands for. */
  unfold(line: string): string {
    return line.replace(MARK, (mark, place: string) => this.#rest[Number(place) - 1] ?? mark);
  }
}

/** Keys pass; what is pasted is folded. */
export class PasteFilter extends Transform {
  readonly #folded: FoldedText;
  readonly #decoder = new StringDecoder('utf8');
  /** What has come of the text that is being pasted; null while none is. */
  #pasted: string | null = null;

  constructor(folded: FoldedText) {
    super();
    this.#folded = folded;
  }

  override _transform(chunk: Buffer, _encoding: BufferEncoding, done: TransformCallback): void {
    let rest = this.#decoder.write(chunk);
    while (rest !== '') rest = this.#pasted === null ? this.#keys(rest) : this.#paste(this.#pasted + rest);
    done();
  }

  /** Passes what is typed, and returns what is pasted behind it. */
  #keys(text: string): string {
    const at = text.indexOf(BEGIN);
    const typed = at === -1 ? text : text.slice(0, at);
    if (typed !== '') this.push(this.#unmarked(typed));
    if (at === -1) return '';
    this.#pasted = '';
    return text.slice(at + BEGIN.length);
  }

  /** A terminal that does not mark what is pasted gives several lines at once, which nobody types. */
  #unmarked(text: string): string {
    const body = withoutTrailing(text, '\r\n');
    if (!/[\r\n]/.test(body) || body.includes('\u001b')) return text;
    return this.#folded.fold(body) + (body === text ? '' : '\r');
  }

  #paste(text: string): string {
    const at = text.indexOf(END);
    this.#pasted = at === -1 ? text : null;
    if (at === -1) return '';
    this.push(this.#folded.fold(text.slice(0, at)));
    return text.slice(at + END.length);
  }
}
