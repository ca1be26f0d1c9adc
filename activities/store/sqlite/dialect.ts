/**
 * Kysely's SQLite dialect with transactions that begin immediately: a deferred one that turns to writing loses to any other writer.
 *
 * The wait for the write lock is asynchronous. SQLite's own busy timeout blocks the whole process: heartbeats would stop, and a second
 * store of the same process could never let go of the lock that is waited for.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import {
  CompiledQuery,
  type DatabaseConnection,
  type Driver,
  SqliteDialect,
  type SqliteDialectConfig,
  SqliteDriver,
} from 'kysely';
import { isBusy } from './errors.ts';

const LOCK_TIMEOUT_MS = 5_000;
const LONGEST_PAUSE_MS = 8;

class ImmediateDriver extends SqliteDriver {
  override async beginTransaction(connection: DatabaseConnection): Promise<void> {
    const deadline = performance.now() + LOCK_TIMEOUT_MS;
    for (;;) {
      try {
        await connection.executeQuery(CompiledQuery.raw('begin immediate'));
        return;
      } catch (error) {
        if (!isBusy(error) || performance.now() > deadline) throw error;
        await sleep(1 + Math.random() * LONGEST_PAUSE_MS);
      }
    }
  }
}

export class ImmediateSqliteDialect extends SqliteDialect {
  readonly #config: SqliteDialectConfig;

  constructor(config: SqliteDialectConfig) {
    super(config);
    this.#config = config;
  }

  override createDriver(): Driver {
    return new ImmediateDriver(this.#config);
  }
}
