/**
 * A connection as Kysely uses it, with what makes a transaction cheap on PostgreSQL.
 *
 * Invariants
 * 1. Statements run in the order they were given, and a transaction fails with the first error of them.
 * 2. BEGIN is sent with the statements that follow it, which are not run when it fails.
 * 3. Inside a transaction no caller waits for a write that returns no rows, unless many are waiting to be sent: it is sent with the next
 *    statement that a caller waits for, the commit at the latest, and that one fails with its error. So it tells no number of rows either; a
 *    caller that needs one asks for it by RETURNING.
 * 4. A commit whose answer does not come in time may have been done: the server goes on with a batch that it has. So may one of a process that
 *    was frozen before it had sent anything.
 * 5. PostgreSQL's text cannot hold NUL: a value with one fails its statement, however often it is repeated, and a foreign client could stop
 *    an agent by it. It is kept as U+FFFD instead, as a lone surrogate is.
 */
import { createHash } from 'node:crypto';
import type { PostgresPool, PostgresPoolClient } from 'kysely';
import type pg from 'pg';
import { type Answer, type BatchStatement, type Prepared, runBatch, type WireValue } from './batch.ts';
import { endsConnection, isForgotten, isLost, isOutdatedPlan } from './errors.ts';
import type { StorePool } from './pools.ts';
import { asStatement } from './server.ts';

/** Statements with a name, which a connection parses and plans once. The store has fewer, but for lists whose length varies. */
const MOST_NAMED = 500;
/** The longest text of a statement with a name. */
const LONGEST_NAMED = 4_000;

/** Writes that are kept to be sent with what follows. A caller waits for the next one: a batch must be answered in the time of a statement. */
const MOST_UNSENT = 64;

const BEGIN = /^(?:begin|start transaction)\b/;
const WRITE = /^(?:insert|update|delete)\b/;
const RETURNING = /\breturning\b/;

/** What is known of the text of a statement. */
interface Statement {
  /** Empty for a text that is planned anew each time. */
  readonly name: string;
  /** Whether it is a write that returns no rows. */
  readonly silent: boolean;
}

/** The name of a statement, which follows from its text: behind a pooler processes share connections, and one name is one text everywhere. */
const nameOf = (text: string): string => `agentturn_${createHash('sha256').update(text).digest('hex').slice(0, 32)}`;

/** The statements of a pool by their text. */
class Statements {
  readonly #known = new Map<string, Statement>();
  #mostNamed = MOST_NAMED;

  of(text: string): Statement {
    const known = this.#known.get(text);
    if (known) return known;
    const named = this.#known.size < this.#mostNamed && text.length <= LONGEST_NAMED;
    const statement = { name: named ? nameOf(text) : '', silent: WRITE.test(text) && !RETURNING.test(text) };
    if (named) this.#known.set(text, statement);
    return statement;
  }

  /** No statement has a name from now on. */
  forgetNames(): void {
    this.#known.clear();
    this.#mostNamed = 0;
  }
}

/** Errors: a value of a kind that the store has no column for. */
function toWire(value: unknown): WireValue {
  switch (typeof value) {
    case 'string':
      return value.includes('\0') ? value.replaceAll('\0', '\ufffd') : value;
    case 'number':
    case 'bigint':
    case 'boolean':
      return String(value);
    default:
      if (value === null || value === undefined) return null;
      if (Array.isArray(value)) return `{${value.map(elementOf).join()}}`;
      throw new TypeError(`a statement of the store has a value of type ${typeof value}`);
  }
}

/** An element of a list, as PostgreSQL writes arrays. */
const elementOf = (value: unknown): WireValue =>
  typeof value === 'string' ? `"${String(toWire(value)).replace(/["\\]/g, '\\$&')}"` : toWire(value);

/** Why connections are gone: the server says it once, maybe while nothing is asked on them, and the driver does not repeat it. */
type Losses = WeakMap<pg.PoolClient, Error>;

/** What a pool knows of its connections. */
interface Known {
  readonly statements: Statements;
  /** What each transaction begins with, also one of a single statement; null where connections are as they should be. */
  readonly opening: string | null;
  readonly losses: Losses;
  prepared: WeakMap<pg.PoolClient, Prepared>;
}

/** The answer to what nobody waits for. */
const UNKNOWN: Answer = { command: 'SELECT', rowCount: 0, rows: [] };

/** A statement that is not sent yet, and who waits for its answer. */
interface Unsent extends BatchStatement {
  readonly waiter?: PromiseWithResolvers<Answer>;
}

/** A connection that is taken from the pool. */
class StoreClient implements PostgresPoolClient {
  readonly #client: pg.PoolClient;
  readonly #known: Known;
  readonly #prepared: Prepared;
  #unsent: Unsent[] = [];
  /** Settles when what was sent is answered. */
  #sent: Promise<void> = Promise.resolve();
  #isSending = false;
  /** Whether a transaction has been begun, and whether the server knows of it. */
  #transaction: 'none' | 'unsent' | 'sent' = 'none';
  /** Whether its end is under way: what is given now would be written by nobody, or outside of it. */
  #isEnding = false;
  /** Whether the connection is good for nothing more. */
  #isGone = false;
  /** The first error in the transaction; null while there is none. */
  #failure: { readonly error: unknown } | null = null;

