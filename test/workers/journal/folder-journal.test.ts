/** The journal of a session in its folder: what it says, what it bears, and that it can be written anew (C9). */
import { appendFileSync, existsSync, mkdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from '@jest/globals';
import { v7 } from 'uuid';
import { FolderJournal } from '../../../workers/journal/folder-journal.ts';
import { sessionPath } from '../../../workers/journal/session-file.ts';
import type { Lease } from '../../../workflows/contract/lease.ts';
import { Session } from '../../activities/store/chat/session.ts';
import { fenceOf, STORES, StoreBench, SUCCESS } from '../../activities/store/store-bench.ts';
import { testApp } from '../../support/app.ts';
import { checkpointOf, journalText, linesOf, newFolder, rebuilt } from './journal-bench.ts';

describe.each(STORES)('the journal of a session on %s', (_, makeOpener) => {
  const bench = new StoreBench(makeOpener, testApp([]));

  /** A session with a turn that answered and one that is open. */
  async function talked(folder = newFolder()) {
    const session = new Session(bench);
    const journal = new FolderJournal(folder, bench.store);
    const first = await session.started('one');
    const thought = await bench.think(first, 1);
    await journal.record(session.agentId);
    await session.ended(first, { ...SUCCESS, deliverable: { from: 'thought', cardId: thought.thoughtCardId } });
    await session.sent('two');
    await journal.record(session.agentId);
    return { session, journal, folder, id: session.agentId };
  }

  test('says messages, beginnings and ends of turns in the order of the log, with all their content (C9)', async () => {
    const { session, folder, id } = await talked();
    const { storeId } = await bench.store.identity();
    const [header, ...lines] = linesOf(folder, id);
    expect(header).toMatchObject({ seq: 0, type: 'session', storeId, sessionId: id, of: session.of, chatId: 'c1' });
    expect(header).toMatchObject({ profile: 'tester' });
    const [turn, next] = await bench.store.listTurns(id);
    expect(lines).toMatchObject([
      {
        type: 'message',
        messageSeq: 1,
        placement: 'turn',
        turnId: turn?.agentTurnId,
        message: { payload: { text: 'one' } },
      },
      { type: 'turn', turnId: turn?.agentTurnId, epoch: 1, contextHash: expect.any(String) },
      {
        ...{ type: 'terminal', turnId: turn?.agentTurnId, status: 'completed', outcome: 'success', epoch: 1 },
        ...{ deliverable: { text: 'thought 1' }, traceId: 'trace', correlationId: 'correlation' },
      },
      { type: 'message', messageSeq: 2, placement: 'turn', turnId: next?.agentTurnId },
      { type: 'turn', turnId: next?.agentTurnId, epoch: 2 },
    ]);
    const seqs = lines.map(({ seq }) => seq);
    expect(seqs).toEqual([...new Set(seqs)].sort((a, b) => a - b));
    expect(checkpointOf(folder, id)).toMatchObject({
      ...{ storeId, lastSeq: seqs.at(-1), epoch: 2, lastTurn: { turnId: next?.agentTurnId, open: true } },
      offset: Buffer.byteLength(journalText(folder, id)),
    });
  });

  test('recorded bit by bit it is what the store writes anew, and recording again adds nothing (C9)', async () => {
    const { session, journal, folder, id } = await talked();
    await session.sent('three', { policy: 'steer' });
    await session.sent('no', { policy: 'reject' });
    await journal.record(id);
    await session.sent('four', { policy: 'rollback' });
    await journal.record(id);
    await journal.record(id);
    expect(journalText(folder, id)).toBe(await rebuilt(bench.store, id));
    const ends = linesOf(folder, id).filter(({ type }) => type === 'terminal');
    expect(ends).toMatchObject([{ status: 'completed' }, { status: 'failed', rolledBack: true }]);
    expect(ends[1]).toMatchObject({
      failure: { class: 'report_missing', code: 'stopped', nextAction: expect.any(String) },
    });
  });

  test('an end says which messages the turn took, and which it was not told of (C8)', async () => {
    const { session, journal, folder, id } = await talked();
    const { message } = await session.sent('late', { policy: 'steer' });
    await bench.store.stopTurn(message.agentTurnId ?? '', 'enough');
    await journal.record(id);
    const [, second] = await bench.store.listMessages(id);
    expect(linesOf(folder, id).at(-1)).toMatchObject({
      type: 'terminal',
      eventIds: [second?.eventId],
      rejected: [{ eventId: message.eventId, reason: 'the turn was stopped before it read the message' }],
    });
  });

  test('keeps nothing of agents that are no sessions', async () => {
    const folder = newFolder();
    const journal = new FolderJournal(folder, bench.store);
    await bench.started(`agent-${v7()}~no-chat`);
    await journal.record(`agent-${v7()}~nothing`);
    expect(existsSync(join(folder, 'sessions'))).toBe(false);
    expect(await journal.sessionIds()).toEqual([]);
  });

  test('a torn last line is cut off and written again (C10)', async () => {
    const { journal, folder, id, session } = await talked();
    const path = sessionPath(folder, id);
    const whole = readFileSync(path);
    writeFileSync(path, whole.subarray(0, whole.length - 20));
    rmSync(sessionPath(folder, id, 'checkpoints'));
    await journal.record(id);
    expect(readFileSync(path).equals(whole)).toBe(true);
    appendFileSync(path, '{"seq":99,"type":"mess');
    await session.sent('three');
    await journal.record(id);
    expect(journalText(folder, id)).toBe(await rebuilt(bench.store, id));
  });

  test('a corrupt line stops its session with file, line and cure, and can be written anew (C10)', async () => {
    const { journal, folder, id, session } = await talked();
    const path = sessionPath(folder, id);
    const lines = readFileSync(path, 'utf8').split('\n');
    writeFileSync(path, lines.with(2, (lines[2] ?? '').replace('"type":"turn"', '"type":"tarn"')).join('\n'));
    rmSync(sessionPath(folder, id, 'checkpoints'));
    await expect(journal.record(id)).rejects.toMatchObject({
      code: 'journal_corrupt',
      message: expect.stringMatching(new RegExp(`${id}\\.jsonl: line 3 cannot be read`)),
      cure: expect.stringContaining('rebuild --journal'),
    });
    const view = await bench.store.getSession(id);
    if (view) await journal.rebuild(view);
    await session.sent('three');
    await journal.record(id);
    expect(journalText(folder, id)).toBe(await rebuilt(bench.store, id));
  });

  test.each<[string, (folder: string, id: string) => void]>([
    ['is gone', (folder, id) => rmSync(sessionPath(folder, id, 'checkpoints'))],
    ['is no JSON', (folder, id) => writeFileSync(sessionPath(folder, id, 'checkpoints'), '{"version":1,')],
    ['says more than the file has', (folder, id) => put(folder, id, { offset: 1_000_000, lastSeq: 500, cursor: 500 })],
    ['points into a line', (folder, id) => put(folder, id, { offset: Number(checkpointOf(folder, id).offset) - 7 })],
    ['is of another store', (folder, id) => put(folder, id, { storeId: 'other', lastSeq: 500, cursor: 500 })],
    ['is of another session', (folder, id) => put(folder, id, { sessionId: 'other', lastSeq: 500, cursor: 500 })],
  ])('a checkpoint that %s decides nothing (C9)', async (_, spoil) => {
    const { journal, folder, id, session } = await talked();
    spoil(folder, id);
    await session.sent('three');
    await journal.record(id);
    expect(journalText(folder, id)).toBe(await rebuilt(bench.store, id));
    expect(checkpointOf(folder, id)).toMatchObject({ offset: Buffer.byteLength(journalText(folder, id)) });
  });

  const put = (folder: string, id: string, more: object) =>
    writeFileSync(sessionPath(folder, id, 'checkpoints'), JSON.stringify({ ...checkpointOf(folder, id), ...more }));

  test('a checkpoint that is older than the file is read on from (C9)', async () => {
    const { journal, folder, id, session } = await talked();
    const old = readFileSync(sessionPath(folder, id, 'checkpoints'));
    await session.sent('three');
    await journal.record(id);
    writeFileSync(sessionPath(folder, id, 'checkpoints'), old);
    await session.sent('four');
    await journal.record(id);
    expect(journalText(folder, id)).toBe(await rebuilt(bench.store, id));
  });

  test('repeated lines are passed over (C9)', async () => {
    const { journal, folder, id, session } = await talked();
    const path = sessionPath(folder, id);
    const lines = readFileSync(path, 'utf8').split('\n');
    const { lastSeq, lastTurn } = checkpointOf(folder, id);
    appendFileSync(path, `${lines[2]}\n${lines[3]}\n`);
    await journal.record(id);
    expect(checkpointOf(folder, id)).toMatchObject({ lastSeq, lastTurn });
    await session.sent('three');
    await journal.record(id);
    const seqs = linesOf(folder, id).map(({ seq }) => seq);
    expect(seqs.filter((seq, at) => at > 0 && seq <= Math.max(...seqs.slice(0, at)))).toHaveLength(2);
    expect(new Set(seqs).size).toBe(seqs.length - 2);
  });

  test('what the file system refuses is told by its path, and nothing is lost by it (C9)', async () => {
    const folder = newFolder();
    const { journal, id } = await talked(folder);
    const whole = journalText(folder, id);
    const blocked = join(newFolder(), 'journal');
    writeFileSync(blocked, '');
    await expect(new FolderJournal(blocked, bench.store).record(id)).rejects.toMatchObject({
      code: 'journal_unavailable',
      message: expect.stringContaining(blocked),
    });
    rmSync(blocked);
    await new FolderJournal(blocked, bench.store).record(id);
    expect(journalText(blocked, id)).toBe(whole);
    await journal.record(id);
  });

  test('no symbolic link and no id leads out of the folder (C9)', async () => {
    const { session, id } = await talked();
    const folder = newFolder();
    const outside = join(newFolder(), 'outside');
    writeFileSync(outside, 'not ours\n');
    mkdirSync(join(folder, 'sessions'));
    symlinkSync(outside, sessionPath(folder, id));
    await expect(new FolderJournal(folder, bench.store).record(id)).rejects.toMatchObject({
      code: 'journal_unavailable',
    });
    expect(readFileSync(outside, 'utf8')).toBe('not ours\n');
    for (const hostile of ['../outside', '.hidden', 'a/b', '', 'a\0b', 'x'.repeat(129)])
      expect(() => sessionPath(folder, hostile)).toThrow(expect.objectContaining({ code: 'invalid_request' }));
    expect(session.agentId).toBe(id);
  });

  test('a journal is of one session: a file that another one has is not added to (C9)', async () => {
    const { folder, id } = await talked();
    const other = new Session(bench);
    await other.started('hello');
    const path = sessionPath(folder, other.agentId);
    writeFileSync(path, journalText(folder, id));
    await expect(new FolderJournal(folder, bench.store).record(other.agentId)).rejects.toMatchObject({
      code: 'journal_corrupt',
      message: expect.stringContaining(id),
    });
  });

  test('several recorders at once write each line once (C9)', async () => {
    const { folder, id, session } = await talked();
    for (let n = 0; n < 5; n += 1) {
      await session.sent(`more ${n}`, { policy: n % 2 === 0 ? 'collect' : 'interrupt' });
      const recorders = Array.from({ length: 8 }, (_, at) =>
        new FolderJournal(folder, at % 2 === 0 ? bench.store : bench.other).record(id),
      );
      await Promise.all(recorders);
    }
    expect(journalText(folder, id)).toBe(await rebuilt(bench.store, id));
  });

  test('a store that was put back behind its journal is told, and no line is mixed in (C9)', async () => {
    const { journal, folder, id } = await talked();
    const path = sessionPath(folder, id);
    const ahead = `${journalText(folder, id)}${JSON.stringify({ ...linesOf(folder, id).at(-1), seq: 10_000 })}\n`;
    writeFileSync(path, ahead);
    await expect(journal.record(id)).rejects.toMatchObject({
      code: 'journal_corrupt',
      message: expect.stringContaining('the store was put back'),
    });
    expect(journalText(folder, id)).toBe(ahead);
  });

  test('a long session is read in pages (C9)', async () => {
    const session = new Session(bench);
    let lease: Lease | null = await session.started('0');
    for (let n = 1; n <= 30; n += 1) {
      await session.sent(`${n}`);
      lease = lease && (await session.ended(lease));
    }
    const folder = newFolder();
    await new FolderJournal(folder, bench.store).record(session.agentId);
    const paged = newFolder();
    const store = { ...bench.store, readJournal: (id: string, after: number) => bench.store.readJournal(id, after, 3) };
    await new FolderJournal(paged, store).record(session.agentId);
    expect(journalText(paged, session.agentId)).toBe(journalText(folder, session.agentId));
    expect(linesOf(folder, session.agentId)).toHaveLength(1 + 31 + 31 + 30);
    expect(lease && fenceOf(lease).turnEpoch).toBe(31);
  });
});
