/** A store that was restored to an earlier time, as docs/production.md tells of it: what goes on, what is ended, what is lost. */
import { copyFileSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from '@jest/globals';
import SqliteDatabase from 'better-sqlite3';
import { AgentClient } from '../../client/agent-client.ts';
import type { TurnHandle } from '../../client/api.ts';
import { type ScriptedServer, startScriptedModel } from '../../workers/model-server/scripted.ts';
import { openStore } from '../../workers/open-store.ts';
import { verifyInstallation } from '../../workers/verify.ts';
import type { Store } from '../../workflows/contract/store.ts';
import type { Violation } from '../../workflows/contract/views.ts';
import { testApp } from '../support/app.ts';
import { askTool, calls, say, suspended } from '../support/asking.ts';
import { type Harness, openHarness } from '../support/harness.ts';
import { WAIT } from '../support/wait.ts';

const app = testApp([askTool]);
const KEY = 'lost';

let harness: Harness;
let model: ScriptedServer;
let dir: string;

beforeEach(async () => {
  dir = mkdtempSync(join(tmpdir(), 'agentturn-restored-'));
  model = await startScriptedModel({
    scripts: {
      answer: [say('done'), say('done')],
      ask: [calls('ask'), say('thanks')],
      ask_twice: [calls('ask'), calls('ask'), say('thanks')],
    },
  });
  harness = await openHarness();
});
afterEach(async () => {
  await harness?.close();
  await model?.close();
  rmSync(dir, { recursive: true });
});

const begin = (client: AgentClient, agentId: string, script: string, key?: string): Promise<TurnHandle> =>
  client.agent(agentId).enqueue({
    ...{ instruction: `[script:${script}] go`, profile: 'tester' },
    ...(key === undefined ? {} : { idempotencyKey: key }),
  });

async function answer(turn: TurnHandle): Promise<void> {
  const callId = (await turn.get()).waiting[0]?.callId ?? '';
  expect(await turn.toolResult({ callId, status: 'success', result: 1 })).toMatchObject({ ack: 'applied' });
}

/** What happens before the backup and after it; the store is then as it was at the backup, and nobody works on it. */
async function restored() {
  const worker = await harness.startWorker(app, model);
  const { client } = harness;
  const unmoved = await begin(client, 'unmoved', 'ask');
  const ended = await begin(client, 'ended', 'ask');
  const ahead = await begin(client, 'ahead', 'ask_twice');
  for (const turn of [unmoved, ended, ahead]) await suspended(turn);
  const backup = join(dir, 'backup.db');
  const database = new SqliteDatabase(harness.storePath, { readonly: true });
  database.exec(`VACUUM INTO '${backup}'`);
  database.close();
  await answer(ended);
  expect(await ended.result(WAIT)).toMatchObject({ status: 'success' });
  const [first] = await suspended(ahead);
  await answer(ahead);
  for await (const { type } of ahead.events()) if (type === 'state' && !(await waitsFor(ahead)).includes(first)) break;
  await suspended(ahead);
  const lost = await begin(client, 'lost', 'answer', KEY);
  await lost.result(WAIT);
  const unknown = await begin(client, 'unknown', 'ask');
  await suspended(unknown);
  await worker.stop();
  await harness.store.close();
  copyFileSync(backup, harness.storePath);
  for (const suffix of ['-wal', '-shm']) rmSync(`${harness.storePath}${suffix}`, { force: true });
  return { unmoved, ended, ahead, lost, unknown };
}

const waitsFor = async (turn: TurnHandle): Promise<readonly (string | undefined)[]> =>
  (await turn.get()).waiting.map(({ callId }) => callId);

async function findings(store: Store): Promise<readonly Violation[]> {
  const found: Violation[] = [];
  const deps = { store, temporal: harness.temporal.client, now: () => Date.now() + 61_000 };
  await verifyInstallation(deps, (page) => void found.push(...page));
  return found;
}

test('in the namespace it had, turns that have not moved go on, and the others end by what they find (T7)', async () => {
  const turns = await restored();
  const store = await openStore(harness.storeUrl);
  const client = new AgentClient({ temporal: harness.temporal.client, store });
  const worker = await harness.startWorker(app, model, { store });
  const resultOf = ({ id }: TurnHandle) => client.turn(id).result(WAIT);
  await answer(client.turn(turns.unmoved.id));
  expect(await resultOf(turns.unmoved)).toMatchObject({ status: 'success', deliverable: { text: 'thanks' } });
  // A turn that waited is checked after its deadline, within an hour at most; this test does not wait so long.
  await store.makeDue([turns.ended.id]);
  expect(await resultOf(turns.ended)).toMatchObject({ status: 'failed', errorCode: 'internal_error' });
  await answer(client.turn(turns.ahead.id));
  expect(await resultOf(turns.ahead)).toMatchObject({ status: 'failed', errorCode: 'protocol_violation' });
  expect(await store.getTurn(turns.unknown.id)).toBeNull();
  expect(await findings(store)).toMatchObject([{ check: 'orphan_workflow', agentTurnId: turns.unknown.id }]);
  // Its workflow has run, so the same key is the same turn and runs no more.
  const again = await begin(client, 'lost', 'answer', KEY);
  expect(again.id).toBe(turns.lost.id);
  expect(await resultOf(again)).toMatchObject({ status: 'failed', errorCode: 'internal_error' });
  await worker.stop();
  await store.close();
}, 180_000);

test('in a new namespace every turn that had begun ends worker_lost, and a key whose turn is lost runs anew (T7)', async () => {
  const turns = await restored();
  const fresh = await openHarness('sqlite', { storeUrl: harness.storeUrl });
  await fresh.startWorker(app, model);
  for (const { id } of [turns.unmoved, turns.ended, turns.ahead]) {
    expect(await fresh.client.turn(id).result(WAIT)).toMatchObject({ status: 'failed', errorCode: 'worker_lost' });
  }
  const again = await begin(fresh.client, 'lost', 'answer', KEY);
  expect(again.id).toBe(turns.lost.id);
  expect(await again.result(WAIT)).toMatchObject({ status: 'success' });
  expect(await fresh.store.violations()).toEqual([]);
  await fresh.close();
}, 180_000);
