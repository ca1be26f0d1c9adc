/**
 * The journals of sessions in one folder, brought up from the store's log (C9).
 *
 * Invariants
 * 1. In this order: lines are appended, the file is on disk, the checkpoint says so. A process may end at any point, and the next one goes on from
 *    the last whole line.
 * 2. A journal says the log of one store. That of another store is written anew once the store has what it says (C10), and never mixed.
 * 3. What a journal says is never overwritten: a file whose lines are not those of the new one is kept beside it.
 * 4. A journal is made, and made anew, in one step: there is no moment at which it is not there, or has a part of its lines.
 */
import { existsSync } from 'node:fs';
import { readdir, unlink } from 'node:fs/promises';
import { dirname, join, resolve } from 'node:path';
import { makeFolder } from '../../activities/folder.ts';
import type { JournalLine, SessionLine } from '../../workflows/chat/journal.ts';
import type { ChatStore, SessionView } from '../../workflows/contract/chat.ts';
import type { JournalStore, SessionJournal } from '../../workflows/contract/journal.ts';
import type { ReadStore } from '../../workflows/contract/views.ts';
import { CodedError } from '../../workflows/protocol/failures.ts';
import { isUserId } from '../../workflows/protocol/ids.ts';
import { type JournalCheckpoint, readCheckpoint, writeCheckpoint } from './checkpoint.ts';
import { isMissing, openToAppend, replaceFile, syncFolder } from './files.ts';
import { withLock } from './folder-lock.ts';
import { corrupt, lineText, SessionReader, sessionPath } from './session-file.ts';

/** What journals are brought up from. */
export type JournalSource = JournalStore & Pick<ChatStore, 'getSession' | 'listMessages'> & Pick<ReadStore, 'identity'>;

/** How far a journal is, and what its file has. */
interface Standing {
  readonly header: SessionLine;
  readonly checkpoint: JournalCheckpoint;
  /** Whether the checkpoint is the one on disk. */
  readonly isKept: boolean;
  /** Whether something stands behind the last whole line. */
  readonly isTorn: boolean;
}

/** Keeps the journals of a folder. */
export class FolderJournal implements SessionJournal {
  readonly folder: string;
  readonly #store: JournalSource;

  /** The folder is made when the first journal is. */
  constructor(folder: string, store: JournalSource) {
    this.folder = folder;
    this.#store = store;
  }

  async record(agentId: string): Promise<void> {
    // The id of every session's agent has one: other agents cost no statement.
    if (!agentId.includes('~')) return;
    const session = await this.#store.getSession(agentId);
    if (session) await this.#writing(session, (storeId) => this.#bringUp(session, storeId));
  }

  async demandWritable(agentId: string, sessionId: string = agentId): Promise<void> {
    const session = await this.#store.getSession(agentId);
    const id = session?.sessionId ?? sessionId;
    await mapped(sessionPath(this.folder, id), async () => {
      if (!session) return demandNone(this.folder, id);
      const standing = await standingOf(this.folder, session);
      const { storeId } = await this.#store.identity();
      if (standing && standing.header.storeId !== storeId) await this.#demandRestored(session);
    });
  }

  /**
   * Writes the journal of a session anew from the store. What was there and says anything else is kept beside it, under the path that is returned.
   * Errors: `journal_unavailable`, those of the store.
   */
  rebuild(session: SessionView): Promise<string | null> {
    return this.#writing(session, (storeId) => this.#writeAnew(session, storeId));
  }

  /** The ids of the sessions that have a journal here, in their order. Errors: `journal_unavailable`. */
  async sessionIds(): Promise<readonly string[]> {
    return mapped(this.folder, async () => {
      const names = await readdir(join(this.folder, 'sessions')).catch((error: unknown) => {
        if (isMissing(error)) return [];
        throw error;
      });
      return names
        .flatMap((name) => /^(.+)\.jsonl$/.exec(name)?.[1] ?? [])
        .filter(isUserId)
        .sort();
    });
  }

