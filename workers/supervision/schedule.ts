/** The supervisor as a Temporal Schedule, for installations whose workers come and go with the work. */
import { type Client, ScheduleAlreadyRunning, ScheduleOverlapPolicy } from '@temporalio/client';
import { CONTROL_QUEUE } from '../../workflows/protocol/ids.ts';
import type { supervise } from '../../workflows/supervise.ts';

/** The id of the schedule, and of the workflow that it starts. */
export const SUPERVISOR_SCHEDULE_ID = 'agentturn-supervisor';

/**
 * The pause between two passes. It is well below the time after which nobody is taken to have watched, so that time limits go on counting
 * between two passes.
 */
const EVERY = '10s';

/** Creates the schedule; a schedule that exists stays as its operator has set it. Throws the errors of the Temporal client. */
export async function ensureSupervisorSchedule({ schedule }: Client): Promise<void> {
  try {
    await schedule.create<typeof supervise>({
      scheduleId: SUPERVISOR_SCHEDULE_ID,
      spec: { intervals: [{ every: EVERY }] },
      policies: { overlap: ScheduleOverlapPolicy.SKIP, catchupWindow: '1m' },
      action: {
        type: 'startWorkflow',
        workflowType: 'supervise',
        workflowId: SUPERVISOR_SCHEDULE_ID,
        taskQueue: CONTROL_QUEUE,
        args: [],
      },
      state: { triggerImmediately: true },
    });
  } catch (error) {
    if (!(error instanceof ScheduleAlreadyRunning)) throw error;
  }
}
