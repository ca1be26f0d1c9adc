import { describe, expect, test } from '@jest/globals';
import pg from 'pg';
import { mapPostgresError } from '../../../../activities/store/postgres/errors.ts';
import { openPostgresStore } from '../../../../activities/store/postgres/open.ts';
import { testApp } from '../../../support/app.ts';
import { blockedBy, found, freshSchemaUrl } from '../../../support/postgres.ts';
import { describeStore } from '../conformance.ts';
import { describeInvariants } from '../reads/invariants.ts';

describeStore('PostgreSQL', () => {
  const url = freshSchemaUrl();
  return async (now, options) => openPostgresStore({ url: await url, now, ...options });
});

describe('a PostgreSQL server', () => {
  test('that does not answer is store_unavailable, and the message keeps the password out', async () => {
    const opening = openPostgresStore({ url: 'postgres://someone:secret@127.0.0.1:1/nowhere' });
    await expect(opening).rejects.toMatchObject({
      code: 'store_unavailable',
      message: expect.stringContaining('127.0.0.1:1'),
    });
    await expect(opening).rejects.not.toMatchObject({ message: expect.stringContaining('secret') });
  });

  test('opened by several at once is migrated once', async () => {
    const url = await freshSchemaUrl();
    const stores = await Promise.all(Array.from({ length: 4 }, () => openPostgresStore({ url })));
    await expect(stores[3]?.listAgents()).resolves.toEqual([]);
    await Promise.all(stores.map((store) => store.close()));
  });
});

test('a transaction that the server ends because of a deadlock is run again', async () => {
  const url = await freshSchemaUrl();
  const store = await openPostgresStore({ url });
  await store.registerProfiles([...testApp([]).agents.values()]);
  const request = { instruction: 'go', profile: 'tester', priority: 'normal' } as const;
  const ids: string[] = [];
  for (const agentId of ['alice', 'bob']) {
    const outcome = await store.accept({ agentId, request });
    if (outcome.kind === 'accepted') ids.push(outcome.agentTurnId);
  }
  const other = new pg.Client({ connectionString: url });
  await other.connect();
  // It waits longer than the store's transaction, which is therefore the one that the server ends.
  await other.query(`set deadlock_timeout = '30s'`);
  const touch = (id = '') => other.query('update turns set step_count = step_count where agent_turn_id = $1', [id]);
  await other.query('begin');
  await touch(ids[1]);
  const made = store.makeDue(ids);
  await blockedBy(url, other);
  await touch(ids[0]);
  await other.query('commit');
  expect(await made).toBe(2);
  // The server counts them a moment later.
  await found(url, 'select 1 as pid from pg_stat_database where datname = current_database() and deadlocks > $1', [0]);
  await other.end();
  await store.close();
});

describe('a connection that the server ends', () => {
  test('in the middle of a transaction is store_unavailable, and the next transaction has another', async () => {
    const url = await freshSchemaUrl();
    const store = await openPostgresStore({ url });
    const request = { instruction: 'go', priority: 'normal' } as const;
    await store.accept({ agentId: 'alice', request });
    const holder = new pg.Client({ connectionString: url });
    await holder.connect();
    await holder.query('begin');
    await holder.query('select 1 from agent_state_head for update');
    const held = store.accept({ agentId: 'alice', request }).catch((error: unknown) => error);
    const { pid } = await blockedBy(url, holder);
    await holder.query('select pg_terminate_backend($1)', [pid]);
    expect(await held).toMatchObject({ code: 'store_unavailable' });
    await holder.query('rollback');
    await holder.end();
    await expect(store.accept({ agentId: 'alice', request })).resolves.toMatchObject({ kind: 'accepted' });
    await store.close();
  });

  test.each(['EHOSTUNREACH', 'ENETUNREACH', 'ECONNABORTED', '58030', 'XX000'])(
    'or answers %s is store_unavailable: it is waited for as long as it takes',
    (code) => {
      const error = Object.assign(new Error('no'), { code });
      const mapped = mapPostgresError(error, { url: 'postgres://h/d', connections: 1, waitMs: 1 });
      expect(mapped).toMatchObject({ code: 'store_unavailable' });
    },
  );

  test('between two statements is store_unavailable too: the driver has other words for it', async () => {
    const url = await freshSchemaUrl();
    const [victim, killer] = [new pg.Client(url), new pg.Client(url)];
    await Promise.all([victim.connect(), killer.connect()]);
    victim.on('error', () => {});
    const lost = new Promise<void>((resolve) => victim.once('end', () => resolve()));
    const { rows } = await victim.query<{ pid: number }>('select pg_backend_pid() as pid');
    await killer.query('select pg_terminate_backend($1)', [rows[0]?.pid]);
    await lost;
    const error: unknown = await victim.query('select 1').catch((failure: unknown) => failure);
    expect(error).toMatchObject({ message: expect.stringContaining('not queryable') });
    expect(mapPostgresError(error, { url, connections: 1, waitMs: 1 })).toMatchObject({ code: 'store_unavailable' });
    await killer.end();
  });
});

test('a process that is given no connection because the server takes no more is told which two settings do not fit', async () => {
  const full = Object.assign(new Error('sorry, too many clients already'), { code: '53300' });
  const pool = { url: 'postgres://a:secret@db/x', connections: 20, waitMs: 5_000 };
  expect(mapPostgresError(full, pool)).toMatchObject({
    code: 'store_unavailable',
    message: expect.stringMatching(/max_connections.*AGENTTURN_STORE_CONNECTIONS/),
  });
});

describeInvariants('PostgreSQL', async () => {
  const url = await freshSchemaUrl();
  const store = await openPostgresStore({ url });
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  return {
    store,
    plant: async (statement) => void (await client.query(statement)),
    close: async () => {
      await client.end();
      await store.close();
    },
  };
});
