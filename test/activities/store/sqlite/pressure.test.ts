/** A SQLite store that several processes write to, and one of them stands still with the lock. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, statSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, expect, test } from '@jest/globals';
import Database from 'better-sqlite3';
import { openSqliteStore } from '../../../../activities/store/sqlite/open.ts';
import type { Store } from '../../../../workflows/contract/store.ts';
import { startStoring } from '../../../support/storing.ts';

/** Bounds a hang. */
const cleanup: (() => unknown)[] = [];
afterEach(async () => {
  for (const undo of cleanup.splice(0).reverse()) await undo();
});

const freshPath = (): string => join(mkdtempSync(join(tmpdir(), 'agentturn-pressure-')), 'store.db');

async function openStore(path: string, waitMs?: number): Promise<Store> {
  const store = await openSqliteStore({ path, ...(waitMs === undefined ? {} : { waitMs }) });
  cleanup.push(() => store.close());
  return store;
}

const accept = (store: Store, agentId: string): ReturnType<Store['accept']> =>
  store.accept({ agentId, request: { instruction: 'go', priority: 'normal' } });

/** Another process in the middle of a transaction; frozen until it is let go on, when it commits. */
async function frozenWriter(path: string): Promise<{ goOn(): void }> {
  const script = `
    const db = new (require('better-sqlite3'))(process.argv[1]);
    db.exec("begin immediate; insert into svc_leases values ('frozen', 'me', 1, 1, null)");
    process.stdout.write('in');
    process.stdin.once('data', () => { db.exec('commit'); process.exit(); });`;
  const child = spawn(process.execPath, ['-e', script, path], { stdio: ['pipe', 'pipe', 'inherit'] });
  const gone = once(child, 'exit');
  cleanup.push(async () => {
    child.kill('SIGKILL');
    await gone;
  });
  await once(child.stdout, 'data');
  child.kill('SIGSTOP');
  return {
    goOn() {
      child.stdin.write('commit');
      child.kill('SIGCONT');
    },
  };
}

test('while a process is frozen in a transaction reads go on, and writes wait in their order until it goes on', async () => {
  const path = freshPath();
  const store = await openStore(path);
  await accept(store, 'alice');
  const frozen = await frozenWriter(path);
  const names = Array.from({ length: 20 }, (_, index) => `agent-${index}`);
  const written: string[] = [];
  const writes = names.map((agentId) => accept(store, agentId).finally(() => written.push(agentId)));
  expect(await store.listAgents()).toHaveLength(1);
  expect(await (await openStore(path)).listTurns('alice')).toHaveLength(1);
  expect(written).toEqual([]);
  frozen.goOn();
  expect(await Promise.all(writes)).toMatchObject(names.map(() => ({ kind: 'accepted' })));
  expect(written).toEqual(names);
  expect(await store.violations()).toEqual([]);
});

test('whoever waits for the lock in vain is told so after his time, however many wait with him', async () => {
  const path = freshPath();
  const store = await openStore(path, 500);
  const holder = new Database(path);
  cleanup.push(() => holder.close());
  holder.exec('begin immediate');
  const startedAt = performance.now();
  const outcomes = await Promise.allSettled(Array.from({ length: 100 }, () => accept(store, 'alice')));
  // One after the other they would take a hundred times as long as one.
  expect(performance.now() - startedAt).toBeLessThan(25_000);
  const messages = outcomes.map((outcome) => {
    expect(outcome).toMatchObject({ status: 'rejected', reason: { code: 'store_locked' } });
    return outcome.status === 'rejected' ? (outcome.reason as Error).message : '';
  });
  expect(messages[0]).toMatch(/store\.db was locked by another process for 0\.5 s .*find the process that holds it/);
  // Whoever comes to the front at the last moment looks once more.
  for (const message of messages)
    expect(message).toMatch(/locked by another process for 0\.5 s|waited 0\.5 s behind \d+ /);
  holder.exec('rollback');
  expect(await accept(store, 'alice')).toMatchObject({ kind: 'accepted' });
});

test('four processes that write all the time all come to their turn, and no call of theirs fails', async () => {
  const path = freshPath();
  const processes = await Promise.all(
    ['a', 'b', 'c', 'd'].map((name) => startStoring('write', `sqlite:${path}`, name, '5')),
  );
  cleanup.push(...processes.map((writer) => () => writer.end()));
  const told = await Promise.all(processes.map((writer) => writer.next()));
  expect(told).toEqual(told.map(() => expect.objectContaining({ failures: [] })));
  const store = await openStore(path);
  expect(new Set((await store.listAgents()).map(({ agentId }) => agentId[0]))).toEqual(new Set(['a', 'b', 'c', 'd']));
  expect(await store.violations()).toEqual([]);
});

/** The bytes that this process has written to files and connections. */
const bytesWritten = (): number => Number(/^wchar: (\d+)/m.exec(readFileSync('/proc/self/io', 'utf8'))?.[1]);

(process.platform === 'linux' ? test : test.skip)(
  'writes that are committed together are written once, and to no temporary file',
  async () => {
    const path = freshPath();
    const store = await openStore(path);
    const sizeOfLog = (): number => statSync(`${path}-wal`).size;
    const before = { written: bytesWritten(), log: sizeOfLog() };
    await Promise.all(Array.from({ length: 64 }, (_, index) => accept(store, `agent-${index}`)));
    const log = sizeOfLog() - before.log;
    expect(log).toBeGreaterThan(0);
    // It was eleven times as much when each write of a group kept what it might have to take back in a temporary file.
    expect(bytesWritten() - before.written).toBeLessThan(2 * log);
  },
);
