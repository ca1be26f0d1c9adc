import { describe, expect, test } from '@jest/globals';
import pg from 'pg';
import { openPostgresStore } from '../../../activities/store/postgres/open.ts';
import { freshSchemaUrl } from '../../support/postgres.ts';
import { describeStore } from './conformance.ts';
import { describeInvariants } from './invariants.ts';

describeStore('PostgreSQL', () => {
  const url = freshSchemaUrl();
  return async (now) => openPostgresStore({ url: await url, now });
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
