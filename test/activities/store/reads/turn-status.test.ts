import { expect, test } from '@jest/globals';
import SqliteDatabase from 'better-sqlite3';
import { Kysely } from 'kysely';
import { Admission } from '../../../../activities/store/admission.ts';
import { cardCache, profileCache } from '../../../../activities/store/context.ts';
import { turnStatusReader } from '../../../../activities/store/reads/turn-status.ts';
import type { Tables } from '../../../../activities/store/schema/rows.ts';
import { ImmediateSqliteDialect } from '../../../../activities/store/sqlite/dialect.ts';
import { CodedError } from '../../../../workflows/protocol/failures.ts';

function reader() {
  const database = new SqliteDatabase(':memory:');
  database.exec(
    "create table turns (agent_turn_id text, status text); insert into turns values ('a', 'running'), ('b', 'success')",
  );
  const statements: number[] = [];
  const dialect = new ImmediateSqliteDialect({ database });
  const db = new Kysely<Tables>({
    dialect,
    log: ({ query }) => void statements.push((query.parameters[0] as string[]).length),
  });
  const mapError = (error: unknown) => new Error('mapped', { cause: error });
  const admission = new Admission({ waitMs: 1_000, inVain: () => new CodedError('store_locked', 'locked') });
  const backend = { db, scanner: db, where: 'here', admission, mapError, isLocked: () => false, lockedPause: () => 0 };
  const ctx = { ...backend, now: Date.now, maxQueuedTurns: 1, cards: cardCache(), profiles: profileCache() };
  return { ask: turnStatusReader(ctx), statements, database };
}

test('whoever asks in one tick shares one statement, each with the answer for its own turn', async () => {
  const { ask, statements } = reader();
  const later = Promise.resolve().then(() => ask('b'));
  expect(await Promise.all([ask('a'), ask('b'), ask('none'), ask('a'), later])).toEqual([
    'running',
    'success',
    null,
    'running',
    'success',
  ]);
  expect(statements).toEqual([3]);
  expect(await ask('a')).toBe('running');
  expect(statements).toEqual([3, 1]);
});

test('any number of them shares one statement', async () => {
  const { ask, statements } = reader();
  const asked = Array.from({ length: 40_000 }, (_, index) => ask(`t${index}`));
  expect(await Promise.all([...asked, ask('a')])).toEqual([...asked.map(() => null), 'running']);
  expect(statements).toEqual([40_001]);
});

test('a statement that fails, fails for those who asked in it, and for nobody after', async () => {
  const { ask, database } = reader();
  database.exec('alter table turns rename to gone');
  const outcomes = await Promise.allSettled([ask('a'), ask('b')]);
  expect(outcomes.map((outcome) => outcome.status)).toEqual(['rejected', 'rejected']);
  database.exec('alter table gone rename to turns');
  expect(await ask('b')).toBe('success');
});
