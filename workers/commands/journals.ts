/** Where a process keeps the journals of chat sessions (C9). */
import { everySession } from '../../client/chat/session-pages.ts';
import type { SessionView } from '../../workflows/contract/chat.ts';
import type { ClientStore } from '../../workflows/contract/store.ts';
import type { Config } from '../config.ts';
import { FolderJournal, type JournalSource } from '../journal/folder-journal.ts';
import type { Settings } from './settings.ts';

/** The journal of a worker or a gateway, which keeps one where it is told the folder; undefined where it keeps none. */
export const namedJournal = ({ journal }: Pick<Config, 'journal'>, store: JournalSource): FolderJournal | undefined =>
  typeof journal === 'string' ? new FolderJournal(journal, store) : undefined;

/** The folder with the journals of an installation: the one that is named, else its data folder. */
export const journalFolder = (
  { config, dataDir }: Pick<Settings, 'config' | 'dataDir'>,
  named?: string | undefined,
): string => named ?? config.journal ?? dataDir;

/** The journal of `dev`, which is in its data folder unless another one is named; undefined where it is switched off. */
export const devJournal = (settings: Settings, store: JournalSource): FolderJournal | undefined =>
  settings.config.journal === null ? undefined : new FolderJournal(journalFolder(settings), store);

/** Writes the journals of all sessions anew from the store, or that of one. Errors: `journal_unavailable`, those of the store. */
export async function writeJournals(
  settings: Settings,
  store: ClientStore,
  only: SessionView | undefined,
): Promise<{ readonly folder: string; readonly sessions: number; readonly kept: readonly string[] }> {
  const journal = new FolderJournal(journalFolder(settings), store);
  let sessions = 0;
  const kept: string[] = [];
  for await (const session of only ? [only] : everySession(store, {})) {
    const before = await journal.rebuild(session);
    if (before !== null) kept.push(before);
    sessions += 1;
  }
  return { folder: journal.folder, sessions, kept };
}
