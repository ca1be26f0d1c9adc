/** Whether two processes of this machine answer the same turns with different models. */
import type { ServerOwner } from './temporal/server-record.ts';

/**
 * That the process which runs the server answers some of the same turns with another model, as a line for people; null when it does not, has ended,
 * or is not known.
 */
export function sharedWarning(ours: ServerOwner, theirs: ServerOwner | undefined): string | null {
  if (!theirs || theirs.pid === ours.pid || theirs.model === ours.model || !isAlive(theirs.pid)) return null;
  const both = ours.targets.filter((target) => theirs.targets.includes(target));
  if (both.length === 0) return null;
  return (
    `warning: this process serves ${both.join(', ')} with ${ours.model}, and process ${theirs.pid} serves the same data with ` +
    `${theirs.model}: a step may go to either; stop one of them, or give both the same model`
  );
}

/** Whether a process of this machine is there. */
export function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0);
  } catch (error) {
    // There, and another user's.
    return (error as NodeJS.ErrnoException).code === 'EPERM';
  }
}
