/** The PostgreSQL server of the whole test run: one of its own (global-setup.ts), or the one that AGENTTURN_TEST_POSTGRES names. */
import pg from 'pg';

/** The server's URL with a schema of its own: as good as a database of its own, and made at once. */
export async function freshSchemaUrl(): Promise<string> {
  const base = process.env.AGENTTURN_TEST_POSTGRES;
  if (!base) {
    throw new Error(
      'these tests need PostgreSQL: install it (apt-get install postgresql) or set AGENTTURN_TEST_POSTGRES',
    );
  }
  const schema = `test_${crypto.randomUUID().replaceAll('-', '')}`;
  const client = new pg.Client({ connectionString: base });
  await client.connect();
  await client.query(`create schema ${schema}`);
  await client.end();
  return `${base}?options=${encodeURIComponent(`-csearch_path=${schema}`)}`;
}
