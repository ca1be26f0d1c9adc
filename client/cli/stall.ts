/** Why a turn does not go on, in words for people, with what to do where somebody can do something. */
import { commandLine } from '../command-line.ts';
import type { Stall } from '../stalls.ts';
import { counted, time } from './format.ts';
import { providerText } from './progress.ts';

/** The stall as one line. */
export function stallText(stall: Stall): string {
  const since = `since ${time(stall.since)}`;
  switch (stall.kind) {
    case 'provider':
      return `${providerText(stall)}; ${counted(stall.failures, 'attempt')} failed ${since}`;
    case 'workers':
      return `waits for workers of ${stall.workerTarget} ${since}: none polls its task queue; start one with "${commandLine(`worker --targets ${stall.workerTarget}`)}"`;
    case 'start':
      return `leased ${since}, and its workflow is not there yet; the supervisor of any worker starts it`;
    case 'end':
      return `its workflow is ${stall.status} ${since}, and the end of the turn is not recorded yet; the supervisor of any worker records it`;
    case 'workflow_task':
      return `the tasks of its workflow fail or are lost ${since} (attempt ${stall.attempt}); the log of its worker says why`;
    case 'activity':
      return activityText(stall);
  }
}

function activityText({ activity, attempt, message, since, nextTryAt }: Stall & { readonly kind: 'activity' }): string {
  if (message === null) return `activity ${activity} waits for a worker; nothing has been written since ${time(since)}`;
  const next = nextTryAt === null ? '' : `; next try at ${time(nextTryAt)}`;
  return `activity ${activity} is tried again (attempt ${attempt}), nothing has been written since ${time(since)}: ${message}${next}`;
}