  async #writing<T>(session: SessionView, body: (storeId: string) => Promise<T>): Promise<T> {
    const { storeId } = await this.#store.identity();
    return mapped(sessionPath(this.folder, session.sessionId), async () => {
      await this.#makeFolders();
      return withLock(this.folder, session.sessionId, () => body(storeId));
    });
  }

  async #makeFolders(): Promise<void> {
    const folders = ['sessions', 'checkpoints', 'locks'].map((kind) => join(this.folder, kind));
    if (folders.every((folder) => existsSync(folder))) return;
    for (const folder of folders) makeFolder(folder);
    await syncFolder(this.folder);
    await syncFolder(dirname(resolve(this.folder)));
  }

  async #bringUp(session: SessionView, storeId: string): Promise<void> {
    const standing = await standingOf(this.folder, session);
    if (standing?.header.storeId === storeId) return this.#append(session, standing);
    if (standing) await this.#demandRestored(session);
    await this.#writeAnew(session, storeId);
  }

  async #append({ agentId, sessionId }: SessionView, { checkpoint, isKept, isTorn }: Standing): Promise<void> {
    const path = sessionPath(this.folder, sessionId);
    const file = await openToAppend(path);
    let now = checkpoint;
    try {
      if (isTorn) await file.truncate(checkpoint.offset);
      for await (const { lines, through } of this.#pages(agentId, checkpoint.cursor, path)) {
        const text = lines.map(lineText).join('');
        if (text !== '') await file.appendFile(text);
        now = { ...lines.reduce(advanced, now), cursor: through, offset: now.offset + Buffer.byteLength(text) };
      }
      // Also where nothing was added: whoever wrote what is there may have ended before it was on disk.
      if (now.lastSeq > checkpoint.lastSeq || !isKept || isTorn) await file.sync();
    } finally {
      await file.close();
    }
    if (now.lastSeq > checkpoint.lastSeq || !isKept) await writeCheckpoint(this.folder, now);
  }

  async #writeAnew(session: SessionView, storeId: string): Promise<string | null> {
    const { agentId, sessionId, of, chatId, profile, createdAt: at } = session;
    const tenant = session.tenant === null ? {} : { tenant: session.tenant };
    const path = sessionPath(this.folder, sessionId);
    // One of the journal before could seem to fit this one.
    await unlink(sessionPath(this.folder, sessionId, 'checkpoints')).catch((error: unknown) => {
      if (!isMissing(error)) throw error;
    });
    const header: SessionLine = {
      seq: 0,
      type: 'session',
      version: 1,
      storeId,
      sessionId,
      of,
      chatId,
      profile,
      ...tenant,
      at,
    };
    let now = beginning(header, Buffer.byteLength(lineText(header)));
    const kept = await replaceFile(
      path,
      async (file) => {
        await file.appendFile(lineText(header));
        for await (const { lines, through } of this.#pages(agentId, 0, path)) {
          const text = lines.map(lineText).join('');
          await file.appendFile(text);
          now = { ...lines.reduce(advanced, now), cursor: through, offset: now.offset + Buffer.byteLength(text) };
        }
      },
      { keeping: true },
    );
    await writeCheckpoint(this.folder, now);
    return kept;
  }

  /** What the log says behind an event, page by page. Errors: `journal_corrupt` where the log ends before it. */
  async *#pages(agentId: string, after: number, path: string) {
    for (let cursor = after; ; ) {
      const page = await this.#store.readJournal(agentId, cursor);
      if (page.last < cursor)
        throw corrupt(
          path,
          `it goes up to event ${cursor}, and the log of the store ends at ${page.last}: the store was put back`,
        );
      yield page;
      cursor = page.through;
      if (cursor >= page.last) return;
    }
  }

  /** A session that was begun anew under the same name has not what the journal of another store says. Errors: `journal_corrupt`. */
  async #demandRestored({ agentId, sessionId }: SessionView): Promise<void> {
    const reader = await SessionReader.open(this.folder, sessionId);
    if (!reader) return;
    try {
      const [first] = await this.#store.listMessages(agentId, { limit: 1 });
      const begins = await firstMessage(reader);
      if (begins === null || begins === first?.eventId) return;
      throw corrupt(
        reader.path,
        'it is of a session in another store, and the session of that name in this store is not restored from it: move the file away to keep it',
      );
    } finally {
      await reader.close();
    }
  }
}

