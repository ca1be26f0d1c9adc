/** The database behind a store, for rows that are written in bulk; and where the two backends spell things differently. */
import SqliteDatabase from 'better-sqlite3';
import pg from 'pg';

export type Row = Readonly<Record<string, string | number | null>>;

export interface RawDatabase {
  rows(statement: string): Promise<readonly Row[]>;
  execute(statement: string): Promise<void>;
  /** The numbers from one to another, as rows `n(i)`. */
  numbers(from: number, to: number): { readonly with: string; readonly from: string };
  /** A number as eight hexadecimal digits. */
  hex(number: string): string;
  /** A number in decimal, with zeros before it. */
  padded(number: string, digits: number): string;
  /** Brings what the planner knows of the tables up to date. */
  close(): Promise<void>;
}

/** `live`: others have the store open. */
export const openRaw = (storeUrl: string, live = false): Promise<RawDatabase> =>
  storeUrl.startsWith('sqlite:')
    ? Promise.resolve(openSqlite(storeUrl.slice('sqlite:'.length), live))
    : openPostgres(storeUrl);

/** Nothing is flushed while rows are written: a bench that dies starts anew. */
function openSqlite(path: string, live: boolean): RawDatabase {
  const database = new SqliteDatabase(path, { timeout: 10_000 });
  const fast = ['journal_mode = memory', 'synchronous = off', 'cache_size = -1000000'];
  for (const pragma of live ? [] : fast) database.pragma(pragma);
  return {
    rows: async (statement) => database.prepare(statement).all() as Row[],
    execute: async (statement) => {
      database.exec(statement);
    },
    numbers: (from, to) => ({
      with: `with recursive n(i) as (select ${from} union all select i + 1 from n where i < ${to})`,
      from: 'n',
    }),
    hex: (number) => `printf('%08x', ${number})`,
    padded: (number, digits) => `printf('%0${digits}d', ${number})`,
    close: async () => {
      database.exec('analyze');
      if (!live) database.pragma('journal_mode = wal');
      database.close();
    },
  };
}

async function openPostgres(url: string): Promise<RawDatabase> {
  const client = new pg.Client({ connectionString: url });
  await client.connect();
  await client.query('set synchronous_commit = off');
  return {
    rows: async (statement) => (await client.query<Row>(statement)).rows,
    execute: async (statement) => {
      await client.query(statement);
    },
    numbers: (from, to) => ({ with: '', from: `generate_series(${from}::bigint, ${to}::bigint) as n(i)` }),
    hex: (number) => `lpad(to_hex(${number}), 8, '0')`,
    padded: (number, digits) => `lpad((${number})::text, ${digits}, '0')`,
    close: async () => {
      await client.query('vacuum analyze');
      await client.end();
    },
  };
}
