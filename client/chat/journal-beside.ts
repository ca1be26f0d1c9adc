/** A journal that is written beside what a client does. */
import type { SessionJournal } from '../../workflows/contract/journal.ts';

/**
 * The journal, whose failures fail nobody: what a client has sent is in the store by then, and the answer is yes. Whoever writes the journal next
 * writes what is missing, the worker of the turn at the latest, which waits until it can (C9). `failed` is told why.
 */
export const journalBeside = (journal: SessionJournal, failed?: (error: unknown) => void): SessionJournal => ({
  demandWritable: (agentId, sessionId) => journal.demandWritable(agentId, sessionId),
  record: (agentId) => journal.record(agentId).catch((error: unknown) => failed?.(error)),
});
