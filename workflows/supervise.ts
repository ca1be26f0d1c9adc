/** The workflow of one pass of the supervisor. A Temporal Schedule starts it where no worker process stays to run passes (T7, T29). */
import { proxyActivities } from '@temporalio/workflow';
import type { SupervisorActivities } from './contract/activities.ts';
import type { SupervisorPass } from './contract/supervision.ts';

// A pass that failed is not repeated: the next one is a few seconds away and finds the same turns due.
const { supervise: pass } = proxyActivities<SupervisorActivities>({
  startToCloseTimeout: '5m',
  retry: { maximumAttempts: 1 },
});

/** The workflow `supervise`: makes one pass on a worker of the control queue and returns what the pass did. */
export function supervise(): Promise<SupervisorPass> {
  return pass();
}
