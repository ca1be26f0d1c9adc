/**
 * Statements that are built and compiled once, and in a transaction go straight to its connection. Kysely builds and compiles a statement each
 * time it is used, which takes about as long as running it, and passes it through a dozen promises; a turn runs some seventy.
 *
 * Invariants
 * 1. What builds a statement knows its values by name alone. One that is looked at meanwhile is an error.
 * 2. A transaction whose body has ended takes no more statements: they would be of nobody's transaction, or of another one.
 */
import type {
  Compilable,
  CompiledQuery,
  DatabaseConnection,
  DialectAdapter,
  Insertable,
  Kysely,
  QueryExecutor,
  Updateable,
} from 'kysely';
import type { Db, Tables, Trx } from './schema/rows.ts';

/** The connections of transactions; null for those whose body has ended. */
const connections = new WeakMap<QueryExecutor, DatabaseConnection | null>();

/** The connection of a transaction; undefined for a database. Errors: one that says that the transaction is over. */
function connectionOf(db: Db): DatabaseConnection | undefined {
  const own = connections.get(db.getExecutor());
  if (own === null) throw new Error('the transaction is over: it takes no more statements');
  return own;
}

/** Runs the body in a transaction; its prepared statements go straight to the connection. */
export const inTransaction = <T>(db: Db, body: (trx: Trx) => Promise<T>): Promise<T> =>
  db.transaction().execute(async (trx) => {
    const executor = trx.getExecutor();
    connections.set(executor, await executor.provideConnection(async (connection) => connection));
    try {
      return await body(trx);
    } finally {
      connections.set(executor, null);
    }
  });

/** Runs the body with the connection of a transaction, or with one that is taken for it. */
export function onConnection<T>(db: Db, body: (connection: DatabaseConnection) => Promise<T>): Promise<T> {
  const own = connectionOf(db);
  return own ? body(own) : db.getExecutor().provideConnection(body);
}

/** Stands for a value while a statement is built. */
class Slot {
  readonly #path: readonly string[];

  constructor(...path: string[]) {
    this.#path = path;
  }

  in(values: object): unknown {
    return this.#path.reduce<unknown>((within, name) => Object(within)[name], values);
  }

  [Symbol.toPrimitive](): never {
    throw new TypeError(`the value ${this.#path.join('.')} is not known while its statement is built`);
  }
}

const SLOTS: object = new Proxy({}, { get: (_, name) => new Slot(String(name)) });

/** A statement and its values. */
export class Prepared<Row> implements Compilable<Row> {
  readonly #db: Db;
  readonly #compiled: CompiledQuery<Row>;
  readonly #values: object;

  constructor(db: Db, compiled: CompiledQuery<Row>, values: object) {
    this.#db = db;
    this.#compiled = compiled;
    this.#values = values;
  }

