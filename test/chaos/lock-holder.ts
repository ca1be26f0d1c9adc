/**
 * A client of the store in the middle of a transaction: it holds the head row of one agent, on SQLite the write lock of the file, for a while:
 * `node lock-holder.ts '{"storeUrl": …, "agentId": …, "ms": …}'`. What it writes changes nothing.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import SqliteDatabase from 'better-sqlite3';
import pg from 'pg';

export interface LockHolder {
  readonly storeUrl: string;
  /** On PostgreSQL, an agent that has been asked something. */
  readonly agentId: string;
  readonly ms: number;
}

/** On stderr, once it has the lock. */
export const HELD = 'the lock is held';

const TAKE_MS = 10_000;

async function main(options: LockHolder): Promise<void> {
  if (options.storeUrl.startsWith('sqlite:')) await holdFile(options);
  else await holdRow(options);
}

async function holdFile({ storeUrl, ms }: LockHolder): Promise<void> {
  const database = new SqliteDatabase(storeUrl.slice('sqlite:'.length), { timeout: TAKE_MS });
  database.exec('begin immediate');
  console.error(HELD);
  await sleep(ms);
  database.exec('commit');
  database.close();
}

async function holdRow({ storeUrl, agentId, ms }: LockHolder): Promise<void> {
  const client = new pg.Client({ connectionString: storeUrl, connectionTimeoutMillis: TAKE_MS });
  await client.connect();
  await client.query('begin');
  const lock = 'update agent_state_head set status = status where agent_id = $1 returning agent_id';
  const { rows } = await client.query(lock, [agentId]);
  if (rows.length !== 1) throw new Error(`there is no agent ${agentId}`);
  console.error(HELD);
  await sleep(ms);
  await client.query('commit');
  await client.end();
}

if (import.meta.main) await main(JSON.parse(process.argv[2] ?? 'null') as LockHolder);
