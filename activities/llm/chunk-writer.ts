/**
 * Answers on their way to those who follow them (W16): what the models of this process write goes to the store in one transaction for all turns,
 * some twenty times a second at most.
 *
 * Invariants
 * 1. Nothing of it holds up or fails a model call: what cannot be written now is written later, or never.
 * 2. An answer that was complete before its first chunk was written leaves none: its step is committed at once.
 * 3. What is kept in memory of one answer is bounded. Where something had to be left out, the places of what follows say so.
 */
import type { ChunkBatch, ChunkBody, ChunkStore } from '../../workflows/contract/chunks.ts';
import type { Usage } from '../../workflows/protocol/turn.ts';

/** How long pieces are gathered before they are written. */
const GATHER_MS = 30;
/** The pause after a failure of the store. */
const FAILED_MS = 1_000;
/** How much of one answer waits to be written, in UTF-16 code units; with it the reasoning that is passed on at all. */
const MOST_WAITING = 512 * 1024;

/** The attempt at a step whose answer it is. */
type AnswerOf = Omit<ChunkBatch, 'chunks'>;

/** One answer. Everything that comes after its end is left out. */
export class AnswerChunks {
  readonly of: AnswerOf;
  readonly #changed: () => void;
  #waiting: ChunkBody[] = [];
  /** Code units that wait. */
  #size = 0;
  #at = 0;
  #reasoned = 0;
  /** Half a character, which is kept until the other half has come. */
  #half = '';
  #begun = false;
  #over = false;
  #dropped = false;

  /** `changed` is called when something is to be written. */
  constructor(of: AnswerOf, changed: () => void) {
    this.of = of;
    this.#changed = changed;
  }

  /** The model goes on with its text. */
  text(text: string): void {
    const whole = this.#half + text;
    this.#half = /[\uD800-\uDBFF]$/.test(whole) ? whole.slice(-1) : '';
    const piece = whole.slice(0, whole.length - this.#half.length).toWellFormed();
    const at = this.#at;
    this.#at += piece.length;
    if (piece === '' || !this.#takes(piece)) return;
    const last = this.#waiting.at(-1);
    if (last?.type === 'content' && last.at + last.text.length === at)
      this.#replaceLast({ ...last, text: last.text + piece });
    else this.#add({ type: 'content', at, text: piece });
  }

  /** The model thinks. */
  reasoning(text: string): void {
    this.#reasoned += text.length;
    if (this.#reasoned > MOST_WAITING || !this.#takes(text)) return;
    const last = this.#waiting.at(-1);
    if (last?.type === 'reasoning') this.#replaceLast({ ...last, text: last.text + text });
    else this.#add({ type: 'reasoning', text });
  }

  /** The model goes on with the arguments of a call. */
  call(index: number, tool: string, text: string): void {
    if (!this.#takes(text)) return;
    const last = this.#waiting.at(-1);
    if (last?.type === 'tool_call' && last.index === index)
      this.#replaceLast({ ...last, tool, text: last.text + text });
    else this.#add({ type: 'tool_call', index, tool, text });
  }

  /** The answer is complete. */
  end(usage: Usage): void {
    if (this.#begun) this.#add({ type: 'end', usage });
    else this.drop();
    this.#over = true;
  }

  /** What is not written stays so. */
  drop(): void {
    this.#waiting = [];
    this.#over = true;
    this.#dropped = true;
  }

  /** Takes what waits; the first time with the chunk that tells of the attempt. */
  take(): readonly ChunkBody[] {
    const taken = this.#waiting;
    this.#waiting = [];
    this.#size = 0;
    if (this.#begun || taken.length === 0) return taken;
    this.#begun = true;
    return [{ type: 'start' }, ...taken];
  }

  /** Puts back what could not be written, to be taken again before all that came since. */
  putBack(chunks: readonly ChunkBody[]): void {
    if (this.#dropped) return;
    this.#waiting = [...chunks, ...this.#waiting];
    for (const chunk of chunks) this.#size += 'text' in chunk ? chunk.text.length : 0;
  }

  #takes(text: string): boolean {
    if (this.#over || this.#size + text.length > MOST_WAITING) return false;
    this.#size += text.length;
    return true;
  }

  #add(chunk: ChunkBody): void {
    if (this.#over) return;
    this.#waiting.push(chunk);
    this.#changed();
  }

  #replaceLast(chunk: ChunkBody): void {
    this.#waiting[this.#waiting.length - 1] = chunk;
  }
}

/** Writes the answers of one process. */
export class ChunkWriter {
  readonly #store: Pick<ChunkStore, 'appendChunks'>;
  /** Answers of which something is to be written. */
  readonly #changed = new Set<AnswerChunks>();
  #timer: NodeJS.Timeout | null = null;
  #writing = false;

  constructor(store: Pick<ChunkStore, 'appendChunks'>) {
    this.#store = store;
  }

  /** A new answer. */
  open(of: AnswerOf): AnswerChunks {
    const answer: AnswerChunks = new AnswerChunks(of, () => {
      this.#changed.add(answer);
      this.#writeSoon(GATHER_MS);
    });
    return answer;
  }

  #writeSoon(pauseMs: number): void {
    if (this.#timer || this.#writing) return;
    this.#timer = setTimeout(() => {
      this.#timer = null;
      this.#writing = true;
      void this.#write().then((pause) => {
        this.#writing = false;
        if (this.#changed.size > 0) this.#writeSoon(pause);
      });
    }, pauseMs);
    this.#timer.unref();
  }

  /** Returns the pause before the next time. */
  async #write(): Promise<number> {
    const taken = [...this.#changed].map((answer) => ({ answer, chunks: answer.take() }));
    this.#changed.clear();
    const batches = taken.filter(({ chunks }) => chunks.length > 0);
    if (batches.length === 0) return GATHER_MS;
    try {
      const written = await this.#store.appendChunks(batches.map(({ answer, chunks }) => ({ ...answer.of, chunks })));
      for (const [index, { answer }] of batches.entries()) if (!written[index]) answer.drop();
      return GATHER_MS;
    } catch {
      // All that matters is written elsewhere, and fails aloud there.
      for (const { answer, chunks } of batches) {
        answer.putBack(chunks);
        this.#changed.add(answer);
      }
      return FAILED_MS;
    }
  }
}
