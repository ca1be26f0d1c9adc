/** A client that keeps journals, on a disk that refuses them: what is stored is answered yes, and is written down when it can be (C9). */
import { rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { v7 } from 'uuid';
import { defineAgent, defineApp } from '../../activities/app/app.ts';
import { AgentClient } from '../../client/agent-client.ts';
import { FolderJournal } from '../../workers/journal/folder-journal.ts';
import { type Harness, openHarness } from '../support/harness.ts';
import { linesOf, newFolder } from '../workers/journal/journal-bench.ts';

let harness: Harness;
beforeAll(async () => {
  harness = await openHarness();
  await harness.store.registerProfiles([...defineApp({ agents: [defineAgent({ name: 'friend' })] }).agents.values()]);
});
afterAll(() => harness?.close());

test('a message is taken though its journal cannot be written, which the client is told beside it (C9)', async () => {
  const folder = join(newFolder(), 'journal');
  writeFileSync(folder, '');
  const failed: unknown[] = [];
  const { store } = harness;
  const client = new AgentClient({
    temporal: harness.temporal.client,
    store,
    journal: new FolderJournal(folder, store),
    journalFailed: (error) => failed.push(error),
  });
  const chat = client.chat('somebody', `c-${v7()}`, { profile: 'friend' });
  await chat.send('hello');
  await chat.send('are you there?');
  expect(failed).toEqual([
    expect.objectContaining({ code: 'journal_unavailable' }),
    expect.objectContaining({ code: 'journal_unavailable' }),
  ]);
  expect(await chat.messages()).toHaveLength(2);
  rmSync(folder);
  await chat.send('now?');
  const messages = linesOf(folder, chat.agent.id).filter(({ type }) => type === 'message');
  expect(messages).toHaveLength(3);
});
