/**
 * The file of a session's journal: `sessions/{sessionId}.jsonl`, one JSON object for each line, appended and never changed (C9).
 *
 * Invariants
 * 1. A line ends with its newline. What stands behind the last one was being written when its process ended: it is torn, and cut off.
 * 2. The numbers of the lines rise. A line whose number does not is a repetition, and passed over.
 * 3. A line that cannot be read stops its session: what stands behind it may follow from it.
 */
import type { FileHandle } from 'node:fs/promises';
import { join } from 'node:path';
import { z } from 'zod';
import { commandLine } from '../../client/command-line.ts';
import type { JournalLine, SessionLine } from '../../workflows/chat/journal.ts';
import { CodedError } from '../../workflows/protocol/failures.ts';
import { isUserId } from '../../workflows/protocol/ids.ts';
import { openToRead } from './files.ts';
import { journalLineSchema, sessionLineSchema } from './lines.ts';

const NEWLINE = 0x0a;
const CHUNK_BYTES = 256 * 1024;

/** The path of a session's journal. Errors: `invalid_request` for an id that could lead out of the folder. */
export function sessionPath(folder: string, sessionId: string, kind: 'sessions' | 'checkpoints' = 'sessions'): string {
  if (!isUserId(sessionId))
    throw new CodedError('invalid_request', `${JSON.stringify(sessionId)} is no id of a session, and has no journal`);
  return join(folder, kind, `${sessionId}.${kind === 'sessions' ? 'jsonl' : 'json'}`);
}

/** A line of a file as text. */
interface RawLine {
  readonly text: string;
  /** Where the line behind it begins, in bytes. */
  readonly end: number;
  /** Whether it has its newline. */
  readonly whole: boolean;
}

/** The lines of a file from an offset on. */
async function* rawLines(file: FileHandle, from: number): AsyncGenerator<RawLine, void> {
  const chunk = Buffer.alloc(CHUNK_BYTES);
  let parts: Buffer[] = [];
  let at = from;
  for (;;) {
    const { bytesRead } = await file.read(chunk, 0, CHUNK_BYTES, at);
    if (bytesRead === 0) break;
    let begin = 0;
    for (let end = chunk.indexOf(NEWLINE, begin); end >= 0 && end < bytesRead; end = chunk.indexOf(NEWLINE, begin)) {
      parts.push(Buffer.from(chunk.subarray(begin, end)));
      begin = end + 1;
      yield { text: Buffer.concat(parts).toString('utf8'), end: at + begin, whole: true };
      parts = [];
    }
    if (begin < bytesRead) parts.push(Buffer.from(chunk.subarray(begin, bytesRead)));
    at += bytesRead;
  }
  if (parts.length > 0) yield { text: Buffer.concat(parts).toString('utf8'), end: at, whole: false };
}

/** A line of a journal, and where the next one begins. */
export interface PlacedLine<Line = JournalLine> {
  readonly line: Line;
  readonly end: number;
}

/** A journal that is read. The caller closes it. */
export class SessionReader {
  readonly path: string;
  readonly #file: FileHandle;

  private constructor(path: string, file: FileHandle) {
    this.path = path;
    this.#file = file;
  }

  /** Opens a journal; null where the session has none. */
  static async open(folder: string, sessionId: string): Promise<SessionReader | null> {
    const path = sessionPath(folder, sessionId);
    const file = await openToRead(path);
    return file && new SessionReader(path, file);
  }

  /** The size of the file in bytes. */
  async size(): Promise<number> {
    return (await this.#file.stat()).size;
  }

  /** Whether a line ends right before this offset. */
  async endsAt(offset: number): Promise<boolean> {
    const { buffer, bytesRead } = await this.#file.read(Buffer.alloc(1), 0, 1, offset - 1);
    return bytesRead === 1 && buffer[0] === NEWLINE;
  }

  /** The first line; null for a file in which it is torn. Errors: `journal_corrupt`. */
  async first(): Promise<PlacedLine<SessionLine> | null> {
    for await (const raw of rawLines(this.#file, 0)) {
      if (!raw.whole) return null;
      return { line: this.#parsed(sessionLineSchema, raw.text, 1), end: raw.end };
    }
    return null;
  }

  /**
   * The lines behind an offset at which one begins; `place` is the number of the line there. Errors: `journal_corrupt`, which names the line.
   * With `tornToo` a last line without its newline is given when it can be read.
   */
  async *lines(
    from: number,
    { place, tornToo = false }: { readonly place: number | null; readonly tornToo?: boolean },
  ): AsyncGenerator<PlacedLine, void> {
    let number = place;
    for await (const { text, end, whole } of rawLines(this.#file, from)) {
      if (whole) yield { line: this.#parsed(journalLineSchema, text, number, end), end };
      else if (tornToo) {
        const { data } = journalLineSchema.safeParse(jsonOr(text, null));
        if (data) yield { line: data, end };
      }
      if (number !== null) number += 1;
    }
  }

  /** Closes the file. */
  close(): Promise<void> {
    return this.#file.close();
  }

  #parsed<Schema extends z.ZodType>(schema: Schema, text: string, number: number | null, end = 0): z.output<Schema> {
    const { data, error } = schema.safeParse(jsonOr(text, undefined));
    if (!error) return data;
    const where = number === null ? `the line that ends at byte ${end}` : `line ${number}`;
    throw corrupt(this.path, `${where} cannot be read: ${z.prettifyError(error)}`);
  }
}

function jsonOr<T>(text: string, other: T): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return other;
  }
}

/** That a journal cannot be used as it is. */
export const corrupt = (path: string, what: string): CodedError =>
  new CodedError('journal_corrupt', `${path}: ${what}`, {
    cure: `Mend what the message names. Or give it up, for nothing is overwritten: write the journal anew from the store with "${commandLine('rebuild --journal')}" or, where the store has lost the session, write the session from the lines before the damage with "${commandLine('recover --up-to-damage')}"; or move the file away, and the session begins anew.`,
  });

/** A line as it is written. */
export const lineText = (line: SessionLine | JournalLine): string => `${JSON.stringify(line)}\n`;