/** Refuses a session that the store does not have and a journal has: begun anew, it would have nothing of what the journal says. Errors: `journal_corrupt`. */
async function demandNone(folder: string, sessionId: string): Promise<void> {
  const reader = await SessionReader.open(folder, sessionId);
  if (!reader) return;
  try {
    if ((await reader.size()) > 0)
      throw corrupt(reader.path, 'it is of a session that the store does not have, and it was not restored from it');
  } finally {
    await reader.close();
  }
}

/** The id of the first message that a journal has; null where it has none. */
async function firstMessage(reader: SessionReader): Promise<string | null> {
  const first = await reader.first();
  if (!first) return null;
  for await (const { line } of reader.lines(first.end, { place: 2 }))
    if (line.type === 'message') return line.message.eventId;
  return null;
}

/** The checkpoint of a journal that has only its first line. */
const beginning = ({ sessionId, storeId }: SessionLine, offset: number): JournalCheckpoint => ({
  version: 1,
  sessionId,
  storeId,
  lastSeq: 0,
  lastTurn: null,
  epoch: 0,
  cursor: 0,
  offset,
});

/** The checkpoint behind one more line, which a repetition does not move. */
function advanced(before: JournalCheckpoint, line: JournalLine): JournalCheckpoint {
  if (line.seq <= before.lastSeq) return before;
  const now = { ...before, lastSeq: line.seq, cursor: Math.max(before.cursor, line.seq) };
  if (line.type === 'message' || (line.type === 'terminal' && line.epoch === null)) return now;
  return { ...now, lastTurn: { turnId: line.turnId, open: line.type === 'turn' }, epoch: line.epoch ?? now.epoch };
}

/** How far the journal of a session is; null where it has none, or none that has got beyond its first line. Errors: `journal_corrupt`. */
async function standingOf(folder: string, { sessionId, of, chatId }: SessionView): Promise<Standing | null> {
  const reader = await SessionReader.open(folder, sessionId);
  if (!reader) return null;
  try {
    const first = await reader.first();
    if (!first) return null;
    const { line: header, end } = first;
    if (header.sessionId !== sessionId || header.of !== of || header.chatId !== chatId)
      throw corrupt(
        reader.path,
        `it is the journal of session ${header.sessionId}, of ${header.of} in ${header.chatId}`,
      );
    const size = await reader.size();
    const kept = await readCheckpoint(folder, sessionId);
    const fits = kept && kept.storeId === header.storeId && kept.offset >= end && kept.offset <= size;
    const isKept = fits === true && (await reader.endsAt(kept.offset));
    let checkpoint = isKept ? kept : beginning(header, end);
    for await (const { line, end } of reader.lines(checkpoint.offset, { place: isKept ? null : 2 }))
      checkpoint = { ...advanced(checkpoint, line), offset: end };
    return {
      header,
      checkpoint,
      isKept: isKept && checkpoint.lastSeq === kept.lastSeq,
      isTorn: size > checkpoint.offset,
    };
  } finally {
    await reader.close();
  }
}

/** Runs the body; an error of the file system says that the journal cannot be used at the moment. */
async function mapped<T>(path: string, body: () => Promise<T>): Promise<T> {
  try {
    return await body();
  } catch (error) {
    const { syscall, message } = (error ?? {}) as NodeJS.ErrnoException;
    if (error instanceof CodedError || syscall === undefined) throw error;
    throw new CodedError('journal_unavailable', `${path}: ${message}`, { cause: error });
  }
}
