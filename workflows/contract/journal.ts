/** What a journal of sessions is made of, and who keeps it (C9). */
import type { JournalLine } from '../chat/journal.ts';

/** A part of what the log says of a session. */
export interface JournalPage {
  readonly lines: readonly JournalLine[];
  /** The event up to which the log was read: the next page begins behind it. */
  readonly through: number;
  /** The last event of the session's agent. */
  readonly last: number;
}

/** What a journal is read from. */
export interface JournalStore {
  /**
   * Reads what the log says of a session behind an event of its agent, as lines of a journal; `limit` bounds the events that are read for one
   * page, 100 when left out. The same log gives the same lines, whenever it is read. None for an agent that is no session.
   */
  readJournal(agentId: string, after: number, limit?: number): Promise<JournalPage>;
}

/** Keeps journals of sessions in a place of this process. */
export interface SessionJournal {
  /**
   * Brings the journal of the session that the agent is up to what the store says, and resolves when it is on disk; an agent that is no session
   * has none. Idempotent. Errors: `journal_unavailable`, `journal_corrupt`, those of the store.
   */
  record(agentId: string): Promise<void>;
  /**
   * Refuses a message for a session whose journal cannot be gone on with: it is damaged, or says what the store has lost and was not restored.
   * What would be taken then is in no journal, or takes the place of what was said before. `sessionId` is that of the message; like the agent's when left out.
   * Errors: `journal_corrupt`, `journal_unavailable`, those of the store.
   */
  demandWritable(agentId: string, sessionId?: string): Promise<void>;
}
