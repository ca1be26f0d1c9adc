/** Whether the journals of chat sessions can be written where this installation keeps them. */
import { accessSync, constants, existsSync } from 'node:fs';
import { dirname, resolve } from 'node:path';
import type { Store } from '../../../workflows/contract/store.ts';
import { CodedError } from '../../../workflows/protocol/failures.ts';
import { FolderJournal } from '../../journal/folder-journal.ts';
import { journalFolder } from '../journals.ts';
import type { Settings } from '../settings.ts';
import { type CheckResult, well } from './findings.ts';

/** Looks at the folder and writes nothing. Errors: `journal_unavailable`. */
export async function journalOf(settings: Settings, store: Store): Promise<CheckResult> {
  const folder = resolve(journalFolder(settings));
  const ids = await new FolderJournal(folder, store).sessionIds();
  // One that is not there is made in the nearest folder that is.
  let place = folder;
  while (!existsSync(place)) place = dirname(place);
  try {
    accessSync(place, constants.W_OK);
  } catch (error) {
    throw new CodedError('journal_unavailable', `${folder} cannot be written: ${String(error)}`, { cause: error });
  }
  return well(`${folder} can be written, and has ${ids.length} ${ids.length === 1 ? 'journal' : 'journals'}`);
}
