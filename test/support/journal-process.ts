/**
 * A process that records the journal of a session and is killed at its n-th call of the file system; a write is killed when half of it is done.
 * It prints `done` when it got through. Arguments: store URL, folder, agent id, n, and `rebuild` to write the journal anew.
 */
import fs from 'node:fs/promises';
import { syncBuiltinESMExports } from 'node:module';

const [storeUrl = '', folder = '', agentId = '', killedAt = '0', mode = 'record'] = process.argv.slice(2);
let calls = 0;
const isLast = (): boolean => ++calls === Number(killedAt);
const die = (): never => {
  process.kill(process.pid, 'SIGKILL');
  throw new Error('killed');
};

/** Kills before the call; what is called was not done then, and what was called before was. */
function fatal(of: Record<string, unknown>, name: string): void {
  const real = of[name] as (...args: unknown[]) => unknown;
  of[name] = function (this: unknown, ...args: unknown[]) {
    return isLast() ? die() : real.apply(this, args);
  };
}

const handle = await fs.open(process.argv[1] ?? '', 'r');
const prototype = Object.getPrototypeOf(handle);
await handle.close();
const append = prototype.appendFile;
prototype.appendFile = async function (this: unknown, data: string) {
  if (!isLast()) return append.call(this, data);
  await append.call(this, data.slice(0, data.length / 2));
  return die();
};
for (const name of ['truncate', 'sync', 'writeFile', 'close']) fatal(prototype, name);
for (const name of ['open', 'rename', 'unlink']) fatal(fs as unknown as Record<string, unknown>, name);
syncBuiltinESMExports();

// Loaded after the calls were replaced.
const { FolderJournal } = await import('../../workers/journal/folder-journal.ts');
const { openStore } = await import('../../workers/open-store.ts');
const store = await openStore(storeUrl);
const journal = new FolderJournal(folder, store);
const session = await store.getSession(agentId);
calls = 0;
if (mode === 'rebuild' && session) await journal.rebuild(session);
else await journal.record(agentId);
process.stdout.write('done\n');
await store.close();
