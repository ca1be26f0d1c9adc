/** One namespace has one store: the first worker marks it, and whoever has another store is refused. */
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http2';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterEach, expect, test } from '@jest/globals';
import { Client, Connection } from '@temporalio/client';
import SqliteDatabase from 'better-sqlite3';
import { claimNamespace, storeOfNamespace } from '../../client/store-mark.ts';
import { openNamedStore, settingsOf } from '../../workers/commands/settings.ts';
import { readConfig } from '../../workers/config.ts';
import { connectTo } from '../../workers/connected-client.ts';
import { startScriptedModel } from '../../workers/model-server/scripted.ts';
import { openStore } from '../../workers/open-store.ts';
import { testApp } from '../support/app.ts';
import { type Harness, openHarness } from '../support/harness.ts';
import { emptyFolder, jsonOf, runCli } from './cli/processes.ts';

const open: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const close of open.splice(0).reverse()) await close();
});

async function opened(): Promise<Harness> {
  const harness = await openHarness();
  open.push(() => harness.close());
  return harness;
}

async function otherStore(path = join(mkdtempSync(join(tmpdir(), 'agentturn-other-')), 'other.db')) {
  const store = await openStore(`sqlite:${path}`);
  open.push(() => store.close());
  return store;
}

test('a worker of another store is refused, and one of a copy of the store is not', async () => {
  const harness = await opened();
  const model = await startScriptedModel({ scripts: {} });
  open.push(() => model.close());
  await harness.startWorker(testApp([]), model);
  const other = harness.startWorker(testApp([]), model, { store: await otherStore() });
  await expect(other).rejects.toMatchObject({
    code: 'store_mismatch',
    message: expect.stringContaining(harness.storePath),
  });
  const path = join(mkdtempSync(join(tmpdir(), 'agentturn-copy-')), 'copy.db');
  const database = new SqliteDatabase(harness.storePath);
  await database.backup(path);
  database.close();
  const copy = await harness.startWorker(testApp([]), model, { store: await otherStore(path) });
  await copy.stop();
});

test('a client of another store is refused before it can write, and any client while nobody has marked the namespace is not', async () => {
  const harness = await opened();
  const { address, namespace } = harness;
  const path = join(mkdtempSync(join(tmpdir(), 'agentturn-other-')), 'other.db');
  const settings = settingsOf(readConfig({}), { store: `sqlite:${path}`, temporal: address, namespace });
  await (await connectTo(settings, openNamedStore)).close();
  await claimNamespace(harness.temporal.client, await harness.store.identity());
  await expect(connectTo(settings, openNamedStore)).rejects.toMatchObject({ code: 'store_mismatch' });
});

test('while the server of a store is down, another one that was found is not taken for it', async () => {
  const harness = await opened();
  const { address, namespace } = harness;
  const cwd = emptyFolder();
  const folder = join(cwd, '.agentturn');
  mkdirSync(folder);
  const store = await otherStore(join(folder, 'agentturn.db'));
  await store.registerProfiles([...testApp([], { name: 'guide' }).agents.values()]);
  writeFileSync(join(folder, 'temporal-server.json'), JSON.stringify({ port: Number(address.split(':')[1]) }));
  const cli = (...args: string[]) => runCli([...args, '--namespace', namespace, '--json'], { cwd });
  const { agentTurnId } = jsonOf<{ agentTurnId: string }>(await cli('enqueue', 'ann', 'hi', '--profile', 'guide'));
  await claimNamespace(harness.temporal.client, await harness.store.identity());
  for (const args of [['enqueue', 'ann', 'hi'], ['verify']]) {
    const { error } = jsonOf<{ error: { code: string; cure: string } }>(await cli(...args));
    expect(error).toMatchObject({
      code: 'store_mismatch',
      cure: expect.stringMatching(/^Start the server of this store with ".* dev"/),
    });
    expect(error.cure).not.toContain('--fix');
  }
  const shown = await runCli(['turn', 'show', agentTurnId, '--namespace', namespace], { cwd });
  expect(shown).toMatchObject({ code: 0, stderr: '' });
  expect(shown.stdout).toMatch(/^stalled +not known: .*the server of this store does not run.* dev"/m);
  const { findings } = jsonOf<{ findings: { check: string; problem?: string; ok: boolean | null }[] }>(
    await cli('doctor'),
  );
  expect(
    findings.flatMap(({ check, problem, ok }) =>
      check === 'owner' || check === 'workers' ? [[check, ok, problem]] : [],
    ),
  ).toEqual([
    ['owner', false, 'store_mismatch'],
    ['workers', null, undefined],
  ]);
});

test('of two that mark a namespace at once, one wins and the other is refused', async () => {
  const harness = await opened();
  const { client } = harness.temporal;
  const stores = [await harness.store.identity(), await (await otherStore()).identity()];
  const claims = await Promise.allSettled(stores.map((store) => claimNamespace(client, store)));
  const winner = claims.findIndex(({ status }) => status === 'fulfilled');
  expect(claims.map(({ status }) => status).sort()).toEqual(['fulfilled', 'rejected']);
  expect(await storeOfNamespace(client)).toEqual(stores[winner]);
  expect(claims.find(({ status }) => status === 'rejected')).toMatchObject({ reason: { code: 'store_mismatch' } });
});

test('a server that refuses the question is told by its words', async () => {
  const server = createServer();
  const trailers = { 'grpc-status': '7', 'grpc-message': 'not in these hours' };
  server.on('stream', (stream) =>
    stream.respond({ ':status': 200, 'content-type': 'application/grpc', ...trailers }, { endStream: true }),
  );
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const connection = Connection.lazy({ address: `127.0.0.1:${port}` });
  open.push(
    () => promisify(server.close.bind(server))(),
    () => connection.close(),
  );
  await expect(storeOfNamespace(new Client({ connection, namespace: 'agents' }))).rejects.toMatchObject({
    code: 'temporal_unreachable',
    message: 'the Temporal server did not say which store namespace agents belongs to (not in these hours)',
  });
});
