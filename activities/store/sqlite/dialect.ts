/** Kysely's SQLite dialect with transactions that begin immediately: a deferred one that turns to writing loses to any other writer. */
import {
  CompiledQuery,
  type DatabaseConnection,
  type Driver,
  type QueryCompiler,
  SqliteDialect,
  type SqliteDialectConfig,
  SqliteDriver,
  SqliteQueryCompiler,
} from 'kysely';

/** Begins transactions with the write lock. */
class ImmediateDriver extends SqliteDriver {
  override async beginTransaction(connection: DatabaseConnection): Promise<void> {
    await connection.executeQuery(CompiledQuery.raw('begin immediate'));
  }

  override async rollbackTransaction(connection: DatabaseConnection): Promise<void> {
    try {
      await super.rollbackTransaction(connection);
    } catch (error) {
      // SQLite has done so itself, as when the disk is full: what went wrong there is the error to tell.
      if (!/no transaction is active/.test(String(error))) throw error;
    }
  }
}

/**
 * Writes a parameter as `+?`, which is the same value. SQLite plans a statement with a bare one anew at each use wherever the value may matter
 * to the plan, as in most that compare a column with it and order by another: 0.06 ms each time.
 */
class PlannedOnceCompiler extends SqliteQueryCompiler {
  protected override getCurrentParameterPlaceholder(): string {
    return '+?';
  }
}

/** Kysely's dialect of SQLite with that driver and that compiler. */
export class ImmediateSqliteDialect extends SqliteDialect {
  readonly #config: SqliteDialectConfig;

  constructor(config: SqliteDialectConfig) {
    super(config);
    this.#config = config;
  }

  override createQueryCompiler(): QueryCompiler {
    return new PlannedOnceCompiler();
  }

  override createDriver(): Driver {
    return new ImmediateDriver(this.#config);
  }
}
