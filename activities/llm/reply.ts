/**
 * From the chunks of a stream to one reply (W14, W15). A provider may send anything.
 *
 * Invariants
 * 1. What is kept has the right type, is well-formed Unicode and within REPLY_BOUNDS.
 * 2. Each piece is handled in time that grows with its length alone.
 */
import { isDeeperThan } from '../../workflows/protocol/json.ts';
import { atCodePoint } from '../../workflows/protocol/sizes.ts';
import type { Usage } from '../../workflows/protocol/turn.ts';
import { finishOf, finishWord } from './finish.ts';
import type { ModelReply, StreamListener } from './model.ts';
import { StreamFailure } from './stream-guard.ts';
import { countedUsage } from './usage.ts';

/** How much of a reply is kept. */
export const REPLY_BOUNDS = {
  /** Bytes of text, refusal, names, ids and arguments together, as JSON in UTF-8: half of what a card holds. */
  bytes: 512 * 1024,
  /** Calls in one message. */
  calls: 128,
  /** Characters of a name or an id; a longer one is none that was offered or can go back on the wire. */
  label: 256,
  /** Layers of objects and lists in arguments. */
  depth: 200,
} as const;

/** What came of a stream; `usage` is null when the provider counted nothing that can be believed. */
export interface StreamedReply extends Omit<ModelReply, 'usage' | 'latencyMs'> {
  readonly usage: Usage | null;
}

/** A call as far as it has come, and where its arguments stand when they are read as JSON. */
interface OpenCall {
  id: string;
  name: string;
  arguments: string;
  /** Objects and lists that have begun and not ended. */
  layers: number;
  inString: boolean;
  escaped: boolean;
  /** The outermost object or list has ended. */
  complete: boolean;
}

/** What one chunk says of a call; empty texts where it says nothing. */
interface CallPiece {
  /** The number of the call in its message; null when the server leaves it out. */
  readonly index: number | null;
  readonly id: string;
  readonly name: string;
  readonly arguments: string;
}

/** Gathers the chunks of one stream. */
export class ReplyBuilder {
  /** The calls in the order in which they appeared. */
  readonly #calls: OpenCall[] = [];
  readonly #byIndex = new Map<number, OpenCall>();
  #last: OpenCall | null = null;
  #room: number = REPLY_BOUNDS.bytes;
  #full = false;
  #model: string;
  #text = '';
  #refusal = '';
  #finishReason = '';
  #usage: Usage | null = null;
  #firstTokenMs: number | null = null;

  readonly #listener: StreamListener | undefined;

  /** `model` is the name that was asked for, until a chunk says another. */
  constructor(model: string, listener?: StreamListener) {
    this.#model = model;
    this.#listener = listener;
  }

  /** Whether no text, no refusal and no call has come yet. */
  get isEmpty(): boolean {
    return this.#text === '' && this.#refusal === '' && this.#calls.length === 0;
  }

  /**
   * Takes the next chunk, which came `elapsedMs` after the request. Returns false when the reply is full: it ends here, as by the provider's own
   * output limit, and the rest of the stream is of no use.
   */
  add(chunk: unknown, elapsedMs: number): boolean {
    const { model, usage, choices } = membersOf(chunk);
    if (typeof model === 'string' && MODEL_NAME.test(model)) this.#model = model;
    if (usage !== undefined && usage !== null) this.#usage = countedUsage(usage);
    const choice = membersOf(Array.isArray(choices) ? choices[0] : undefined);
    // An endpoint that does not stream sends its answer as one message.
    const delta = membersOf(choice.delta ?? choice.message);
    const thinking = stringOf(delta.reasoning_content) || stringOf(delta.reasoning);
    if (thinking !== '') this.#listener?.reasoning(thinking);
    const text = this.#kept(contentText(delta.content));
    this.#text += text;
    if (text !== '') this.#listener?.text(text);
    this.#refusal += this.#kept(stringOf(delta.refusal));
    for (const piece of Array.isArray(delta.tool_calls) ? delta.tool_calls : []) {
      if (this.#full) break;
      this.#addCall(pieceOf(piece));
    }
    // Before there were several calls in a message.
    if (delta.function_call) this.#addCall(pieceOf({ index: 0, function: delta.function_call }));
    if (!this.isEmpty) this.#firstTokenMs ??= Math.round(elapsedMs);
    this.#finishReason = finishWord(choice.finish_reason) || this.#finishReason;
    return !this.#full;
  }

  /** Ends the reply with what came so far, as by the provider's own output limit. */
  cut(): void {
    this.#full = true;
  }

  /** The reply. Throws `StreamFailure` when the stream ended before it was finished, or the provider says that it gave up. */
  finish(): StreamedReply {
    const finishReason = this.#full ? 'length' : this.#finishReason;
    if (finishReason === '') throw new StreamFailure('the stream ended before it was finished');
    const finish = finishOf(finishReason);
    if (finish === 'failed') throw new StreamFailure(`the provider broke off its answer, ${finishReason}`);
    // Without its arguments a call that was cut off could be taken for one that has none.
    const calls = this.#calls.filter((call) => finish !== 'cut' || call !== this.#last || call.arguments.trim() !== '');
    return {
      text: this.#text.toWellFormed(),
      refusal: this.#refusal.toWellFormed(),
      calls: calls.map((call) => ({
        id: call.id,
        name: call.name.toWellFormed(),
        arguments: wellFormedJson(call.arguments),
      })),
      finishReason,
      finish,
      cutHere: this.#full,
      model: this.#model,
      usage: this.#usage,
      firstTokenMs: this.#firstTokenMs,
    };
  }

  #addCall(piece: CallPiece): void {
    if (piece.id === '' && piece.name === '' && piece.arguments === '') return;
    const call = this.#callOf(piece);
    if (!call) return;
    this.#last = call;
    if (call.id === '') call.id = this.#kept(piece.id.slice(0, REPLY_BOUNDS.label));
    if (call.arguments === '' && !(piece.id === call.id && piece.name === call.name))
      call.name += this.#kept(piece.name.slice(0, REPLY_BOUNDS.label - call.name.length));
    const added = this.#kept(piece.arguments);
    call.arguments += added;
    follow(call, added);
    this.#listener?.call(this.#calls.indexOf(call), call.name, added);
  }