  constructor(client: pg.PoolClient, known: Known) {
    this.#client = client;
    this.#known = known;
    this.#prepared = known.prepared.get(client) ?? new Map();
    known.prepared.set(client, this.#prepared);
  }

  /** The store reads no cursors. */
  readonly query = ((text: string, values: readonly unknown[] = []) =>
    this.#run(text, values)) as PostgresPoolClient['query'];

  async #run(text: string, values: readonly unknown[]): Promise<Answer> {
    if (text === 'rollback') return this.#rollBack();
    if (this.#isEnding) throw new Error('the transaction is over: it takes no more statements');
    if (this.#failure) throw this.#failure.error;
    const { name, silent } = this.#known.statements.of(text);
    const statement = { text, name, values: values.map(toWire) };
    const begins = BEGIN.test(text);
    if (begins) this.#transaction = 'unsent';
    if ((begins || (silent && this.#transaction !== 'none')) && this.#unsent.length < MOST_UNSENT) {
      this.#unsent.push(statement);
      return UNKNOWN;
    }
    if (text !== 'commit') return this.#answered(statement);
    this.#isEnding = true;
    const answer = await this.#answered(statement);
    this.#end();
    return answer;
  }

  /** Ends the transaction; one that the server knows nothing of is only forgotten. Errors: the first of the transaction, where it cannot. */
  async #rollBack(): Promise<Answer> {
    const failure = this.#failure;
    const dropped = failure?.error ?? new Error('the transaction was rolled back');
    for (const { waiter } of this.#unsent.splice(0)) waiter?.reject(dropped);
    try {
      if (this.#transaction !== 'sent') return UNKNOWN;
      this.#isEnding = true;
      return await this.#answered({ text: 'rollback', name: '', values: [] });
    } catch (error) {
      // Whoever got the connection next would be in the middle of this transaction.
      this.#isGone = true;
      throw failure ? failure.error : error;
    } finally {
      this.#end();
    }
  }

  /** Sends a statement, with those before it and those that are given in the same moment, and waits for its answer. */
  #answered(statement: BatchStatement): Promise<Answer> {
    const waiter = Promise.withResolvers<Answer>();
    this.#unsent.push({ ...statement, waiter });
    if (!this.#isSending) {
      this.#isSending = true;
      process.nextTick(() => {
        // One batch after the other: the driver does not take a second one while another waits.
        this.#sent = this.#sent.then(() => this.#send());
      });
    }
    return waiter.promise;
  }

  async #send(): Promise<void> {
    const batch = this.#unsent;
    this.#unsent = [];
    this.#isSending = false;
    if (batch.length === 0) return;
    const { opening, statements } = this.#known;
    // All that one Sync ends is one transaction, unless it begins one.
    if (opening !== null && this.#transaction !== 'sent') {
      const { name } = statements.of(opening);
      batch.splice(BEGIN.test(batch[0]?.text ?? '') ? 1 : 0, 0, { text: opening, name, values: [] });
    }
    if (this.#transaction === 'unsent') this.#transaction = 'sent';
    try {
      const answers = await runBatch(this.#client, batch, this.#prepared);
      for (const [at, { waiter }] of batch.entries()) waiter?.resolve(answers[at] ?? UNKNOWN);
    } catch (error) {
      const failure = this.#failed(error);
      // Of a batch that failed nothing counts: what was not in a transaction of its own is taken back with the rest.
      for (const { waiter } of batch) waiter?.reject(failure.error);
    }
  }

  #failed(error: unknown): { readonly error: unknown } {
    if (isOutdatedPlan(error) || isForgotten(error)) this.#prepareAnew();
    if (isForgotten(error)) this.#known.statements.forgetNames();
    this.#isGone ||= endsConnection(error);
    const failure = { error: (isLost(error) && this.#known.losses.get(this.#client)) || error };
    if (this.#transaction !== 'none') this.#failure ??= failure;
    return this.#failure ?? failure;
  }

  /** What the connections have prepared is of no use any more: the schema has changed, or a pooler has given them to others. */
  #prepareAnew(): void {
    this.#prepared.clear();
    this.#known.prepared = new WeakMap();
  }

  #end(): void {
    this.#transaction = 'none';
    this.#isEnding = false;
    this.#failure = null;
  }

  /** The pool does not know yet of a connection that has just been lost, and would give it to the next caller. */
  release(destroy = false): void {
    this.#client.release(destroy || this.#isGone);
  }
}

/** The pool as Kysely uses it. */
export function storePool({ pool, perTransaction, keepsPrepared }: StorePool): PostgresPool {
  const opening = perTransaction && asStatement(perTransaction);
  const statements = new Statements();
  if (!keepsPrepared) statements.forgetNames();
  const known: Known = { statements, opening, losses: new WeakMap(), prepared: new WeakMap() };
  const { losses } = known;
  // An idle connection that breaks is replaced on the next use; without a listener it would end the process.
  pool.on('error', () => {});
  // The pool listens only to idle connections; one that breaks in use fails its query and must not end the process besides.
  pool.on('connect', (client) =>
    client.on('error', (error) => {
      if (!losses.has(client)) losses.set(client, error);
    }),
  );
  return {
    options: pool.options,
    end: () => pool.end(),
    connect: async () => new StoreClient(await pool.connect(), known),
  };
}
