/**
 * One `temporal server start-dev` process of ours, from spawn to exit.
 *
 * Invariants
 * 1. It does not outlive this process, however that ends: an exit handler covers the orderly ways, a watchdog that waits for our end of a
 *    pipe to close covers the others (SIGKILL, a crash, a closed terminal).
 * 2. It runs in a session of its own, so that a Ctrl-C meant for us does not take it from workers that are still draining.
 * 3. It does not keep this process alive.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';

const STOP_MS = 5_000;
const TAIL_CHARS = 4_000;

/** A dev server as a child process. */
export interface ServerChild {
  /** The process id; undefined when the program could not be started. */
  readonly pid: number | undefined;
  /** How the process ended, as the end of a sentence; undefined while it runs. */
  ended(): string | undefined;
  /** The last 4,000 characters of what the process wrote to its standard error. */
  tail(): string;
  /** Sends SIGTERM, then SIGKILL after 5 s. Resolves when the process is gone. */
  stop(): Promise<void>;
}

/** Starts a dev server. `onEnd` is called once when it has ended, whatever the reason; `stopping` says whether `stop` asked for it. */
export function spawnServer(
  binary: string,
  args: readonly string[],
  onEnd: (how: string, stopping: boolean) => void,
): ServerChild {
  const child = spawn(binary, args, { detached: true, stdio: ['ignore', 'ignore', 'pipe'] });
  const watchdog = child.pid === undefined ? undefined : startWatchdog(child.pid);
  const killIt = () => child.kill('SIGKILL');
  let tail = '';
  let stopping = false;
  let how: string | undefined;
  process.once('exit', killIt);
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    tail = (tail + text).slice(-TAIL_CHARS);
  });
  const ended = new Promise<void>((done) => {
    const end = (reason: string) => {
      if (how !== undefined) return;
      how = reason;
      // The watchdog must go before the system can give the process id to another process.
      watchdog?.kill('SIGKILL');
      process.off('exit', killIt);
      done();
      onEnd(reason, stopping);
    };
    child.once('error', (error) => end(`cannot be run: ${error.message}`));
    child.once('exit', (code, signal) => end(signal === null ? `exited with code ${code}` : `was ended by ${signal}`));
  });
  child.unref();
  if (child.stderr instanceof Socket) child.stderr.unref();

  const stop = async () => {
    stopping = true;
    if (how !== undefined) return;
    child.ref();
    child.kill('SIGTERM');
    const timer = setTimeout(killIt, STOP_MS);
    await ended;
    clearTimeout(timer);
  };
  return { pid: child.pid, ended: () => how, tail: () => tail.trim(), stop };
}

/** The tail of a child, with its last line when it has ended: its exit may be known before the pipe has delivered that line. */
export async function finalTail(child: ServerChild): Promise<string> {
  for (let i = 0; i < 20 && child.ended() !== undefined && child.tail() === ''; i++) await sleep(10);
  return child.tail();
}

/** Kills the process when this one dies: `read` returns when our end of the pipe closes, which the system does for a process that dies. */
function startWatchdog(pid: number): ChildProcess {
  const script = 'read -r _; kill -KILL "$0" 2>/dev/null';
  const watchdog = spawn('/bin/sh', ['-c', script, String(pid)], {
    detached: true,
    stdio: ['pipe', 'ignore', 'ignore'],
  });
  // In an image without a shell there is only the exit handler.
  watchdog.on('error', () => {});
  watchdog.unref();
  return watchdog;
}
