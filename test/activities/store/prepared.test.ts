/** Rows that are written by statements which are made once. */

import { afterEach, beforeEach, expect, test } from '@jest/globals';
import SqliteDatabase from 'better-sqlite3';
import { Kysely, SqliteDialect } from 'kysely';
import { insertRows, inTransaction, prepared } from '../../../activities/store/prepared.ts';
import type { Tables, Trx } from '../../../activities/store/schema/rows.ts';

let db: Kysely<Tables>;

const opened = (): Kysely<Tables> => {
  const database = new SqliteDatabase(':memory:');
  database.exec(
    "create table agents (agent_id text primary key, root_agent_id text, profile text, lifecycle text default 'active', parent_agent_id text, created_at integer)",
  );
  return new Kysely<Tables>({ dialect: new SqliteDialect({ database }) });
};

beforeEach(() => {
  db = opened();
});
afterEach(() => db.destroy());

const parents = async () =>
  (await db.selectFrom('agents').select('parent_agent_id').orderBy('agent_id').execute()).map(
    (row) => row.parent_agent_id,
  );

test('rows of one insert keep all their columns, also those that the first of them does not have', async () => {
  const first = { agent_id: 'a', profile: 'p', root_agent_id: 'a', created_at: 1 };
  await insertRows(db, 'agents', [first, { ...first, agent_id: 'b', parent_agent_id: 'a' }]);
  await insertRows(db, 'agents', [
    { ...first, agent_id: 'c', parent_agent_id: 'a' },
    { ...first, agent_id: 'd' },
  ]);
  expect(await parents()).toEqual([null, 'a', 'a', null]);
});

test('more rows than a statement has values are inserted all the same, and of none nothing', async () => {
  const agents = Array.from({ length: 20_000 }, (_, at) => ({
    agent_id: `${at}`,
    profile: 'p',
    root_agent_id: 'a',
    created_at: at,
  }));
  await insertRows(db, 'agents', []);
  await insertRows(db, 'agents', agents);
  expect(await parents()).toHaveLength(agents.length);
});

test('a statement that looks at a value while it is built is an error', () => {
  const ofAge = prepared((of, { age }: { age: number }) =>
    of
      .selectFrom('agents')
      .selectAll()
      .where('created_at', '>', age + 1),
  );
  expect(() => ofAge(db, { age: 1 })).toThrow('age is not known while its statement is built');
});

const agent = { agent_id: 'a', profile: 'p', root_agent_id: 'a', created_at: 1 };

test('statements of a transaction are taken back with it', async () => {
  const failing = inTransaction(db, async (trx) => {
    await insertRows(trx, 'agents', [agent]);
    throw new Error('no');
  });
  await expect(failing).rejects.toThrow('no');
  expect(await parents()).toEqual([]);
});

test.each(['committed', 'rolled back'])('a transaction that is %s takes no more statements', async (end) => {
  const left: Trx[] = [];
  const over = inTransaction(db, async (trx) => {
    left.push(trx);
    if (end === 'rolled back') throw new Error('no');
  });
  await over.catch(() => {});
  const [trx] = left;
  if (!trx) throw new Error('the transaction never began');
  await expect(insertRows(trx, 'agents', [agent])).rejects.toThrow('the transaction is over');
  expect(await parents()).toEqual([]);
});
