/** A PostgreSQL store whose callers are many, or have to wait for a process that stands still, or for a server that does not answer. */
import { readFileSync } from 'node:fs';
import { createConnection, createServer, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, expect, test } from '@jest/globals';
import pg from 'pg';
import { openPostgresStore } from '../../../../activities/store/postgres/open.ts';
import { openPools } from '../../../../activities/store/postgres/pools.ts';
import type { Store } from '../../../../workflows/contract/store.ts';
import { blockedBy, found, freshSchemaUrl } from '../../../support/postgres.ts';
import { startStoring } from '../../../support/storing.ts';

/** Bounds a hang. */
const cleanup: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const undo of cleanup.splice(0).reverse()) await undo();
});

async function openStore(url: string, options: { connections?: number; waitMs?: number } = {}): Promise<Store> {
  const store = await openPostgresStore({ url, ...options });
  cleanup.push(() => store.close());
  return store;
}

async function connected(url: string): Promise<pg.Client> {
  const client = new pg.Client({ connectionString: url });
  client.on('error', () => {});
  await client.connect();
  cleanup.push(() => client.end());
  return client;
}

const accept = (store: Store, agentId: string): ReturnType<Store['accept']> =>
  store.accept({ agentId, request: { instruction: 'go', priority: 'normal' } });

const agents = (count: number): string[] => Array.from({ length: count }, (_, index) => `agent-${index}`);

const limited = (url: string, limits: Record<string, string>): string => `${url}&${new URLSearchParams(limits)}`;

test('a process that is frozen in a transaction holds up its agent alone, and only until the server ends the transaction', async () => {
  const url = await freshSchemaUrl();
  const store = await openStore(url);
  await accept(store, 'alice');
  const holder = await connected(url);
  await holder.query('begin');
  // The first thing a request writes after it has locked its agent, and waits for.
  await holder.query('lock table turns in share row exclusive mode');
  const frozen = await startStoring('accept', url, 'alice');
  cleanup.push(() => frozen.end());
  const { pid } = await blockedBy(url, holder);
  frozen.signal('SIGSTOP');
  await holder.query('commit');
  const idle = `select pid from pg_stat_activity where pid = $1 and state = 'idle in transaction'`;
  await found(url, idle, [pid]);

  let written = 0;
  const writers = Array.from({ length: 60 }, () => accept(store, 'alice').finally(() => (written += 1)));
  await Promise.all(agents(40).map((agentId) => accept(store, agentId)));
  expect(await store.listAgents()).toHaveLength(41);
  expect(written).toBe(0);
  expect((await holder.query(idle, [pid])).rows).toHaveLength(1);

  const outcomes = await Promise.all(writers);
  expect(outcomes.map(({ kind }) => kind)).toEqual(outcomes.map(() => 'accepted'));
  frozen.signal('SIGCONT');
  // The server has said why, unless what is sent to it before fails first.
  const told = { code: 'store_unavailable', message: expect.stringMatching(/stood still.*25P03|EPIPE|ECONNRESET/) };
  expect(await frozen.next()).toEqual(told);
  expect(await store.listTurns('alice')).toHaveLength(61);
  expect(await store.violations()).toEqual([]);
});

test('more blocked agents than there are connections leave some to reads', async () => {
  const url = await freshSchemaUrl();
  const store = await openStore(limited(url, { lock_timeout: '60000' }), { connections: 6, waitMs: 2_000 });
  const names = agents(12);
  await Promise.all(names.map((agentId) => accept(store, agentId)));
  const holder = await connected(url);
  await holder.query('begin');
  await holder.query('select 1 from agent_state_head for update');
  const held = Promise.allSettled(names.map((agentId) => accept(store, agentId)));
  await blockedBy(url, holder);
  expect(await store.listAgents()).toHaveLength(12);
  await holder.query('commit');
  await held;
});

test('more blocked agents than there are connections leave some to other agents, one after the other', async () => {
  const url = await freshSchemaUrl();
  const store = await openStore(limited(url, { lock_timeout: '300' }), { connections: 6 });
  const names = agents(12);
  await Promise.all(names.map((agentId) => accept(store, agentId)));
  const holder = await connected(url);
  await holder.query('begin');
  await holder.query('select 1 from agent_state_head for update');
  const held = Promise.all(names.map((agentId) => accept(store, agentId)));
  await blockedBy(url, holder);
  expect(await accept(store, 'free')).toMatchObject({ kind: 'accepted' });
  await holder.query('commit');
  expect((await held).every(({ kind }) => kind === 'accepted')).toBe(true);
});

