/**
 * The watchdog's look at a turn. It ends only what does not move: age alone never kills a healthy turn (T23).
 *
 * Order: the store ends the turn by CAS first, so that nothing the workflow still does counts; then the workflow is closed.
 */
import { type Client, WorkflowNotFoundError } from '@temporalio/client';
import type { Inspection, InspectTurnInput } from '../workflows/ports.ts';
import { targetQueue, turnWorkflowId } from '../workflows/protocol/ids.ts';
import type { Store, TurnHealth } from '../workflows/protocol/store.ts';
import type { Fence, Termination } from '../workflows/protocol/turn.ts';

/** Values of temporal.api.enums.v1: TaskQueueType and PendingActivityState. */
const TASK_QUEUE_TYPE_WORKFLOW = 1;
const ACTIVITY_STARTED = 2;

export async function inspectTurn(temporal: Client, store: Store, input: InspectTurnInput): Promise<Inspection> {
  const { agentId, agentTurnId, turnEpoch, workerTarget, timeouts } = input;
  const fence = { agentId, agentTurnId, turnEpoch };
  const health = await store.turnHealth(fence);
  if (!health) {
    // The turn has ended in the store; a workflow that is still there missed its bell and holds up the mailbox.
    await close(temporal, fence, 'the turn has ended');
    return { verdict: 'expired' };
  }
  const termination = await overdue(temporal, fence, health, input);
  // A turn without any worker to run it keeps waiting, and its clock stands still until the first one is seen (T12).
  const waits = health.status === 'dispatched' && timeouts.whenNoWorkers === 'wait';
  if (waits && termination?.errorCode !== 'turn_timeout' && !(await hasPollers(temporal, workerTarget))) {
    return { verdict: 'no_workers' };
  }
  if (!termination) return { verdict: health.status === 'suspended' ? 'suspended' : 'healthy' };
  if (!(await store.expireTurn(fence, health.status, termination))) return { verdict: 'healthy' };
  await close(temporal, fence, termination.reason ?? '');
  return { verdict: 'expired' };
}

async function overdue(
  temporal: Client,
  fence: Fence,
  { status, leasedAt, progressAt }: TurnHealth,
  { timeouts, dispatchSince }: InspectTurnInput,
): Promise<Termination | null> {
  const now = Date.now();
  const { dispatchMs, noProgressMs, turnMs } = timeouts;
  if (turnMs !== undefined && now - leasedAt >= turnMs)
    return timeout('turn_timeout', `the turn took longer than ${turnMs} ms`);
  if (status === 'dispatched') {
    if (dispatchMs === 0 || dispatchSince === null || now - dispatchSince < dispatchMs) return null;
    return timeout('dispatch_timeout', `no worker started the turn within ${dispatchMs} ms`);
  }
  if (status !== 'running' || now - progressAt < noProgressMs) return null;
  if (await activityRuns(temporal, fence)) return null;
  return timeout('turn_timeout', `the turn made no progress for ${noProgressMs} ms`);
}

const timeout = (errorCode: 'dispatch_timeout' | 'turn_timeout', reason: string): Termination => ({
  status: 'timeout',
  errorCode,
  reason,
});

/** Whether an activity of the turn runs: the server itself gives up on one that is silent for its heartbeat timeout. */
async function activityRuns(temporal: Client, { agentId, agentTurnId }: Fence): Promise<boolean> {
  try {
    const { raw } = await temporal.workflow.getHandle(turnWorkflowId(agentId, agentTurnId)).describe();
    return (raw.pendingActivities ?? []).some(({ state }) => state === ACTIVITY_STARTED);
  } catch (error) {
    if (error instanceof WorkflowNotFoundError) return false;
    throw error;
  }
}

async function hasPollers(temporal: Client, workerTarget: string): Promise<boolean> {
  const { pollers } = await temporal.workflowService.describeTaskQueue({
    namespace: temporal.options.namespace,
    taskQueue: { name: targetQueue(workerTarget) },
    taskQueueType: TASK_QUEUE_TYPE_WORKFLOW,
  });
  return (pollers ?? []).length > 0;
}

const close = (temporal: Client, { agentId, agentTurnId }: Fence, reason: string): Promise<void> =>
  terminate(temporal, turnWorkflowId(agentId, agentTurnId), reason);

/** A workflow that is closed or gone needs no end. */
export async function terminate(temporal: Client, workflowId: string, reason: string): Promise<void> {
  try {
    await temporal.workflow.getHandle(workflowId).terminate(reason);
  } catch (error) {
    if (!(error instanceof WorkflowNotFoundError)) throw error;
  }
}
