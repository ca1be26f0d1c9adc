/** When a worker writes the journal of a session, and what happens where it cannot: with a real server, worker and model (C3, C9). */
import { existsSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, test } from '@jest/globals';
import { v7 } from 'uuid';
import { defineAgent, defineApp } from '../../../activities/app/app.ts';
import { AgentClient } from '../../../client/agent-client.ts';
import { findStall, type Stall } from '../../../client/stalls.ts';
import { FolderJournal } from '../../../workers/journal/folder-journal.ts';
import { sessionPath } from '../../../workers/journal/session-file.ts';
import { type ModelServer, startModelServer } from '../../../workers/model-server/wire.ts';
import { turnWorkflowId } from '../../../workflows/protocol/ids.ts';
import { type Harness, openHarness, scenarioStores } from '../../support/harness.ts';
import { startWorkerProcess } from '../../support/processes.ts';
import { seen } from '../../support/wait.ts';
import { journalText, linesOf, newFolder, rebuilt } from './journal-bench.ts';

describe.each(scenarioStores(import.meta.url))('a worker with a journal on %s', (backend) => {
  let harness: Harness;
  let model: ModelServer;
  let asked: () => void = () => {};
  const app = defineApp({
    agents: [
      defineAgent({ name: 'friend' }),
      defineAgent({ name: 'stepwise', burst: false }),
      defineAgent({ name: 'bursting' }),
    ],
  });

  beforeEach(async () => {
    harness = await openHarness(backend);
    model = await startModelServer({
      answer: () => {
        asked();
        return { kind: 'message', content: 'yes' };
      },
    });
  });
  afterEach(async () => {
    await harness?.close();
    await model?.close();
  });

  const newChat = (profile: string, client = harness.client) => client.chat(profile, `c-${v7()}`);

  test.each(['friend', 'stepwise'])(
    '%s: has the beginning before the first model call, the end before the workflow closes (C3, C9)',
    async (profile) => {
      const folder = newFolder();
      await harness.startWorker(app, model, { journal: new FolderJournal(folder, harness.store) });
      const chat = newChat(profile);
      const { promise, resolve } = Promise.withResolvers<string[]>();
      asked = () => resolve(linesOf(folder, chat.agent.id).map(({ type }) => type));
      const sent = await chat.send('hello');
      expect(await promise).toEqual(['session', 'message', 'turn']);
      const workflow = turnWorkflowId(chat.agent.id, sent.turn?.id ?? '');
      await harness.temporal.client.workflow.getHandle(workflow).result();
      expect(linesOf(folder, chat.agent.id).at(-1)).toMatchObject({
        type: 'terminal',
        status: 'completed',
        deliverable: { text: 'yes' },
      });
      expect(journalText(folder, chat.agent.id)).toBe(await rebuilt(harness.store, chat.agent.id));
    },
  );

  test('a client with a journal has what it sends, and what it stops, in it (C9)', async () => {
    const folder = newFolder();
    const journal = new FolderJournal(folder, harness.store);
    await harness.store.registerProfiles([...app.agents.values()]);
    const chat = newChat(
      'friend',
      new AgentClient({ temporal: harness.temporal.client, store: harness.store, journal }),
    );
    const { turn } = await chat.send('hello');
    await chat.send('more');
    expect(linesOf(folder, chat.agent.id).map(({ type }) => type)).toEqual(['session', 'message', 'turn', 'message']);
    await turn?.stop();
    expect(
      linesOf(folder, chat.agent.id)
        .map(({ type }) => type)
        .slice(4),
    ).toEqual(['terminal', 'turn']);
  });

  test('where it cannot be written the turn waits, says why, and goes on when it can (C9)', async () => {
    const folder = join(newFolder(), 'journal');
    writeFileSync(folder, 'a file where the folder is to be');
    await harness.startWorker(app, model, { journal: new FolderJournal(folder, harness.store) });
    const chat = newChat('friend');
    const { turn } = await chat.send('hello');
    const isTold = (stall: Stall | null) => stall?.kind === 'activity' && (stall.message ?? '').includes(folder);
    const { store, temporal } = harness;
    await seen(store, async () => isTold(await findStall(store, temporal.client, turn?.id ?? '')) || undefined);
    expect(model.requests).toEqual([]);
    rmSync(folder);
    expect(await turn?.result({ timeoutMs: 120_000 })).toMatchObject({ status: 'success' });
    await harness.temporal.client.workflow.getHandle(turnWorkflowId(chat.agent.id, turn?.id ?? '')).result();
    expect(journalText(folder, chat.agent.id)).toBe(await rebuilt(harness.store, chat.agent.id));
  });

  test('a worker that is killed between the end in the store and the journal has it written by the next one (C3, C9)', async () => {
    const folder = newFolder();
    // Its first record is of the beginning, its second one of the end.
    const doomed = await startWorkerProcess(harness, model.url, newFolder(), { journal: { folder, dieBefore: 2 } });
    const chat = newChat('bursting');
    const { turn } = await chat.send('hello');
    await doomed.gone;
    expect(await harness.store.getTurnStatus(turn?.id ?? '')).toBe('success');
    expect(linesOf(folder, chat.agent.id).map(({ type }) => type)).toEqual(['session', 'message', 'turn']);
    await harness.startWorker(app, model, { journal: new FolderJournal(folder, harness.store) });
    await harness.temporal.client.workflow.getHandle(turnWorkflowId(chat.agent.id, turn?.id ?? '')).result();
    expect(linesOf(folder, chat.agent.id).at(-1)).toMatchObject({ type: 'terminal', status: 'completed' });
    expect(linesOf(folder, chat.agent.id).filter(({ type }) => type === 'terminal')).toHaveLength(1);
    expect(model.requests).toHaveLength(1);
  });

  test('agents that are no sessions have no journal', async () => {
    const folder = newFolder();
    await harness.startWorker(app, model, { journal: new FolderJournal(folder, harness.store) });
    const agent = harness.client.agent(`agent-${v7()}`, { profile: 'friend' });
    await (await agent.enqueue({ instruction: 'hello' })).result();
    expect(existsSync(sessionPath(folder, agent.id))).toBe(false);
  });
});
