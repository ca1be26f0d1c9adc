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
/** What is kept of its words: a program that panics says why first, and where it was in many lines after that. */
const HEAD_CHARS = 2_000;
const TAIL_CHARS = 4_000;
const CLOSE_MS = 200;
const CUT = '\n[…]\n';

/** A dev server as a child process. */
export interface ServerChild {
  /** The process id; undefined when the program could not be started. */
  readonly pid: number | undefined;
  /** How the process ended, as the end of a sentence; undefined while it runs. */
  ended(): string | undefined;
  /** What the process wrote to its standard error: the first 2,000 characters and the last 4,000. */
  words(): string;
  /** Resolves when it has ended and all that it wrote is read. */
  readonly closed: Promise<void>;
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
  let head = '';
  let tail = '';
  let cut = false;
  let stopping = false;
  let how: string | undefined;
  process.once('exit', killIt);
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    const first = text.slice(0, HEAD_CHARS - head.length);
    head += first;
    tail += text.slice(first.length);
    cut ||= tail.length > TAIL_CHARS;
    tail = tail.slice(-TAIL_CHARS);
  });
  const closed = new Promise<void>((done) => void child.once('close', () => done()).once('error', () => done()));
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
  return { pid: child.pid, ended: () => how, words: () => `${head}${cut ? CUT : ''}${tail}`.trim(), closed, stop };
}

/** The words of a child, all of them when it has ended: its exit may be known before the pipe has delivered them. */
export async function finalWords(child: ServerChild): Promise<string> {
  // One of its own children may hold the pipe open.
  if (child.ended() !== undefined) await Promise.race([child.closed, sleep(CLOSE_MS)]);
  return child.words();
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
