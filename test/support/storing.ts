/** Processes that use a store (store-process.ts), and what they tell. */
import { spawn } from 'node:child_process';
import { on, once } from 'node:events';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';

export interface StoringProcess {
  /** The next line that it prints. */
  next(): Promise<Record<string, unknown>>;
  signal(name: 'SIGSTOP' | 'SIGCONT'): void;
  /** Kills it if it still runs, also when it is frozen. */
  end(): Promise<void>;
}

/** Resolves when it has opened the store. */
export async function startStoring(...args: ['accept' | 'write', ...string[]]): Promise<StoringProcess> {
  const path = fileURLToPath(new URL('store-process.ts', import.meta.url));
  const child = spawn(process.execPath, [path, ...args], { stdio: ['ignore', 'pipe', 'inherit'] });
  const gone = once(child, 'exit');
  const lines = on(createInterface(child.stdout), 'line', { close: ['close'] });
  const next = async () => {
    const { value, done } = await lines.next();
    if (done) throw new Error('the process told nothing more');
    return JSON.parse(value[0]) as Record<string, unknown>;
  };
  await next();
  return {
    next,
    signal: (name) => void child.kill(name),
    async end() {
      child.kill('SIGKILL');
      await gone;
    },
  };
}
