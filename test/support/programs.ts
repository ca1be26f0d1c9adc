/** Programs that a run starts: each with its own log file, and none outlives the run. */
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { type ServerChild, spawnServer } from '../../workers/temporal/child.ts';

export type { ServerChild as Program } from '../../workers/temporal/child.ts';

/** Starts a program with stdout and stderr in a log file; it is killed when this process is gone, also when that was killed. */
export function startProgram(
  command: readonly string[],
  logPath: string,
  onEnd: (how: string, stopping: boolean) => void,
): ServerChild {
  const script = 'log=$1; shift; exec "$@" >>"$log" 2>&1';
  return spawnServer('/bin/sh', ['-c', script, 'sh', logPath, ...command], onEnd);
}

/** Runs a TypeScript file with one JSON argument. */
export const startScript = (
  file: URL,
  argument: unknown,
  logPath: string,
  onEnd: (how: string, stopping: boolean) => void,
): ServerChild => startProgram([process.execPath, fileURLToPath(file), JSON.stringify(argument)], logPath, onEnd);

/** Signals a process that we started; one that is gone already is no error. */
export function signal(pid: number | undefined, name: NodeJS.Signals): void {
  if (pid === undefined) return;
  try {
    process.kill(pid, name);
  } catch (error) {
    if (!(error instanceof Error && 'code' in error && error.code === 'ESRCH')) throw error;
  }
}

export function lastLines(logPath: string, count: number): string {
  try {
    return readFileSync(logPath, 'utf8').trimEnd().split('\n').slice(-count).join('\n');
  } catch {
    return '';
  }
}
