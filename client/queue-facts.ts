/** What the Temporal server says of a worker target's task queue: whether anybody serves it. */
import type { Client } from '@temporalio/client';
import { targetQueue } from '../workflows/protocol/ids.ts';
import type { QueueFacts } from '../workflows/supervision/check.ts';

/** The value of temporal.api.enums.v1.TaskQueueType for workflow tasks. */
const TASK_QUEUE_TYPE_WORKFLOW = 1;

/** How long ago a poller may have polled and be alive: the time of one long poll. The server remembers pollers for minutes. */
const POLLER_ALIVE_MS = 90_000;

/** What the server says of a worker target's task queue. Throws the errors of the server. */
export async function queueFacts(temporal: Client, workerTarget: string): Promise<QueueFacts> {
  const { pollers, stats } = await temporal.workflowService.describeTaskQueue({
    namespace: temporal.options.namespace,
    taskQueue: { name: targetQueue(workerTarget) },
    taskQueueType: TASK_QUEUE_TYPE_WORKFLOW,
    reportStats: true,
  });
  const since = Date.now() - POLLER_ALIVE_MS;
  const seenAt = (seconds: unknown) => Number(seconds ?? 0) * 1_000;
  return {
    hasPollers: (pollers ?? []).some(({ lastAccessTime }) => seenAt(lastAccessTime?.seconds) > since),
    hasBacklog: stats ? Number(stats.approximateBacklogCount ?? 0) > 0 : true,
  };
}
