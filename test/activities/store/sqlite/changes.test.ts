import { mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, test } from '@jest/globals';
import SqliteDatabase from 'better-sqlite3';
import { ChangeWatcher } from '../../../../activities/store/sqlite/changes.ts';

const file = (): string => join(mkdtempSync(join(tmpdir(), 'agentturn-changes-')), 'store.db');

/** Opens the file, and counts how often it is looked at; what `failing` holds is thrown instead, one after the other. */
function watched(path: string, failing: Error[] = []) {
  const seen = { polls: 0 };
  const open = (): SqliteDatabase.Database => {
    const database = new SqliteDatabase(path);
    const prepare = database.prepare.bind(database) as (sql: string) => SqliteDatabase.Statement<unknown[], unknown>;
    const counted = (sql: string) => {
      const statement = prepare(sql);
      const get = statement.get.bind(statement);
      const countedGet: typeof get = (...args) => {
        seen.polls += 1;
        const failure = failing.shift();
        if (failure) throw failure;
        return get(...args);
      };
      return Object.assign(statement, { get: countedGet });
    };
    return Object.assign(database, { prepare: counted });
  };
  return { open, seen };
}

test('a wait that could not begin leaves nothing behind: nobody is polled for afterwards', async () => {
  const { open, seen } = watched(file());
  let isAway = true;
  const watcher = new ChangeWatcher(() => {
    if (isAway) throw new Error('the file is away');
    return open();
  });
  await expect(watcher.wait(1_000)).rejects.toThrow('the file is away');
  isAway = false;
  await watcher.wait(5);
  const { polls } = seen;
  expect(polls).toBeGreaterThan(0);
  await sleep(100);
  expect(seen.polls).toBe(polls);
  watcher.close();
});

/** Longer than a test may take: a wait that the change does not end fails it. */
const HANGING_MS = 600_000;

test('a poll that fails is tried again, and the change is found', async () => {
  const path = file();
  const writer = new SqliteDatabase(path);
  writer.exec('create table t (a)');
  const busy = () => Object.assign(new Error('database is locked'), { code: 'SQLITE_BUSY' });
  const { open, seen } = watched(path, [busy(), busy()]);
  const watcher = new ChangeWatcher(open);
  // What was committed before is news to a watcher that has not looked yet.
  await watcher.wait(HANGING_MS);
  const changed = watcher.wait(HANGING_MS);
  writer.exec('insert into t values (1)');
  await changed;
  expect(seen.polls).toBeGreaterThan(2);
  watcher.close();
  writer.close();
});