test.each([
  ['one agent', (index: number) => `agent-${index % 1}`],
  ['as many agents', (index: number) => `agent-${index}`],
])(
  '240 requests at once to %s are accepted through 20 connections, however slow the server is',
  async (_to, agentOf) => {
    const url = await freshSchemaUrl();
    const store = await openStore(url);
    const holder = await connected(url);
    await holder.query('begin');
    await holder.query('lock table turns in share row exclusive mode');
    const all = Promise.all(Array.from({ length: 240 }, (_, index) => accept(store, agentOf(index))));
    // Longer than a transaction waits for a lock.
    await Promise.race([all, sleep(6_000)]);
    await holder.query('commit');
    const outcomes = await all;
    expect(outcomes.filter(({ kind }) => kind === 'accepted')).toHaveLength(240);
  },
);

test('whoever waits for a locked agent in vain is told so, and the process goes on with others meanwhile', async () => {
  const url = await freshSchemaUrl();
  const store = await openStore(limited(url, { lock_timeout: '200' }), { connections: 3, waitMs: 500 });
  await accept(store, 'alice');
  const holder = await connected(url);
  await holder.query('begin');
  await holder.query(`select 1 from agent_state_head where agent_id = 'alice' for update`);
  const held = Promise.allSettled([accept(store, 'alice'), accept(store, 'alice'), accept(store, 'alice')]);
  expect(await store.listAgents()).toHaveLength(1);
  const locked = (message: RegExp) => ({
    reason: expect.objectContaining({ code: 'store_locked', message: expect.stringMatching(message) }),
  });
  expect(await held).toMatchObject([
    locked(/waited 0\.5 s for rows in the store .* that another transaction has locked; .*pg_stat_activity/),
    locked(/waited 0\.5 s behind 1 other writes of this process for alice .*pg_stat_activity/),
    locked(/waited 0\.5 s behind 2 other writes of this process for alice/),
  ]);
  await holder.query('commit');
  expect(await accept(store, 'alice')).toMatchObject({ kind: 'accepted' });
});

test('a statement that takes too long is broken off as store_unavailable; the check of all rows may take its time', async () => {
  const url = await freshSchemaUrl();
  const store = await openStore(limited(url, { statement_timeout: '300', lock_timeout: '200000' }));
  const holder = await connected(url);
  await holder.query('begin');
  await holder.query('lock table turns in access exclusive mode');
  const violations = store.violations();
  await expect(store.getTurn('any')).rejects.toMatchObject({
    code: 'store_unavailable',
    message: expect.stringMatching(/broke off a statement .*statement timeout/),
  });
  await blockedBy(url, holder);
  await holder.query('commit');
  expect(await violations).toEqual([]);
});

test('every connection has limits on the server and beyond those for its answer, and the URL may name others', async () => {
  const url = await freshSchemaUrl();
  const limits = async (pool: pg.Pool) => {
    const names = ['lock_timeout', 'statement_timeout', 'idle_in_transaction_session_timeout'];
    const { rows } = await pool.query('select name, setting::int from pg_settings where name = any($1)', [names]);
    await pool.end();
    const of = Object.fromEntries(rows.map(({ name, setting }) => [name, setting]));
    return { ...of, answer: pool.options.query_timeout };
  };
  const usual = { idle_in_transaction_session_timeout: 10_000, lock_timeout: 5_000, statement_timeout: 30_000 };
  const { turns, scanner } = await openPools({ url, connections: 3 });
  expect(await limits(turns.pool)).toEqual({ ...usual, answer: 35_000 });
  const hour = 3_600_000;
  expect(await limits(scanner.pool)).toEqual({
    ...usual,
    lock_timeout: 0,
    statement_timeout: hour,
    answer: hour + 5_000,
  });
  const named = await openPools({
    url: limited(url, { lock_timeout: '1000', statement_timeout: '20000' }),
    connections: 3,
  });
  expect(await limits(named.turns.pool)).toMatchObject({ lock_timeout: 1_000, statement_timeout: 20_000 });
  expect(await limits(named.scanner.pool)).toMatchObject({ lock_timeout: 0, statement_timeout: hour });
});