  /** The call that a piece belongs to, or a new one; null when there is no place for it. */
  #callOf(piece: CallPiece): OpenCall | null {
    const known = piece.index === null ? this.#unnumbered(piece) : this.#byIndex.get(piece.index);
    if (known && !beginsAnother(known, piece)) return known;
    if (this.#calls.length === REPLY_BOUNDS.calls) {
      this.#full = true;
      return null;
    }
    const call = { id: '', name: '', arguments: '', layers: 0, inString: false, escaped: false, complete: false };
    this.#calls.push(call);
    if (piece.index !== null) this.#byIndex.set(piece.index, call);
    return call;
  }

  /**
   * The call that a piece without an index goes on; undefined when the piece begins another one. Some servers leave the index out, mostly those
   * that send each call whole.
   */
  #unnumbered({ id, name }: CallPiece): OpenCall | undefined {
    if (id !== '') return this.#calls.findLast((call) => call.id === id);
    const goesOn = name === '' || (name === this.#last?.name && this.#last.arguments !== '' && !this.#last.complete);
    return goesOn ? (this.#last ?? undefined) : undefined;
  }

  /** As much of the text as there is room for; the reply is full when that is not all. */
  #kept(text: string): string {
    const bytes = text === '' ? 0 : encodedBytes(text);
    if (bytes <= this.#room) {
      this.#room -= bytes;
      return text;
    }
    this.#full = true;
    let end = 0;
    for (let size = text.length; size >= 1; size = Math.floor(size / 2)) {
      const to = atCodePoint(text, end + size);
      const more = encodedBytes(text.slice(end, to));
      if (more > this.#room) continue;
      this.#room -= more;
      end = to;
    }
    return text.slice(0, end);
  }
}

/** Whether a piece with the index of a call begins another one: some servers give every call the same index. An id or a name says so. */
function beginsAnother(call: OpenCall, { id, name, arguments: args }: CallPiece): boolean {
  if (id !== '' && call.id !== '' && id.slice(0, REPLY_BOUNDS.label) !== call.id) return true;
  if (name === '' || call.arguments === '') return false;
  if (name !== call.name) return true;
  // Others say id and name again with each piece; only arguments that begin anew are those of another call.
  return call.complete && args.trimStart().startsWith('{');
}

/** Follows the arguments as JSON, so that their end is known without parsing them again with each piece. */
function follow(call: OpenCall, piece: string): void {
  for (const char of piece) {
    if (call.inString) {
      if (call.escaped) call.escaped = false;
      else if (char === '\\') call.escaped = true;
      else if (char === '"') call.inString = false;
    } else if (char === '"') call.inString = true;
    else if (char === '{' || char === '[') call.layers += 1;
    else if (char === '}' || char === ']') {
      call.layers -= 1;
      call.complete ||= call.layers === 0;
    }
  }
}

/** A name that is stored and shown: printable ASCII. */
const MODEL_NAME = /^[\x20-\x7e]{1,200}$/;

const membersOf = (value: unknown): Readonly<Record<string, unknown>> =>
  typeof value === 'object' && value !== null ? (value as Readonly<Record<string, unknown>>) : {};

const stringOf = (value: unknown): string => (typeof value === 'string' ? value : '');

/** The text of a delta, which comes as one text, or as a list of parts of which some are text. */
function contentText(content: unknown): string {
  if (!Array.isArray(content)) return stringOf(content);
  return content.map((part: unknown) => stringOf(part) || stringOf(membersOf(part).text)).join('');
}

function pieceOf(value: unknown): CallPiece {
  const { index, id, function: called } = membersOf(value);
  const { name, arguments: args } = membersOf(called);
  return {
    index: typeof index === 'number' ? index : null,
    id: stringOf(id),
    name: stringOf(name),
    arguments: argumentsText(args),
  };
}

/**
 * The arguments as text. Some servers send an object in place of its text; one that is nested too deeply cannot be written and is no object
 * then.
 */
function argumentsText(args: unknown): string {
  if (args === undefined || args === null) return '';
  if (typeof args === 'string') return args;
  return isDeeperThan(args, REPLY_BOUNDS.depth) ? '(nested too deeply)' : JSON.stringify(args);
}

/** Bytes of the text in UTF-8 as a part of a JSON text. */
const encodedBytes = (text: string): number => Buffer.byteLength(JSON.stringify(text)) - 2;

/** Matches a pair of escapes, half of one, or any other escape, so that an escaped backslash is not taken for the beginning of one. */
const ESCAPES = /\\u[dD][89abAB][\da-fA-F]{2}\\u[dD][c-fC-F][\da-fA-F]{2}|(\\u[dD][89a-fA-F][\da-fA-F]{2})|\\[\s\S]/g;

/** The JSON with U+FFFD for each lone surrogate, also for one that is written as an escape. */
const wellFormedJson = (json: string): string =>
  json.toWellFormed().replace(ESCAPES, (whole: string, half: string | undefined) => (half ? '\\ufffd' : whole));
