/**
 * Statements prepared once per connection. Preparing one costs as much as running it, and a turn runs some hundred and fifty.
 *
 * SQLite prepares a statement again by itself when the schema has changed, so a migration by another process does no harm.
 */
import type SqliteDatabase from 'better-sqlite3';
import type { SqliteDatabase as KyselyDatabase } from 'kysely';

/** Statements that are kept; the store has fewer texts, but for lists whose length varies. */
const KEPT = 500;

/** The database as Kysely uses it, which prepares each text once. */
export function preparedOnce(database: SqliteDatabase.Database): KyselyDatabase {
  const statements = new Map<string, SqliteDatabase.Statement>();
  return {
    prepare: (sql) => {
      const known = statements.get(sql);
      if (known) return known;
      const statement = database.prepare(sql);
      if (statements.size >= KEPT) statements.clear();
      statements.set(sql, statement);
      return statement;
    },
    close: () => database.close(),
  };
}
