/** A client of the store whose process is frozen in the middle of a transaction, and thaws: everybody who needs its lock must wait. */
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { lastLines, signal, startScript } from '../support/programs.ts';
import { HELD, type LockHolder } from './lock-holder.ts';

const LOOK_EVERY_MS = 20;
/** With the stack of an error. */
const LINES = 20;

/**
 * Resolves when it has let go and ended. Errors: what it said when it did not get the lock, or did not let go of it in order.
 */
export async function freezeClient(dir: string, holder: LockHolder, number: number): Promise<void> {
  const logPath = join(dir, `frozen-client-${number}.log`);
  const exit = Promise.withResolvers<string>();
  // It has slept enough by the time that it thaws.
  const client = startScript(new URL('./lock-holder.ts', import.meta.url), holder, logPath, (how) => exit.resolve(how));
  while (client.ended() === undefined && !lastLines(logPath, LINES).includes(HELD)) await sleep(LOOK_EVERY_MS);
  if (client.ended() === undefined) {
    signal(client.pid, 'SIGSTOP');
    await sleep(holder.ms);
    signal(client.pid, 'SIGCONT');
  }
  const how = await exit.promise;
  if (how !== 'exited with code 0') throw new Error(`the frozen client ${how}: ${lastLines(logPath, LINES)}`);
}
