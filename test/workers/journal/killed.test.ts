/** A process that keeps a journal is killed at each of its calls of the file system: the next one goes on from there (C9). */
import { execFile } from 'node:child_process';
import { appendFileSync, cpSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { afterAll, beforeAll, describe, expect, jest, test } from '@jest/globals';
import { FolderJournal } from '../../../workers/journal/folder-journal.ts';
import { readHistory } from '../../../workers/journal/history.ts';
import { sessionPath } from '../../../workers/journal/session-file.ts';
import { openStore } from '../../../workers/open-store.ts';
import type { Store } from '../../../workflows/contract/store.ts';
import { TERMINAL_STATUSES } from '../../../workflows/protocol/turn.ts';
import { Session } from '../../activities/store/chat/session.ts';
import type { StoreBench } from '../../activities/store/store-bench.ts';
import { testApp } from '../../support/app.ts';
import { checkpointOf, journalText, newFolder, rebuilt } from './journal-bench.ts';

jest.setTimeout(300_000);

const PROGRAM = fileURLToPath(new URL('../../support/journal-process.ts', import.meta.url));

describe('a recorder that is killed', () => {
  const url = `sqlite:${newFolder()}/store.db`;
  let store: Store;
  let session: Session;
  /** The journal before the last things that happened. */
  const before = newFolder();

  beforeAll(async () => {
    store = await openStore(url);
    await store.registerProfiles([...testApp([]).agents.values()]);
    session = new Session({ store } as StoreBench);
    await session.ended(await session.started('one'));
    await session.sent('two');
    await new FolderJournal(before, store).record(session.agentId);
    await session.sent('three');
    await session.sent('four', { policy: 'interrupt' });
  });
  afterAll(() => store?.close());

  /** Resolves with whether the process got through. */
  const run = (folder: string, killedAt: number, mode: string): Promise<boolean> =>
    new Promise((resolve, reject) => {
      execFile(process.execPath, [PROGRAM, url, folder, session.agentId, `${killedAt}`, mode], (error, stdout) => {
        if (error && error.signal !== 'SIGKILL') reject(error);
        else resolve(stdout === 'done\n');
      });
    });

  /** Whether what is there can be read as it is, and says of each turn one end at most. */
  async function isSound(folder: string): Promise<void> {
    const { session: read } = await readHistory(folder, session.agentId);
    const ids = read.turns.map(({ agentTurnId }) => agentTurnId);
    expect(new Set(ids).size).toBe(ids.length);
    for (const { status } of read.turns) expect(TERMINAL_STATUSES).toContain(status);
  }

  test.each<[string, string, boolean, (folder: string) => void]>([
    [
      'that goes on behind a torn line',
      'record',
      true,
      (folder) => appendFileSync(sessionPath(folder, session.agentId), '{"seq":9'),
    ],
    ['that begins a journal', 'record', false, () => {}],
    ['that writes a journal anew', 'rebuild', true, () => {}],
  ])('%s loses and doubles nothing (C9)', async (_, mode, begun, prepare) => {
    const whole = await rebuilt(store, session.agentId);
    let killed = 0;
    for (let at = 1; ; at += 1) {
      const folder = newFolder();
      if (begun) cpSync(before, folder, { recursive: true });
      prepare(folder);
      const done = await run(folder, at, mode);
      if (begun) await isSound(folder);
      await new FolderJournal(folder, store).record(session.agentId);
      expect(journalText(folder, session.agentId)).toBe(whole);
      expect(checkpointOf(folder, session.agentId).offset).toBe(Buffer.byteLength(whole));
      if (done) break;
      killed += 1;
    }
    expect(killed).toBeGreaterThan(5);
  });
});
