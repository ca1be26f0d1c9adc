/** The time within a burst. */
import { Context } from '@temporalio/activity';

/** The clock of the workflow, as an attempt goes on with it: the server said how long ago it was first asked for. */
export function workflowClock(nowMs: number): () => number {
  const { currentAttemptScheduledTimestampMs, scheduledTimestampMs } = Context.current().info;
  const startedAt = performance.now();
  const waitedMs = Math.max(0, currentAttemptScheduledTimestampMs - scheduledTimestampMs);
  return () => Math.round(nowMs + waitedMs + performance.now() - startedAt);
}
