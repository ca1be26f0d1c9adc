/** What a backlog may do to turns: they wait, and that is all. */
import { type Client, WorkflowNotFoundError } from '@temporalio/client';
import type { TurnView } from '../../workflows/contract/views.ts';
import { turnWorkflowId } from '../../workflows/protocol/ids.ts';
import type { Ledger } from './ledger.ts';

/** temporal.api.enums.v1.EventType: what a workflow task may come to. */
const TASK_EVENTS: ReadonlySet<unknown> = new Set([5, 6, 7, 8, 9]);
const TASK_LOST: ReadonlySet<unknown> = new Set([8, 9]);

/** A backlog shows in how long turns wait for their first task. */
export function waits(ledger: Ledger, views: readonly TurnView[]): void {
  const longest = views.map(({ leasedAt, startedAt }) =>
    leasedAt !== null && startedAt !== null ? startedAt - leasedAt : 0,
  );
  ledger.count(
    'longest wait for a first task, ms',
    longest.reduce((a, b) => Math.max(a, b), 0),
  );
}

/**
 * Whether a turn that was ended for no progress had tasks that were lost with their workers. One that only stood in a queue must not be
 * ended, however long.
 */
export async function lostTasks(temporal: Client, { agentId, agentTurnId, errorCode }: TurnView): Promise<boolean> {
  if (errorCode !== 'dispatch_timeout' && errorCode !== 'turn_timeout') return false;
  try {
    const { events } = await temporal.workflow.getHandle(turnWorkflowId(agentId, agentTurnId)).fetchHistory();
    const last = (events ?? []).findLast((event) => TASK_EVENTS.has(event.eventType));
    return TASK_LOST.has(last?.eventType);
  } catch (error) {
    if (error instanceof WorkflowNotFoundError) return false;
    throw error;
  }
}
