/** Holds the write lock of a SQLite file for a while, as a stuck writer would: `node lock-holder.ts '{"path": …, "ms": …}'`. */
import { setTimeout as sleep } from 'node:timers/promises';
import SqliteDatabase from 'better-sqlite3';

const { path, ms } = JSON.parse(process.argv[2] ?? '{}') as { path: string; ms: number };
const database = new SqliteDatabase(path, { timeout: 10_000 });
database.exec('begin immediate');
await sleep(ms);
database.exec('rollback');
database.close();
