import { globSync, readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, test } from '@jest/globals';
import { Kysely, PostgresDialect, sql } from 'kysely';
import pg from 'pg';
import { together } from '../../../../activities/store/context.ts';
import { ChangeFeed } from '../../../../activities/store/postgres/changes.ts';
import { storePool } from '../../../../activities/store/postgres/client.ts';
import { isConflict } from '../../../../activities/store/postgres/errors.ts';
import { openPostgresStore } from '../../../../activities/store/postgres/open.ts';
import type { Tables } from '../../../../activities/store/schema/rows.ts';
import { testApp } from '../../../support/app.ts';
import { freshSchemaUrl, statementsOf } from '../../../support/postgres.ts';

const SYNTAX_ERROR = '42601';
const UNIQUE_VIOLATION = '23505';
const DIVISION_BY_ZERO = '22012';

/** Connections with nothing between them and the server. */
const directPool = (pool: pg.Pool) => storePool({ pool, perTransaction: null, keepsPrepared: true });

describe('a connection of the store', () => {
  let url: string;
  let db: Kysely<Tables>;
  const service = (name: string) => ({ service: name, holder: 'me', expires_at: 1, since: 1, listed_until: null });
  const insert = (on: Kysely<Tables>, name: string) => on.insertInto('svc_leases').values(service(name)).execute();
  const services = () => db.selectFrom('svc_leases').select('service').orderBy('service').execute();

  beforeAll(async () => {
    url = await freshSchemaUrl();
    await (await openPostgresStore({ url })).close();
    const pool = new pg.Pool({ connectionString: url, max: 1 });
    db = new Kysely<Tables>({ dialect: new PostgresDialect({ pool: directPool(pool) }) });
  });
  afterAll(() => db.destroy());

  test('reads what the transaction wrote before, although nobody waited for it', async () => {
    const seen = await db.transaction().execute(async (trx) => {
      await insert(trx, 'read');
      await trx.updateTable('svc_leases').set({ holder: 'you' }).where('service', '=', 'read').execute();
      return trx.selectFrom('svc_leases').select('holder').where('service', '=', 'read').execute();
    });
    expect(seen).toEqual([{ holder: 'you' }]);
  });

  test.each([
    ['the next one that reads', (trx: Kysely<Tables>) => trx.selectFrom('svc_leases').selectAll().execute()],
    ['the commit', async () => {}],
    ['the commit, after further writes', (trx: Kysely<Tables>) => insert(trx, 'further')],
  ])('a write that fails fails its transaction with its own error, by %s', async (_by, then) => {
    await db.deleteFrom('svc_leases').execute();
    await insert(db, 'taken');
    const failing = db.transaction().execute(async (trx) => {
      await insert(trx, 'new');
      await insert(trx, 'taken');
      await then(trx);
    });
    await expect(failing).rejects.toMatchObject({ code: UNIQUE_VIOLATION });
    expect(await services()).toEqual([{ service: 'taken' }]);
  });

  test('is as good as new after a transaction that failed', async () => {
    await db.deleteFrom('svc_leases').execute();
    const failing = db.transaction().execute(async (trx) => {
      await insert(trx, 'twice');
      await insert(trx, 'twice');
    });
    await expect(failing).rejects.toMatchObject({ code: UNIQUE_VIOLATION });
    await db.transaction().execute(async (trx) => void (await insert(trx, 'twice')));
    expect(await services()).toEqual([{ service: 'twice' }]);
  });

  test('is kept after a transaction that failed, also where each transaction has its settings', async () => {
    const ownPool = new pg.Pool({ connectionString: url, max: 1 });
    const pool = storePool({ pool: ownPool, perTransaction: { lock_timeout: '5000' }, keepsPrepared: true });
    const client = await pool.connect();
    const process = async () =>
      (await client.query<{ pid: number }>('select pg_backend_pid() as pid', [])).rows[0]?.pid;
    const before = await process();
    await client.query('begin', []);
    await expect(client.query('select 1 / 0', [])).rejects.toMatchObject({ code: DIVISION_BY_ZERO });
    await client.query('rollback', []);
    expect(await process()).toBe(before);
    client.release();
    await pool.end();
  });

  test('writes nothing when the transaction cannot begin', async () => {
    await db.deleteFrom('svc_leases').execute();
    const ownPool = new pg.Pool({ connectionString: url, max: 1 });
    // As when an operator cancels the statement at this very moment.
    ownPool.on('connect', ({ connection: { stream } }) => {
      const write = stream.write.bind(stream) as (sent: Buffer) => boolean;
      const garbled = (sent: Buffer) => write(Buffer.from(sent.toString('latin1').replace('begin', 'bogus'), 'latin1'));
      Object.assign(stream, { write: garbled });
    });
    const own = new Kysely<Tables>({ dialect: new PostgresDialect({ pool: directPool(ownPool) }) });
    const failing = own.transaction().execute(async (trx) => {
      await insert(trx, 'one');
      await insert(trx, 'two');
    });
    await expect(failing).rejects.toMatchObject({ code: SYNTAX_ERROR });
    await own.destroy();
    expect(await services()).toEqual([]);
  });

  test('runs statements that are given together in their order', async () => {
    await db.deleteFrom('svc_leases').execute();
    const answers = await db
      .transaction()
      .execute((trx) =>
        together(
          trx,
          trx.insertInto('svc_leases').values(service('first')).returning('service'),
          trx.selectFrom('svc_leases').select('service'),
          trx.selectFrom('svc_leases').select('holder').where('service', '=', 'other'),
        ),
      );
    expect(answers).toEqual([[{ service: 'first' }], [{ service: 'first' }], []]);
  });

  test('sends a transaction in as many batches as callers wait for answers', async () => {
    const ownPool = new pg.Pool({ connectionString: url, max: 1 });
    const answered: string[] = [];
    ownPool.on('connect', ({ connection }) => connection.on('readyForQuery', () => answered.push('batch')));
    const own = new Kysely<Tables>({ dialect: new PostgresDialect({ pool: directPool(ownPool) }) });
    await own.deleteFrom('svc_leases').execute();
    answered.length = 0;
    await own.transaction().execute(async (trx) => {
      await together(trx, trx.selectFrom('svc_leases').select('holder'), trx.selectFrom('svc_leases').selectAll());
      await insert(trx, 'first');
      await insert(trx, 'second');
      await trx.deleteFrom('svc_leases').where('service', '=', 'first').execute();
    });
    expect(answered).toHaveLength(2);
    await own.destroy();
    expect(await services()).toEqual([{ service: 'second' }]);
  });

  test('sends many writes on the way, and a transaction that fails in one of them writes nothing', async () => {
    await db.deleteFrom('svc_leases').execute();
    const writing = (names: readonly string[]) =>
      db.transaction().execute(async (trx) => {
        for (const name of names) await insert(trx, name);
      });
    const many = Array.from({ length: 300 }, (_, at) => `many-${String(at).padStart(3, '0')}`);
    await expect(writing(['many-007', ...many])).rejects.toMatchObject({ code: UNIQUE_VIOLATION });
    expect(await services()).toEqual([]);
    await writing(many);
    expect((await services()).map(({ service }) => service)).toEqual(many);
  });

  test('waits between many writes that nobody waits for: no batch is longer than a server can answer in time', async () => {
    const ownPool = new pg.Pool({ connectionString: url, max: 1 });
    const lengths: number[] = [];
    ownPool.on('connect', (client) => {
      const query = client.query.bind(client) as (sent: unknown) => unknown;
      const measured = (sent: unknown) => {
        lengths.push(statementsOf(sent).length);
        return query(sent);
      };
      Object.assign(client, { query: measured });
    });
    const own = new Kysely<Tables>({ dialect: new PostgresDialect({ pool: directPool(ownPool) }) });
    await own.deleteFrom('svc_leases').execute();
    await own.transaction().execute(async (trx) => {
      for (let at = 0; at < 1_000; at += 1) await insert(trx, `waiting-${at}`);
    });
    await own.destroy();
    expect(await services()).toHaveLength(1_000);
    expect(Math.max(...lengths)).toBeLessThan(100);
  });

  test('sends nothing of a transaction that nothing was read in and that fails', async () => {
    const failing = db.transaction().execute(async (trx) => {
      await insert(trx, 'unsent');
      throw new Error('on the way');
    });
    await expect(failing).rejects.toThrow('on the way');
    expect(await services()).not.toContainEqual({ service: 'unsent' });
  });

  test('a transaction fails with the error of a write that was sent on the way, also when it is committed before the answer', async () => {
    await db.deleteFrom('svc_leases').execute();
    await insert(db, 'taken');
    const failing = db.transaction().execute(async (trx) => {
      for (let at = 0; at < 70; at += 1) await insert(trx, at === 9 ? 'taken' : `on-the-way-${at}`);
      // Long enough for the full batch to be sent, and too short for its answer.
      await new Promise((resolve) => setImmediate(resolve));
    });
    await expect(failing).rejects.toMatchObject({ code: UNIQUE_VIOLATION });
    expect(await services()).toEqual([{ service: 'taken' }]);
  });

  test('a transaction with an isolation level is rolled back as any other', async () => {
    await db.deleteFrom('svc_leases').execute();
    const failing = db
      .transaction()
      .setIsolationLevel('serializable')
      .execute(async (trx) => {
        await insert(trx, 'undone');
        await trx.selectFrom('svc_leases').selectAll().execute();
        throw new Error('on the way');
      });
    await expect(failing).rejects.toThrow('on the way');
    expect(await services()).toEqual([]);
    // What is written on the connection now is seen by others.
    await insert(db, 'after');
    const other = new pg.Client({ connectionString: url });
    await other.connect();
    const { rows } = await other.query('select service from svc_leases');
    await other.end();
    expect(rows).toEqual([{ service: 'after' }]);
  });

  test('a write that is not waited for is refused or written, at whatever moment of the commit it comes', async () => {
    for (let gap = 0; gap < 40; gap += 1) {
      await db.deleteFrom('svc_leases').execute();
      let late: Promise<string> = Promise.resolve('');
      await db.transaction().execute(async (trx) => {
        await trx.selectFrom('svc_leases').selectAll().execute();
        await insert(trx, 'in time');
        late = (async () => {
          // In the moment of the commit, and while its answer is on the way.
          if (gap >= 20) await new Promise((resolve) => setImmediate(resolve));
          for (let at = 0; at < gap % 20; at += 1) await Promise.resolve();
          return insert(trx, 'late').then(
            () => 'written',
            () => 'refused',
          );
        })();
      });
      const outcome = await late;
      const names = (await services()).map(({ service }) => service);
      expect([gap, names]).toEqual([gap, outcome === 'written' ? ['in time', 'late'] : ['in time']]);
    }
  });

  test('does not give a connection that was given up to the next caller', async () => {
    const ownPool = new pg.Pool({ connectionString: url, max: 1, query_timeout: 300 });
    const clients: pg.PoolClient[] = [];
    ownPool.on('connect', (client) => clients.push(client));
    const own = new Kysely<Tables>({ dialect: new PostgresDialect({ pool: directPool(ownPool) }) });
    const reading = () => own.selectFrom('svc_leases').select('since').execute();
    await reading();
    // The server's answers arrive no more on the first connection.
    clients[0]?.connection.stream.pause();
    const [first, next] = await Promise.allSettled([reading(), reading()]);
    expect(first).toMatchObject({ status: 'rejected', reason: { message: 'Query read timeout' } });
    expect(next).toMatchObject({ status: 'fulfilled' });
    expect(clients).toHaveLength(2);
    await own.destroy();
  });

  test('runs a statement again that failed when it was first prepared', async () => {
    await db.deleteFrom('svc_leases').execute();
    await insert(db, 'known');
    const again = (name: string) =>
      db.insertInto('svc_leases').values({ service: name, holder: 'you', expires_at: 2, since: 2 }).execute();
    await expect(again('known')).rejects.toMatchObject({ code: UNIQUE_VIOLATION });
    await again('other');
    await expect(again('other')).rejects.toMatchObject({ code: UNIQUE_VIOLATION });
    expect(await services()).toEqual([{ service: 'known' }, { service: 'other' }]);
  });

  test('prepares a statement once', async () => {
    const find = (name: string) => db.selectFrom('svc_leases').select('since').where('service', '=', name).execute();
    await find('one');
    await find('other');
    const { rows } = await sql<{ runs: number }>`
      select (generic_plans + custom_plans)::int as runs from pg_prepared_statements
      where statement like 'select "since"%"service" =%'`.execute(db);
    expect(rows).toEqual([{ runs: 2 }]);
  });
});