  compile(): CompiledQuery<Row> {
    const filled = (parameter: unknown) => (parameter instanceof Slot ? parameter.in(this.#values) : parameter);
    return { ...this.#compiled, parameters: this.#compiled.parameters.map(filled) };
  }

  async execute(): Promise<Row[]> {
    const to = connectionOf(this.#db) ?? this.#db;
    return (await to.executeQuery<Row>(this.compile())).rows;
  }

  async executeTakeFirst(): Promise<Row | undefined> {
    return (await this.execute())[0];
  }

  /** Errors: one that names the statement, when there is no row. */
  async executeTakeFirstOrThrow(): Promise<Row> {
    const [row] = await this.execute();
    if (row === undefined) throw new Error(`no row for ${this.#compiled.sql}`);
    return row;
  }
}

/** A statement that gets its values, and the database or transaction it runs on. */
type Statement<Values extends object, Row> = (db: Db, values: Values) => Prepared<Row>;

/** Makes a statement, which is built with the names of the values in place of the values. */
export function prepared<Values extends object, Row>(
  build: (db: Db, values: Values) => Compilable<Row>,
): Statement<Values, Row> {
  // Each database that a process has open has an adapter of its own.
  const compiled = new WeakMap<DialectAdapter, CompiledQuery<Row>>();
  return (db, values) => {
    const { adapter } = db.getExecutor();
    const known = compiled.get(adapter) ?? build(db, SLOTS as Values).compile();
    compiled.set(adapter, known);
    return new Prepared(db, known, values);
  };
}

/** A database whose tables may have any columns, for statements that are built of names. */
type Untyped = Kysely<Record<string, Record<string, unknown>>>;

/** The statements that insert and update rows, by their tables and columns. */
const byColumns = new Map<string, Statement<object, unknown>>();

/** Runs the statement of that key; makes it where there is none. */
function runAs(key: string, db: Db, values: object, build: (db: Untyped) => Compilable<unknown>): Promise<unknown> {
  const known = byColumns.get(key) ?? prepared((of) => build(of as unknown as Untyped));
  byColumns.set(key, known);
  return known(db, values).execute();
}

/** The columns of a row that have a value; every write asks for them, so nothing is made but the text. */
function columnsOf(row: Readonly<Record<string, unknown>>): string {
  let columns = '';
  for (const column in row) {
    if (row[column] !== undefined) columns += columns === '' ? column : `,${column}`;
  }
  return columns;
}

const slotsOf = (columns: string, ...path: string[]): Record<string, unknown> =>
  Object.fromEntries(columns.split(',').map((column) => [column, new Slot(...path, column)]));

/** The most rows of an insert that is kept: larger ones are rare, and of every size. */
const MOST_ROWS = 8;

/** The most values of a statement: SQLite takes 32,766, PostgreSQL twice as many. */
const MOST_VALUES = 32_000;

/** The rows in as many parts as they need statements. */
export function inStatements<Row extends object>(rows: readonly Row[]): readonly (readonly Row[])[] {
  const columns = Math.max(1, ...new Set(rows.map((row) => Object.keys(row).length)));
  const most = Math.floor(MOST_VALUES / columns);
  return Array.from({ length: Math.ceil(rows.length / most) }, (_, at) => rows.slice(at * most, (at + 1) * most));
}

/** Whether all rows have the columns of the first one. */
const areAlike = (rows: readonly Readonly<Record<string, unknown>>[], columns: string): boolean =>
  rows.every((row, at) => at === 0 || columnsOf(row) === columns);

/** Inserts rows, but none whose values in the columns `unlessKnown` are there already. */
export async function insertRows<T extends keyof Tables>(
  db: Db,
  table: T,
  rows: readonly Insertable<Tables[T]>[],
  unlessKnown: readonly (keyof Tables[T] & string)[] = [],
): Promise<void> {
  const [first] = rows;
  if (!first) return;
  const insert = (of: Untyped, values: readonly Record<string, unknown>[]) => {
    const query = of.insertInto(table).values(values);
    if (unlessKnown.length === 0) return query;
    return query.onConflict((conflict) => conflict.columns(unlessKnown).doNothing());
  };
  const columns = columnsOf(first);
  if (rows.length > MOST_ROWS || !areAlike(rows, columns)) {
    for (const some of inStatements(rows)) await insert(db as unknown as Untyped, some).execute();
    return;
  }
  const key = `insert ${rows.length} into ${table} (${columns}) unless ${unlessKnown}`;
  await runAs(key, db, rows, (of) =>
    insert(
      of,
      rows.map((_, at) => slotsOf(columns, String(at))),
    ),
  );
}

/** Changes the rows in which these columns have these values. */
export async function updateRows<T extends keyof Tables>(
  db: Db,
  table: T,
  where: Updateable<Tables[T]>,
  set: Updateable<Tables[T]>,
): Promise<void> {
  const keys = columnsOf(where);
  const columns = columnsOf(set);
  await runAs(`update ${table} (${columns}) where (${keys})`, db, { where, set }, (of) =>
    keys
      .split(',')
      .reduce(
        (query, column) => query.where(column, '=', new Slot('where', column)),
        of.updateTable<string>(table).set(slotsOf(columns, 'set')),
      ),
  );
}
