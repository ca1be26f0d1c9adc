/**
 * The checkpoint of a session's journal: how far the journal is, so that it need not be read from its beginning (C9).
 *
 * Invariant: it is written after the journal is on disk, and never decides: one that is missing, broken, or does not fit the journal is as
 * if it were not there.
 */
import { z } from 'zod';
import { openToRead, replaceFile } from './files.ts';
import { sessionPath } from './session-file.ts';

const checkpointSchema = z.object({
  version: z.literal(1),
  sessionId: z.string(),
  storeId: z.string(),
  /** The number of the last line. */
  lastSeq: z.int().nonnegative(),
  /** The last turn of the session, and whether its end is in the journal; null before the first. */
  lastTurn: z.object({ turnId: z.string(), open: z.boolean() }).nullable(),
  /** The epoch of that turn. */
  epoch: z.int().nonnegative(),
  /** The event up to which the log was read. */
  cursor: z.int().nonnegative(),
  /** The bytes of the journal up to its last line. */
  offset: z.int().positive(),
});
/** How far a journal is. */
export type JournalCheckpoint = z.output<typeof checkpointSchema>;

/** Reads a checkpoint; null where there is none that can be read. */
export async function readCheckpoint(folder: string, sessionId: string): Promise<JournalCheckpoint | null> {
  const file = await openToRead(sessionPath(folder, sessionId, 'checkpoints'));
  if (!file) return null;
  try {
    const { data } = checkpointSchema.safeParse(JSON.parse(await file.readFile('utf8')));
    return data?.sessionId === sessionId ? data : null;
  } catch (error) {
    if (error instanceof SyntaxError) return null;
    throw error;
  } finally {
    await file.close();
  }
}

/** Writes a checkpoint in the place of the one before. */
export async function writeCheckpoint(folder: string, checkpoint: JournalCheckpoint): Promise<void> {
  await replaceFile(sessionPath(folder, checkpoint.sessionId, 'checkpoints'), async (file) => {
    await file.writeFile(`${JSON.stringify(checkpoint)}\n`);
  });
}