test('one that waits for changes holds no connection on which it cannot listen, as on a standby', async () => {
  const pool = new pg.Pool({ connectionString: await freshSchemaUrl(), max: 2 });
  pool.on('connect', (client) => {
    const query = client.query.bind(client) as (...args: unknown[]) => Promise<unknown>;
    const failing = (text: string, ...more: unknown[]) =>
      query(text.startsWith('listen') ? 'select 1 / 0' : text, ...more);
    Object.assign(client, { query: failing });
  });
  const feed = new ChangeFeed(pool, pool);
  for (let wait = 0; wait < 4; wait += 1) await feed.wait(50);
  // A try to listen may be under way; none is held for longer.
  while (pool.totalCount > pool.idleCount) await sleep(10);
  await feed.close();
  await pool.end();
});

test('statements that were prepared before another process changed the schema are prepared anew', async () => {
  const url = await freshSchemaUrl();
  const store = await openPostgresStore({ url });
  await store.registerProfiles([...testApp([]).agents.values()]);
  const request = { instruction: 'go', profile: 'tester', priority: 'normal' } as const;
  const accepted = await store.accept({ agentId: 'alice', request });
  const turnId = accepted.kind === 'accepted' ? accepted.agentTurnId : '';
  await store.getTurn(turnId);
  const other = new pg.Client({ connectionString: url });
  await other.connect();
  await other.query('alter table turns add column later text');
  await other.query('alter table agent_state_head add column later text');
  await other.end();
  await expect(store.getTurn(turnId)).resolves.toMatchObject({ status: 'dispatched' });
  await expect(store.accept({ agentId: 'alice', request })).resolves.toMatchObject({ kind: 'accepted' });
  await store.close();
});

