import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { describe, expect, test } from '@jest/globals';
import Database from 'better-sqlite3';
import { openSqliteStore } from '../../../../activities/store/sqlite/open.ts';
import { describeStore } from '../conformance.ts';
import { describeInvariants } from '../reads/invariants.ts';

const freshPath = (): string => join(mkdtempSync(join(tmpdir(), 'agentturn-sqlite-')), 'store.db');

describeStore('SQLite', () => {
  const path = freshPath();
  return (now, options) => openSqliteStore({ path, now, ...options });
});

describe('a SQLite file', () => {
  test.each([
    ['deleted', async () => {}],
    ['replaced by another one', async (path: string) => (await openSqliteStore({ path })).close()],
  ])('that is %s while a store has it open takes no write any more', async (what, replace) => {
    const path = freshPath();
    const store = await openSqliteStore({ path });
    await store.writeInstructionCard('before');
    for (const each of [path, `${path}-wal`, `${path}-shm`]) rmSync(each, { force: true });
    await replace(path);
    await expect(store.writeInstructionCard('after')).rejects.toMatchObject({
      code: 'store_unavailable',
      message: expect.stringContaining(`was ${what}`),
    });
    await store.close();
  });

  test('that is not a database is store_corrupt, and is left as it was', async () => {
    const path = freshPath();
    writeFileSync(
      path,
      'this is not a database, but it is long enough to look like a file with some content in it '.repeat(20),
    );
    await expect(openSqliteStore({ path })).rejects.toMatchObject({
      code: 'store_corrupt',
      message: expect.stringContaining(path),
    });
  });

  test.each([
    ['below a path that is no folder', '/etc/hostname/store.db', '/etc/hostname'],
    // The system denies that /proc is there, and Node’s own way to make a path would ask it for ever.
    ['in a folder that cannot be made', '/proc/agentturn/data/store.db', '/proc/agentturn'],
  ])('%s is store_unavailable, naming it', async (_where, path, named) => {
    await expect(openSqliteStore({ path })).rejects.toMatchObject({
      code: 'store_unavailable',
      message: expect.stringContaining(named),
    });
  });

  test('in a folder that is not there yet makes it, and those above it', async () => {
    const path = join(dirname(freshPath()), 'a', 'b', 'store.db');
    await (await openSqliteStore({ path })).close();
    expect(existsSync(path)).toBe(true);
  });

  test('and closed leaves no connection to the file behind, also when nobody has waited for changes', async () => {
    const path = freshPath();
    const store = await openSqliteStore({ path });
    await store.listAgents();
    await store.close();
    const database = new Database(path);
    // Only who is alone with the file can take it out of WAL.
    expect(database.pragma('journal_mode = delete', { simple: true })).toBe('delete');
    database.close();
  });

  test('opened by several at once is migrated once', async () => {
    const path = freshPath();
    const stores = await Promise.all(Array.from({ length: 4 }, () => openSqliteStore({ path })));
    await expect(stores[3]?.listAgents()).resolves.toEqual([]);
    await Promise.all(stores.map((store) => store.close()));
  });
});

describeInvariants('SQLite', async () => {
  const path = freshPath();
  const store = await openSqliteStore({ path });
  const database = new Database(path);
  return {
    store,
    plant: async (statement) => void database.exec(statement),
    close: async () => {
      database.close();
      await store.close();
    },
  };
});
