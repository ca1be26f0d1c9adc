/** Writes of one process that are committed together. */
import { setTimeout } from 'node:timers/promises';
import { afterEach, beforeEach, expect, test } from '@jest/globals';
import SqliteDatabase from 'better-sqlite3';
import { Kysely, sql } from 'kysely';
import type { Tables, Trx } from '../../../../activities/store/schema/rows.ts';
import { ImmediateSqliteDialect } from '../../../../activities/store/sqlite/dialect.ts';
import { GroupedWrites, WRITES_TOGETHER } from '../../../../activities/store/sqlite/grouped-writes.ts';

let database: SqliteDatabase.Database;
let commits: number;
/** What was run, of transactions and beside them. */
let ran: string[];
let writes: GroupedWrites;

beforeEach(() => {
  database = new SqliteDatabase(':memory:');
  database.pragma('foreign_keys = ON');
  database.exec(
    'create table names (name text primary key); create table told (name text references names (name) deferrable initially deferred)',
  );
  commits = 0;
  ran = [];
  const log = ({ query }: { readonly query: { readonly sql: string } }): void => {
    ran.push(query.sql);
    if (query.sql === 'commit') commits += 1;
  };
  const db = new Kysely<Tables>({ dialect: new ImmediateSqliteDialect({ database }), log });
  // However busy the machine is.
  writes = grouping(db, Number.POSITIVE_INFINITY);
});
afterEach(() => void database.close());

const grouping = (db: Kysely<Tables>, longestMs: number) =>
  new GroupedWrites(db, { isLocked: () => false, lockedPause: () => 1 }, longestMs);

const insert = async (trx: Trx, name: string): Promise<string> => {
  await sql`insert into names values (${name})`.execute(trx);
  return name;
};

const write = (name: string, more: (trx: Trx) => Promise<unknown> = async () => {}): Promise<string> =>
  writes.run(performance.now() + 1_000, async (trx) => {
    const written = await insert(trx, name);
    await more(trx);
    return written;
  });

const inFile = (): unknown[] => database.prepare('select name from names order by rowid').pluck().all();

test('those that come at once are committed together, in their order, and a few at a time', async () => {
  const names = Array.from({ length: WRITES_TOGETHER + 3 }, (_, index) => `n${index}`);
  const told: string[] = [];
  await Promise.all(names.map((name) => write(name).then((written) => told.push(written))));
  expect(told).toEqual(names);
  expect(inFile()).toEqual(names);
  expect(commits).toBe(2);
});

test('nothing else of the process runs while a transaction is open', async () => {
  const others = setInterval(() => ran.push('something else'), 0);
  for (let round = 0; round < 20; round += 1) {
    await Promise.all(Array.from({ length: 5 }, (_, index) => write(`${round}-${index}`)));
    await setTimeout(1);
  }
  clearInterval(others);
  const inside = ran
    .join()
    .split('begin immediate')
    .slice(1)
    .map((text) => text.split('commit')[0]);
  expect(inside).toHaveLength(20);
  expect(inside.filter((text) => text?.includes('something else'))).toEqual([]);
  expect(ran).toContain('something else');
});

test('one that fails leaves nothing, and the others as they are', async () => {
  const refused = async () => {
    throw new Error('refused');
  };
  const outcomes = await Promise.allSettled([write('first'), write('second', refused), write('first'), write('last')]);
  expect(outcomes).toMatchObject([
    { status: 'fulfilled', value: 'first' },
    { status: 'rejected', reason: { message: 'refused' } },
    { status: 'rejected', reason: { code: 'SQLITE_CONSTRAINT_PRIMARYKEY' } },
    { status: 'fulfilled', value: 'last' },
  ]);
  expect(inFile()).toEqual(['first', 'last']);
});

test('nobody is told of a success whose commit fails, and those that come later are not kept back', async () => {
  const orphan = (trx: Trx) => sql`insert into told values ('nobody')`.execute(trx);
  const outcomes = await Promise.allSettled([write('first'), write('second', orphan), write('first')]);
  expect(outcomes).toEqual(
    Array(3).fill({ status: 'rejected', reason: expect.objectContaining({ code: 'SQLITE_CONSTRAINT_FOREIGNKEY' }) }),
  );
  expect(inFile()).toEqual([]);
  expect(await write('later')).toBe('later');
  expect(inFile()).toEqual(['later']);
});

test('when the whole transaction is lost in the middle, no write of it stands alone', async () => {
  // As SQLite does itself when the disk is full.
  const lost = async (trx: Trx) => {
    await sql`rollback`.execute(trx);
    throw new Error('the disk is full');
  };
  const outcomes = await Promise.allSettled([write('first'), write('second', lost), write('third')]);
  const full = { status: 'rejected', reason: { message: 'the disk is full' } };
  expect(outcomes.slice(0, 2)).toMatchObject([full, full]);
  expect(outcomes[2]).toMatchObject({ status: 'fulfilled', value: 'third' });
  expect(inFile()).toEqual(['third']);
});