/** The statements that a connection of the server has prepared, by their names. */
const preparedOn = async (pool: pg.Pool): Promise<ReadonlyMap<string, string>> => {
  const { rows } = await pool.query<{ name: string; statement: string }>(
    'select name, statement from pg_prepared_statements',
  );
  return new Map(rows.map(({ name, statement }) => [name, statement]));
};

test('one name is one text in every process, in whatever order they prepare their statements', async () => {
  const url = await freshSchemaUrl();
  await (await openPostgresStore({ url })).close();
  const columns = ['service', 'holder', 'since'] as const;
  const namesOf = async (order: readonly (typeof columns)[number][]) => {
    const pool = new pg.Pool({ connectionString: url, max: 1 });
    const db = new Kysely<Tables>({ dialect: new PostgresDialect({ pool: directPool(pool) }) });
    for (const column of order) await db.selectFrom('svc_leases').select(column).execute();
    const prepared = await preparedOn(pool);
    await db.destroy();
    return prepared;
  };
  const one = await namesOf(columns);
  expect(one.size).toBe(3);
  expect(new Map([...(await namesOf(columns.toReversed()))].toSorted())).toEqual(new Map([...one].toSorted()));
});

test('a connection that forgets what was prepared, as behind a pooler, is served without names from then on', async () => {
  const url = await freshSchemaUrl();
  await (await openPostgresStore({ url })).close();
  const pool = new pg.Pool({ connectionString: url, max: 1 });
  const db = new Kysely<Tables>({ dialect: new PostgresDialect({ pool: directPool(pool) }) });
  const read = () => db.selectFrom('svc_leases').select('service').execute();
  await read();
  await pool.query('deallocate all');
  await expect(read()).rejects.toMatchObject({ code: '26000' });
  await read();
  await read();
  expect((await preparedOn(pool)).size).toBe(0);
  await db.destroy();
});

test('the store tries again what failed because a pooler had forgotten it', () => {
  const forgotten = Object.assign(new Error('prepared statement "x" does not exist'), { code: '26000' });
  const taken = Object.assign(new Error('prepared statement "x" already exists'), { code: '42P05' });
  expect([forgotten, taken, new Error('other')].map(isConflict)).toEqual([true, true, false]);
});

test('nothing in the store reads the number of rows that a write changed: PostgreSQL’s are not waited for', () => {
  const counts = /\bnum(?:Updated|Affected|Deleted|Changed|InsertedOrUpdated)Rows\b/;
  const files = globSync('activities/store/**/*.ts');
  expect(files.length).toBeGreaterThan(30);
  expect(files.filter((file) => counts.test(readFileSync(file, 'utf8')))).toEqual([]);
});
