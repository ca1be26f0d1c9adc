/**
 * Many people talk in chats at once while workers are killed and the server is restarted: every message is in exactly one turn, or rejected,
 * each turn has one end, and the order stays (C2, C4, C8). `npm run acceptance:chats` does it with a thousand messages.
 */
import { spawn } from 'node:child_process';
import { mkdtempSync, readFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { setTimeout as sleep } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { expect, test } from '@jest/globals';
import { v7 } from 'uuid';
import { FolderJournal } from '../../workers/journal/folder-journal.ts';
import { sessionPath } from '../../workers/journal/session-file.ts';
import { type ModelServer, startModelServer } from '../../workers/model-server/wire.ts';
import { terminalOf } from '../../workflows/chat/terminal.ts';
import type { MessageView } from '../../workflows/contract/chat.ts';
import { turnWorkflowId } from '../../workflows/protocol/ids.ts';
import { randomOf } from '../chaos/random.ts';
import { ChaosTemporal } from '../chaos/temporal.ts';
import { type Harness, openHarness, scenarioStores } from '../support/harness.ts';
import { startWorkerProcess, type WorkerProcess } from '../support/processes.ts';
import { seen } from '../support/wait.ts';
import type { Talked, TalkerArgument } from './chat-process.ts';

const MESSAGES = Number(process.env.AGENTTURN_TEST_CHAT_MESSAGES ?? 60);
const SEED = Number(process.env.AGENTTURN_TEST_SEED ?? 1);
/** So few that each gets a message. */
const SESSIONS = Math.min(20, Math.ceil(MESSAGES / 10));
const TALKERS = 4;
const KILL_EVERY_MS = 2_000;
const WORKERS = 2;

const newFolder = () => mkdtempSync(join(tmpdir(), 'agentturn-chats-'));

function startModel(): Promise<ModelServer> {
  let asked = 0;
  return startModelServer({
    keepRequests: 1,
    answer: ({ messages }) => {
      asked += 1;
      const random = randomOf(SEED, `model-${asked}`);
      const delayMs = random.int(0, 150);
      if (messages.at(-1)?.role !== 'tool' && random.chance(0.3))
        return { kind: 'message', delayMs, toolCalls: [{ name: 'look', arguments: {} }] };
      return { kind: 'message', delayMs, content: 'well' };
    },
  });
}

/** Starts a process that talks; resolves with what it has said. */
async function talking(argument: TalkerArgument): Promise<Talked> {
  const path = fileURLToPath(new URL('./chat-process.ts', import.meta.url));
  const child = spawn(process.execPath, [path, JSON.stringify(argument)], { stdio: ['pipe', 'pipe', 'inherit'] });
  return JSON.parse(await text(child.stdout)) as Talked;
}

/** Kills one worker after the other and starts another in its place, until it is told to stop. */
async function killing(workers: WorkerProcess[], start: () => Promise<WorkerProcess>, stopped: AbortSignal) {
  let killed = 0;
  const random = randomOf(SEED, 'kills');
  while (!stopped.aborted) {
    await sleep(KILL_EVERY_MS, undefined, { signal: stopped }).catch(() => {});
    if (stopped.aborted) break;
    const at = random.int(0, workers.length - 1);
    await workers[at]?.end('SIGKILL');
    workers[at] = await start();
    killed += 1;
  }
  return killed;
}

/** All messages of a session, once none of them waits or is worked on. */
const settled = (harness: Harness, agentId: string): Promise<MessageView[]> =>
  seen(harness.store, async () => {
    const all: MessageView[] = [];
    for (let page = await harness.store.listMessages(agentId); page.length > 0; ) {
      all.push(...page);
      page = await harness.store.listMessages(agentId, { after: all.length });
    }
    return all.every(({ status }) => status === 'done' || status === 'rejected') ? all : undefined;
  });

const keysIn = (words: string): string[] => [...words.matchAll(/\((t\d+-\d+)\) says/g)].map(([, key = '']) => key);

/** Checks a session; returns the keys of its messages. */
async function verified(harness: Harness, agentId: string): Promise<string[]> {
  const messages = await settled(harness, agentId);
  const keys = messages.map(({ eventId }) => eventId);
  expect(messages.map(({ seq }) => seq)).toEqual(messages.map((_, at) => at + 1));
  const taken = messages.filter(({ status }) => status === 'done');
  const told: string[] = [];
  for (const turnId of new Set(taken.flatMap(({ agentTurnId }) => agentTurnId ?? []))) {
    const view = await harness.store.getTurn(turnId);
    expect(view && terminalOf(view)).toMatchObject({ turnId, sessionId: agentId });
    const asked = keysIn(view?.instruction ?? '');
    expect(asked).toEqual(asked.toSorted((a, b) => keys.indexOf(a) - keys.indexOf(b)));
    for await (const entry of harness.client.turn(turnId).transcript())
      told.push(...keysIn('text' in entry && entry.kind !== 'thought' ? String(entry.text) : ''));
    const tasks = await harness.store.readEvents({ agentId, agentTurnId: turnId, limit: 1_000 });
    expect(tasks.filter(({ type }) => type === 'task')).toHaveLength(1);
  }
  // Each is told one turn, once, and what was rejected is told none.
  expect(told.toSorted()).toEqual(taken.map(({ eventId }) => eventId).toSorted());
  const agent = await harness.store.getAgent(agentId);
  expect(agent).toMatchObject({ status: 'idle', activeAgentTurnId: null });
  return keys;
}

/** Checks that the journal of a session, as workers that were killed have left it, says what the store does. */
async function journaled(harness: Harness, folder: string, agentId: string): Promise<void> {
  for (const { agentTurnId } of await harness.store.listTurns(agentId, { limit: 1_000 })) {
    const workflow = harness.temporal.client.workflow.getHandle(turnWorkflowId(agentId, agentTurnId));
    // The journal has the end of a turn before its workflow closes.
    await workflow.result().catch(() => {});
    const { status } = await workflow.describe();
    expect(status.name).not.toBe('RUNNING');
  }
  const session = await harness.store.getSession(agentId);
  if (!session) throw new Error(`no session of ${agentId}`);
  const path = sessionPath(folder, session.sessionId);
  const kept = readFileSync(path, 'utf8');
  await new FolderJournal(folder, harness.store).rebuild(session);
  expect(kept).toBe(readFileSync(path, 'utf8'));
}

test.each(scenarioStores(import.meta.url))(
  'every message is in one turn or rejected, each turn has one end, and nothing is stuck, and the journals say so, on %s (C2, C4, C8, C9)',
  async (backend) => {
    const temporal = await ChaosTemporal.start(newFolder());
    const harness = await openHarness(backend, { address: temporal.address });
    const model = await startModel();
    const dir = newFolder();
    const folder = newFolder();
    const start = () => startWorkerProcess(harness, model.url, dir, { journal: { folder } });
    const workers = await Promise.all(Array.from({ length: WORKERS }, start));
    const stop = new AbortController();
    try {
      const { address, namespace, storeUrl } = harness;
      const chats = Array.from({ length: SESSIONS }, () => `c-${v7()}`);
      const count = MESSAGES / TALKERS;
      const talkers = Array.from({ length: TALKERS }, (_, at) =>
        talking({ address, namespace, storeUrl, name: `t${at}`, seed: SEED, chats, count }),
      );
      const kills = killing(workers, start, stop.signal);
      await sleep(KILL_EVERY_MS * 1.5);
      await temporal.restart('SIGKILL', 500);
      const talked = await Promise.all(talkers);
      stop.abort();
      expect(await kills).toBeGreaterThan(0);
      expect(talked.flatMap(({ refused }) => refused)).toEqual([]);
      const found: string[] = [];
      for (const chat of chats) found.push(...(await verified(harness, `friend~${chat}`)));
      for (const chat of chats) await journaled(harness, folder, `friend~${chat}`);
      expect(found.toSorted()).toEqual(talked.flatMap(({ taken }) => taken).toSorted());
      expect(found).toHaveLength(MESSAGES);
      expect(await harness.store.violations()).toEqual([]);
    } finally {
      stop.abort();
      await Promise.all(workers.map((worker) => worker.end('SIGKILL')));
      await harness.close();
      await model.close();
      await temporal.stop();
    }
  },
  600_000,
);
