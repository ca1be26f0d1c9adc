/**
 * Messages that are not said yet: they were written while a turn was at work, or are on their way. Each stands below what is being written, with
 * its status, until a turn takes it.
 *
 * Invariant: each message is taken out once, and then stands before what its turn answers.
 */
import type { MessageStatus, MessageView } from '../../../workflows/contract/chat.ts';
import type { LiveRow } from './screen.ts';

/** A message of somebody in the chat. */
export interface ChatLine {
  readonly eventId: string;
  readonly sender: string;
  readonly text: string;
  readonly status: MessageStatus | 'sending';
  /** The turn that has it; null while none is known. */
  readonly agentTurnId: string | null;
  /** Its place among the messages of the session; unknown while it is on its way. */
  readonly seq: number;
}

/** How many rows they may take. */
const MOST_ROWS = 6;

/** The messages that wait, in their order. */
export class WaitingMessages {
  readonly #waiting = new Map<string, ChatLine>();
  /** Those that the next step reads; the store knows it only when that step is committed. */
  readonly #due = new Set<string>();
  /** Those that were taken out. */
  readonly #said = new Set<string>();

  /** Whether none waits. */
  get isEmpty(): boolean {
    return this.#waiting.size === 0;
  }

  /** The place of the first one that was sent; undefined when none was. */
  get firstSeq(): number | undefined {
    return this.#ordered().find(({ seq }) => Number.isFinite(seq))?.seq;
  }

  /** How many are not known to be sent. */
  get unsent(): number {
    return [...this.#waiting.values()].filter(({ status }) => status === 'sending').length;
  }

  /** A message of this person goes out. */
  send(eventId: string, sender: string, text: string): void {
    const seq = Number.POSITIVE_INFINITY;
    this.#waiting.set(eventId, { eventId, sender, text, status: 'sending', agentTurnId: null, seq });
  }

  /** How a message stands now. */
  update({ eventId, sender, payload, status, agentTurnId, seq }: MessageView): void {
    if (this.#said.has(eventId)) return;
    this.#waiting.set(eventId, { eventId, sender: sender.agentId, text: payload.text, status, agentTurnId, seq });
  }

  /** Takes one out; null when it was before. */
  take(eventId: string): ChatLine | null {
    const found = this.#waiting.get(eventId) ?? null;
    this.#waiting.delete(eventId);
    this.#said.add(eventId);
    return found;
  }

  /** The next step of the turn reads what it is told by now. */
  endStep(): void {
    for (const { eventId, status } of this.#waiting.values()) if (status === 'steered') this.#due.add(eventId);
  }

  /** Takes out those of the turn that it works on, in their order; with `all`, those too that it has not read. */
  takeOf(agentTurnId: string, all = false): readonly ChatLine[] {
    const taken = this.#ordered().filter(
      (line) => line.agentTurnId === agentTurnId && (all || isRead(line) || this.#due.has(line.eventId)),
    );
    for (const { eventId } of taken) this.take(eventId);
    return taken;
  }

  /** The turn that will have the first one of them, or has it; null when none will. */
  get firstTurn(): string | null {
    const first = this.#ordered().find(({ agentTurnId, status }) => agentTurnId !== null && status !== 'done');
    return first?.agentTurnId ?? null;
  }

  /** How they are shown. */
  rows(): readonly LiveRow[] {
    const lines = this.#ordered();
    const shown = lines
      .slice(0, MOST_ROWS)
      .map(({ sender, text, status }): LiveRow => ({ text: `(${status}) ${sender}> ${text}`, style: 'dim' }));
    const more = lines.length - shown.length;
    return more === 0 ? shown : [...shown, { text: `and ${more} more, see /queue`, style: 'dim' }];
  }

  #ordered(): readonly ChatLine[] {
    return [...this.#waiting.values()].sort((a, b) => a.seq - b.seq);
  }
}

/** A steer waits until the model is asked again. */
const isRead = ({ status }: ChatLine): boolean => status !== 'steered';
