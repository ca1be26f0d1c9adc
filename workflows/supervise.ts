/** One pass of the supervisor: what a Temporal Schedule starts where no worker process stays to run one (T7, T29). */
import { proxyActivities } from '@temporalio/workflow';
import type { SupervisorActivities } from './contract/activities.ts';
import type { SupervisorPass } from './contract/supervision.ts';

/** A pass that failed is not repeated: the next one is a few seconds away and finds the same things due. */
const { supervise: pass } = proxyActivities<SupervisorActivities>({
  startToCloseTimeout: '5m',
  retry: { maximumAttempts: 1 },
});

export function supervise(): Promise<SupervisorPass> {
  return pass();
}
