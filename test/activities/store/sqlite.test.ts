import { mkdtempSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, test } from '@jest/globals';
import Database from 'better-sqlite3';
import { openSqliteStore } from '../../../activities/store/sqlite/open.ts';
import { describeStore } from './conformance.ts';
import { describeInvariants } from './invariants.ts';

const freshPath = (): string => join(mkdtempSync(join(tmpdir(), 'agentturn-sqlite-')), 'store.db');

describeStore('SQLite', () => {
  const path = freshPath();
  return (now, options) => openSqliteStore({ path, now, ...options });
});

describe('a SQLite file', () => {
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

  test('held by another writer is store_locked after the busy timeout', async () => {
    const path = freshPath();
    const store = await openSqliteStore({ path });
    const holder = new Database(path);
    holder.exec('begin immediate');
    await expect(store.writeInstructionCard('x')).rejects.toMatchObject({ code: 'store_locked' });
    holder.exec('rollback');
    await expect(store.writeInstructionCard('x')).resolves.toBeDefined();
    holder.close();
    await store.close();
  });

  test('below a path that is no folder is store_unavailable', async () => {
    await expect(openSqliteStore({ path: '/etc/hostname/store.db' })).rejects.toMatchObject({
      code: 'store_unavailable',
    });
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
