/**
 * Statements that PostgreSQL gets at once, and answers at once.
 *
 * The driver ends each statement with a Sync, for which the server sends what it has, and has the columns of each answer described again: for
 * a transaction of a dozen short statements that is a third of the work of both sides. Here one Sync ends all of them, and a connection
 * remembers the columns of the statements that it has prepared. What follows a statement that fails is not run.
 */
import type pg from 'pg';
import { serialize } from 'pg-protocol';
import { isLost } from './errors.ts';

/** Reads a value of a column, which PostgreSQL sends as text. */
interface Column {
  readonly name: string;
  readonly parse: (text: string) => unknown;
}

/** The columns of the statements that a connection has prepared, by their names. */
export type Prepared = Map<string, readonly Column[]>;

/** A value as PostgreSQL reads it. */
export type WireValue = string | null;

/** A statement of a batch. */
export interface BatchStatement {
  readonly text: string;
  /** Under which the connection prepares it; empty for one that is prepared for this once. */
  readonly name: string;
  readonly values: WireValue[];
}

/** What a statement was answered. */
export interface Answer {
  /** As `INSERT` or `COMMIT`. */
  readonly command: string;
  readonly rowCount: number;
  readonly rows: Record<string, unknown>[];
}

const TAG = /^(\w*)(?:.* (\d+)$)?/;

/** A batch as the driver sends it, which calls what begins with `handle`. */
class Batch implements pg.Submittable {
  readonly statements: readonly BatchStatement[];
  readonly #prepared: Prepared;
  readonly #client: pg.PoolClient;
  readonly #answers: Answer[] = [];
  #columns: readonly Column[] = [];
  #rows: Record<string, unknown>[] = [];
  /** The driver calls it when it gives up waiting, and puts a function of its own in its place. */
  callback: (error: unknown) => void;

  constructor(
    client: pg.PoolClient,
    statements: readonly BatchStatement[],
    prepared: Prepared,
    { resolve, reject }: Pick<PromiseWithResolvers<readonly Answer[]>, 'resolve' | 'reject'>,
  ) {
    this.statements = statements;
    this.#prepared = prepared;
    this.#client = client;
    this.callback = (error) => {
      if (error === null) return resolve(this.#answers);
      this.#forget(error);
      reject(error);
    };
  }

  /** Called by the driver when the connection is free. Returns an error instead of throwing it: the driver may be in the middle of another answer. */
  readonly submit = (connection: pg.Connection): unknown => {
    this.#next();
    try {
      // In one piece: a send of many small ones costs several times as much.
      const sent = Buffer.concat([...this.#messages()]);
      if (connection.stream.writable) connection.stream.write(sent);
      return null;
    } catch (error) {
      return error;
    }
  };

  *#messages(): Generator<Buffer, void> {
    for (const { text, name, values } of this.statements) {
      const isPrepared = this.#prepared.has(name);
      if (!isPrepared) {
        // A batch that failed may have left a statement of this name behind; it is no error when there is none.
        if (name !== '') yield serialize.close({ type: 'S', name });
        yield serialize.parse({ name, text });
      }
      yield serialize.bind({ statement: name, values });
      if (!isPrepared) yield serialize.describe({ type: 'P' });
      yield serialize.execute();
    }
    yield serialize.sync();
  }

  /** Turns to the answer of the statement that comes next. */
  #next(): void {
    const { name } = this.statements[this.#answers.length] ?? {};
    this.#columns = (name && this.#prepared.get(name)) || [];
    this.#rows = [];
  }

  handleRowDescription({ fields }: { readonly fields: readonly pg.FieldDef[] }): void {
    this.#columns = fields.map(({ name, dataTypeID }) => ({
      name,
      parse: this.#client.getTypeParser(dataTypeID, 'text'),
    }));
  }

  handleDataRow({ fields }: { readonly fields: readonly (string | null)[] }): void {
    const row: Record<string, unknown> = {};
    this.#columns.forEach(({ name, parse }, at) => {
      const text = fields[at] ?? null;
      row[name] = text === null ? null : parse(text);
    });
    this.#rows.push(row);
  }

  handleCommandComplete({ text }: { readonly text: string }): void {
    const [, command = '', count = '0'] = TAG.exec(text) ?? [];
    const { name } = this.statements[this.#answers.length] ?? {};
    if (name) this.#prepared.set(name, this.#columns);
    this.#answers.push({ command, rowCount: Number(count), rows: this.#rows });
    this.#next();
  }

  handleEmptyQuery(): void {
    this.handleCommandComplete({ text: '' });
  }

  handleReadyForQuery(): void {
    this.callback(null);
  }

  handleError(error: unknown): void {
    this.callback(error);
  }

  /** What the connection is good for after an error. */
  #forget(error: unknown): void {
    const { name } = this.statements[this.#answers.length] ?? {};
    if (name) this.#prepared.delete(name);
    // Of one that did not answer in time nobody knows what it would answer next.
    if (isLost(error)) this.#client.connection.stream.destroy();
  }
}

/** Runs statements in their order, each only when all before it have succeeded. Errors: that of the first that fails. */
export const runBatch = (
  client: pg.PoolClient,
  statements: readonly BatchStatement[],
  prepared: Prepared,
): Promise<readonly Answer[]> =>
  new Promise((resolve, reject) => void client.query(new Batch(client, statements, prepared, { resolve, reject })));