test('what a turn does is planned by index, however small a table is, and the check of all rows is not', async () => {
  const pools = await openPools({ url: await freshSchemaUrl(), connections: 3 });
  const [pool, scanner] = [pools.turns.pool, pools.scanner.pool];
  const planOf = async (of: pg.Pool) => {
    const { rows } = await of.query("explain select name from small where name in ('a', 'b')");
    await of.end();
    return rows.map((row) => row['QUERY PLAN']).join('\n');
  };
  await pool.query('create table small (name text primary key)');
  await pool.query("insert into small values ('a')");
  await pool.query('vacuum analyze small');
  // A plan that cannot avoid to read a table is not compiled for it.
  expect((await pool.query('show jit')).rows).toEqual([{ jit: 'off' }]);
  expect(await planOf(pool)).toMatch(/Index/);
  expect(await planOf(scanner)).toMatch(/Seq Scan/);
});

/** Between store and server; when it is frozen it takes what is sent and lets nothing through, as a server that stands still. */
async function startProxy(url: string): Promise<{ url: string; freeze(): void }> {
  const { hostname, port } = new URL(url);
  const sockets: Socket[] = [];
  let isFrozen = false;
  const server = createServer((inbound) => {
    if (isFrozen) {
      sockets.push(inbound.on('error', () => {}));
      return;
    }
    const outbound = createConnection(Number(port), hostname);
    for (const [from, to] of [
      [inbound, outbound],
      [outbound, inbound],
    ] as const) {
      sockets.push(from);
      from.on('error', () => {}).on('close', () => to.destroy());
      from.pipe(to);
    }
  }).listen(0, '127.0.0.1');
  await new Promise((resolve) => server.once('listening', resolve));
  const address = server.address();
  if (address === null || typeof address === 'string') throw new Error('no port');
  cleanup.push(async () => {
    for (const socket of sockets) socket.destroy();
    await new Promise((resolve) => server.close(resolve));
  });
  const proxied = new URL(url);
  proxied.port = String(address.port);
  return {
    url: proxied.href,
    freeze() {
      isFrozen = true;
      for (const socket of sockets) socket.unpipe().pause();
    },
  };
}

test('a server that does not answer any more is store_unavailable', async () => {
  const proxy = await startProxy(await freshSchemaUrl());
  const store = await openStore(limited(proxy.url, { query_timeout: '3000' }));
  // One connection that listens, and one that has nothing to do.
  await store.changed(1);
  await accept(store, 'alice');
  const changed = store.changed(1_000);
  proxy.freeze();
  await expect(accept(store, 'alice')).rejects.toMatchObject({
    code: 'store_unavailable',
    message: expect.stringMatching(/does not answer \(Query read timeout\); check that the server is up/),
  });
  await changed;
});

test('a server that does not answer any more does not keep a process from closing its store', async () => {
  const proxy = await startProxy(await freshSchemaUrl());
  const store = await openPostgresStore({ url: proxy.url });
  await store.changed(1);
  await accept(store, 'alice');
  // Its commit is announced soon after, and then a connection has nothing to do.
  await sleep(200);
  proxy.freeze();
  const waiting = store.listAgents().catch((error: unknown) => error);
  // Now it is under way.
  await sleep(50);
  const startedAt = performance.now();
  await store.close();
  expect(await waiting).toMatchObject({ code: 'store_unavailable' });
  // Before the statement itself would be given up.
  expect(performance.now() - startedAt).toBeLessThan(30_000);
});

(process.platform === 'linux' ? test : test.skip)(
  'every connection is asked for a sign of life when nothing is sent on it',
  async () => {
    const proxy = await startProxy(await freshSchemaUrl());
    const store = await openStore(proxy.url);
    const changed = store.changed(500);
    await accept(store, 'alice');
    const port = Number(new URL(proxy.url).port).toString(16).toUpperCase().padStart(4, '0');
    const timersNow = () =>
      readFileSync('/proc/net/tcp', 'utf8')
        .split('\n')
        .map((line) => line.trim().split(/\s+/))
        .filter(([, , remote = '', state]) => remote.endsWith(`:${port}`) && state === '01')
        .map(([, , , , , timer = '']) => timer.slice(0, 2));
    // 02 is the timer of keep-alive. What has just been sent, and is not acknowledged yet, has another one.
    const deadline = performance.now() + 10_000;
    let timers = timersNow();
    for (; timers.some((timer) => timer !== '02') && performance.now() < deadline; timers = timersNow())
      await sleep(20);
    expect(timers.length).toBeGreaterThan(1);
    expect(new Set(timers)).toEqual(new Set(['02']));
    await changed;
  },
);
