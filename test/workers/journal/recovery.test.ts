/** Recovery from journals, with a real server: what is open is closed once, what the store has lost is written, and sessions go on (C10). */
import { appendFileSync, cpSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { v7 } from 'uuid';
import { defineAgent, defineApp } from '../../../activities/app/app.ts';
import { AgentClient } from '../../../client/agent-client.ts';
import { TurnWorkflows } from '../../../client/turn-workflows.ts';
import { FolderJournal } from '../../../workers/journal/folder-journal.ts';
import type { RecoveryOptions } from '../../../workers/journal/history.ts';
import { type Recovery, recover } from '../../../workers/journal/recovery.ts';
import { sessionPath } from '../../../workers/journal/session-file.ts';
import { openStore } from '../../../workers/open-store.ts';
import type { MessageSent } from '../../../workflows/contract/chat.ts';
import type { Store } from '../../../workflows/contract/store.ts';
import { turnWorkflowId } from '../../../workflows/protocol/ids.ts';
import { messageOf } from '../../activities/store/chat/session.ts';
import { fenceOf, newAgent, SUCCESS } from '../../activities/store/store-bench.ts';
import { type Harness, openHarness, scenarioStores } from '../../support/harness.ts';
import { freshSchemaUrl } from '../../support/postgres.ts';
import { journalText, linesOf, newFolder, rebuilt } from './journal-bench.ts';

describe.each(scenarioStores(import.meta.url))('recovery on %s', (backend) => {
  let harness: Harness;
  const opened: Store[] = [];
  const app = defineApp({ agents: [defineAgent({ name: 'friend' })] });

  /** An empty store that knows the profile, as after the loss of the first one. */
  async function anotherStore({ registered = true } = {}): Promise<Store> {
    const url = backend === 'sqlite' ? `sqlite:${newFolder()}/store.db` : await freshSchemaUrl();
    const store = await openStore(url);
    opened.push(store);
    if (registered) await store.registerProfiles([...app.agents.values()]);
    return store;
  }

  beforeAll(async () => {
    harness = await openHarness(backend);
    await harness.store.registerProfiles([...app.agents.values()]);
  });
  afterAll(async () => {
    await Promise.all(opened.map((store) => store.close()));
    await harness?.close();
  });

  const recoverIn = (folder: string, store = harness.store, options: RecoveryOptions = {}): Promise<Recovery> => {
    const journal = new FolderJournal(folder, store);
    const temporal = harness.temporal.client;
    return recover({ journal, store, temporal, options, workflows: new TurnWorkflows(temporal, store, journal) });
  };

  /** A session with one turn that answered, one that runs without any workflow, and a message that waits. */
  async function interrupted() {
    const folder = newFolder();
    const { store } = harness;
    const journal = new FolderJournal(folder, store);
    const of = newAgent();
    const agentId = `${of}~c1`;
    const send = async (text: string): Promise<MessageSent> => {
      const sent = await store.sendMessage({ agentId: of, profile: 'friend', message: messageOf(text) });
      if (sent.kind !== 'sent') throw new Error(sent.message);
      return sent;
    };
    const first = (await send('one')).handover?.next;
    if (!first) throw new Error('nothing was leased');
    await store.commitTurn(fenceOf(first), SUCCESS);
    const open = (await send('two')).handover?.next;
    if (!open) throw new Error('nothing was leased');
    await store.openStep(fenceOf(open), { stepIndex: 1, profileHash: open.profileHash });
    await send('three');
    await journal.record(agentId);
    return { folder, agentId, journal, send, open, of };
  }

  const endsOf = async (store: Store, agentId: string) =>
    (await store.readEvents({ agentId }))
      .filter(({ type }) => type === 'task')
      .map(({ agentTurnId, payload }) => ({
        agentTurnId,
        ...('errorCode' in payload ? { code: payload.errorCode } : {}),
      }));

  test('closes a turn that nothing works on, once, and the next one begins (C10)', async () => {
    const { folder, agentId, open } = await interrupted();
    const { sessions, failed } = await recoverIn(folder);
    expect(failed).toEqual([]);
    expect(sessions).toMatchObject([{ sessionId: agentId, restored: false, closedTurnId: open.agentTurnId }]);
    const [, waiting] = (await harness.store.listMessages(agentId)).slice(1);
    expect(sessions[0]?.nextTurnId).toBe(waiting?.agentTurnId);
    const workflow = harness.temporal.client.workflow.getHandle(turnWorkflowId(agentId, waiting?.agentTurnId ?? ''));
    expect((await workflow.describe()).status.name).toBe('RUNNING');
    expect(await endsOf(harness.store, agentId)).toMatchObject([
      { code: null },
      { agentTurnId: open.agentTurnId, code: 'report_missing' },
    ]);
    expect(linesOf(folder, agentId).find((line) => line.type === 'terminal' && line.recovered)).toMatchObject({
      turnId: open.agentTurnId,
      failure: {
        class: 'report_missing',
        reason: expect.stringContaining('recovered'),
        nextAction: expect.any(String),
      },
    });
    expect(journalText(folder, agentId)).toBe(await rebuilt(harness.store, agentId));
    // The next one runs, which is left alone.
    expect((await recoverIn(folder)).sessions).toMatchObject([
      { closedTurnId: null, nextTurnId: waiting?.agentTurnId },
    ]);
  });

  test('a turn whose workflow runs is left alone; one that has not begun is started (C10)', async () => {
    const { folder, agentId, open } = await interrupted();
    const workflows = new TurnWorkflows(harness.temporal.client, harness.store);
    await workflows.start(open);
    expect((await recoverIn(folder)).sessions).toMatchObject([{ closedTurnId: null, nextTurnId: open.agentTurnId }]);
    const { handover } = await harness.store.stopTurn(open.agentTurnId, 'enough');
    expect(handover?.next).toBeTruthy();
    // Leased, and its workflow was never started.
    expect((await recoverIn(folder)).sessions).toMatchObject([
      { closedTurnId: null, nextTurnId: handover?.next?.agentTurnId },
    ]);
    const workflow = harness.temporal.client.workflow.getHandle(
      turnWorkflowId(agentId, handover?.next?.agentTurnId ?? ''),
    );
    expect((await workflow.describe()).status.name).toBe('RUNNING');
  });

  test('an end that the store has and the journal lacks is copied, and no second one is made (C10)', async () => {
    const { folder, agentId, open } = await interrupted();
    await harness.store.commitTurn(fenceOf(open), SUCCESS);
    expect((await recoverIn(folder)).sessions).toMatchObject([{ closedTurnId: null }]);
    expect(await endsOf(harness.store, agentId)).toMatchObject([{ code: null }, { code: null }]);
    expect(linesOf(folder, agentId).filter(({ type }) => type === 'terminal')).toHaveLength(2);
  });

  test('a session that the store has lost is written from the journal alone, with its history (C10)', async () => {
    const { folder, agentId, open } = await interrupted();
    const lost = await anotherStore();
    const { sessions, failed } = await recoverIn(folder, lost);
    expect(failed).toEqual([]);
    expect(sessions).toMatchObject([{ sessionId: agentId, restored: true, closedTurnId: open.agentTurnId }]);
    const messages = await lost.listMessages(agentId);
    expect(messages.map(({ payload, status }) => `${payload.text} ${status}`)).toEqual([
      'one done',
      'two done',
      'three processing',
    ]);
    expect(await endsOf(lost, agentId)).toMatchObject([
      { code: null },
      { agentTurnId: open.agentTurnId, code: 'report_missing' },
    ]);
    const { storeId } = await lost.identity();
    expect(linesOf(folder, agentId)[0]).toMatchObject({ storeId });
    expect(journalText(folder, agentId)).toBe(await rebuilt(lost, agentId));
    expect(await lost.violations()).toEqual([]);
    expect((await recoverIn(folder, lost)).sessions).toMatchObject([{ restored: false, closedTurnId: null }]);
    expect(await endsOf(lost, agentId)).toHaveLength(2);
  });

  test('a recovery that ended after each of its steps goes on, and two at once make one end (C10)', async () => {
    const { folder, agentId } = await interrupted();
    const lost = await anotherStore();
    // Ended when the store had the session again and the journal did not say so.
    const stopped = { ...lost, readJournal: () => Promise.reject(new Error('killed')) };
    expect((await recoverIn(folder, stopped)).failed).toHaveLength(1);
    const before = readFileSync(sessionPath(folder, agentId), 'utf8');
    expect(before).not.toBe(await rebuilt(lost, agentId));
    const both = await Promise.all([recoverIn(folder, lost), recoverIn(folder, lost)]);
    expect(both.flatMap(({ failed }) => failed)).toEqual([]);
    expect(journalText(folder, agentId)).toBe(await rebuilt(lost, agentId));
    const another = await anotherStore();
    await Promise.all([recoverIn(folder, another), recoverIn(folder, another), recoverIn(folder, another)]);
    // The turn of the message that waited had begun.
    const ends = await endsOf(another, agentId);
    expect(ends).toMatchObject([{ code: null }, { code: 'report_missing' }, { code: 'report_missing' }]);
    expect(new Set(ends.map(({ agentTurnId }) => agentTurnId)).size).toBe(3);
    expect(journalText(folder, agentId)).toBe(await rebuilt(another, agentId));
  });

  test('two at once close a turn of the store once (C10)', async () => {
    const { folder, agentId } = await interrupted();
    const both = await Promise.all([recoverIn(folder), recoverIn(folder), recoverIn(folder)]);
    expect(both.flatMap(({ failed }) => failed)).toEqual([]);
    expect(both.flatMap(({ sessions }) => sessions).filter(({ closedTurnId }) => closedTurnId !== null)).toHaveLength(
      1,
    );
    expect(await endsOf(harness.store, agentId)).toHaveLength(2);
    expect(journalText(folder, agentId)).toBe(await rebuilt(harness.store, agentId));
  });

  test('what is corrupt stops one session and no other; what is torn is left out (C10)', async () => {
    const folder = newFolder();
    const [bad, torn, good] = [await interrupted(), await interrupted(), await interrupted()];
    for (const each of [bad, torn, good]) cpSync(each.folder, folder, { recursive: true });
    const lines = journalText(folder, bad.agentId).split('\n');
    writeFileSync(sessionPath(folder, bad.agentId), lines.with(3, 'rubbish').join('\n'));
    appendFileSync(sessionPath(folder, torn.agentId), '{"seq":77,"type":"terminal","turnId":"');
    const lost = await anotherStore();
    const { sessions, failed } = await recoverIn(folder, lost);
    expect(sessions.map(({ sessionId }) => sessionId)).toEqual([torn.agentId, good.agentId].sort());
    expect(failed).toMatchObject([
      {
        sessionId: bad.agentId,
        code: 'journal_corrupt',
        message: expect.stringMatching(/\.jsonl: line 4 cannot be read/),
        cure: expect.stringContaining('rebuild --journal'),
      },
    ]);
    expect(await lost.getSession(bad.agentId)).toBeNull();
  });

  describe('a session whose journal is damaged', () => {
    const clientIn = (folder: string, store: Store) =>
      new AgentClient({ temporal: harness.temporal.client, store, journal: new FolderJournal(folder, store) });

    test('and that the store has lost takes nothing; it is written from what can be read, and the file is kept (C10)', async () => {
      const { folder, agentId, of } = await interrupted();
      const path = sessionPath(folder, agentId);
      const lines = journalText(folder, agentId).split('\n');
      const damaged = lines.with(3, 'rubbish').join('\n');
      writeFileSync(path, damaged);
      const lost = await anotherStore();
      const chat = clientIn(folder, lost).chat(of, 'c1', { profile: 'friend' });
      const refusal = { code: 'journal_corrupt', cure: expect.stringContaining('recover --up-to-damage') };
      await expect(chat.send('hello?')).rejects.toMatchObject(refusal);
      expect((await recoverIn(folder, lost)).failed).toMatchObject([refusal]);
      await expect(chat.send('hello?')).rejects.toMatchObject(refusal);
      expect(await lost.getSession(agentId)).toBeNull();
      expect(journalText(folder, agentId)).toBe(damaged);
      const { sessions, failed } = await recoverIn(folder, lost, { upToDamage: true });
      expect({ sessions, failed }).toMatchObject({ sessions: [{ sessionId: agentId, restored: true }], failed: [] });
      expect(readFileSync(`${path}.1`, 'utf8')).toBe(damaged);
      expect(journalText(folder, agentId)).toBe(await rebuilt(lost, agentId));
      expect(await chat.send('hello?')).toMatchObject({ duplicate: false });
      expect((await recoverIn(folder, lost)).failed).toEqual([]);
    });

    test('and that the store has takes nothing either; its journal is written anew, and the file is kept (C9)', async () => {
      const { folder, agentId, of } = await interrupted();
      const path = sessionPath(folder, agentId);
      appendFileSync(path, 'rubbish\n');
      const damaged = readFileSync(path, 'utf8');
      const chat = clientIn(folder, harness.store).chat(of, 'c1', { profile: 'friend' });
      const before = await harness.store.readEvents({ agentId });
      const refusal = { code: 'journal_corrupt', cure: expect.stringContaining('rebuild --journal') };
      await expect(chat.send('hello?')).rejects.toMatchObject(refusal);
      expect(await harness.store.readEvents({ agentId })).toEqual(before);
      const session = await harness.store.getSession(agentId);
      if (!session) throw new Error('the session is gone');
      const journal = new FolderJournal(folder, harness.store);
      expect(await journal.rebuild(session)).toBe(`${path}.1`);
      expect(readFileSync(`${path}.1`, 'utf8')).toBe(damaged);
      // What says no more than the new one is not kept.
      expect(await journal.rebuild(session)).toBeNull();
      expect(await chat.send('hello?')).toMatchObject({ duplicate: false });
    });

    test('begins anew where the file was moved away (C10)', async () => {
      const { folder, agentId, of } = await interrupted();
      const lost = await anotherStore();
      const chat = clientIn(folder, lost).chat(of, 'c1', { profile: 'friend' });
      await expect(chat.send('hello?')).rejects.toMatchObject({ code: 'journal_corrupt' });
      renameSync(sessionPath(folder, agentId), `${folder}/moved.jsonl`);
      expect(await chat.send('hello?')).toMatchObject({ session: { lastSeq: 1 } });
    });
  });

  test('a session whose profile no worker has brought yet waits for it, and says so (C10)', async () => {
    const { folder, agentId } = await interrupted();
    const lost = await anotherStore({ registered: false });
    await lost.registerProfiles([...defineApp({ agents: [defineAgent({ name: 'other' })] }).agents.values()]);
    const before = journalText(folder, agentId);
    expect((await recoverIn(folder, lost)).failed).toMatchObject([
      { code: 'profile_not_found', message: expect.stringContaining('friend') },
    ]);
    expect(journalText(folder, agentId)).toBe(before);
    await lost.registerProfiles([...app.agents.values()]);
    expect((await recoverIn(folder, lost)).sessions).toMatchObject([{ restored: true }]);
  });

  test('a session that began anew before its journal was read is kept apart from it (C10)', async () => {
    const { folder, agentId, of } = await interrupted();
    const lost = await anotherStore();
    await lost.sendMessage({ agentId: of, profile: 'friend', message: messageOf('hello?', { eventId: v7() }) });
    const before = journalText(folder, agentId);
    expect((await recoverIn(folder, lost)).failed).toMatchObject([
      { code: 'journal_corrupt', message: expect.stringContaining('move the file away') },
    ]);
    expect(journalText(folder, agentId)).toBe(before);
  });
});
