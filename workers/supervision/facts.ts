/** What Temporal says of the workflow of a turn that is due for a check. */
import {
  type Client,
  type WorkflowExecutionDescription,
  type WorkflowExecutionStatusName,
  WorkflowFailedError,
  WorkflowNotFoundError,
} from '@temporalio/client';
import { ApplicationFailure } from '@temporalio/common';
import type { DueTurn } from '../../workflows/contract/supervision.ts';
import { turnWorkflowId } from '../../workflows/protocol/ids.ts';
import { clip } from '../../workflows/protocol/sizes.ts';
import type { Termination } from '../../workflows/protocol/turn.ts';
import type { WorkflowFacts } from '../../workflows/supervision/check.ts';

/** The value of temporal.api.enums.v1.PendingWorkflowTaskState for a task that a worker has. */
const WORKFLOW_TASK_STARTED = 2;

const REASON_BYTES = 500;

/** What the server says of a turn's workflow. Throws the errors of the server. */
export async function workflowFacts(
  temporal: Client,
  { agentId, agentTurnId }: Pick<DueTurn, 'agentId' | 'agentTurnId'>,
): Promise<WorkflowFacts> {
  const handle = temporal.workflow.getHandle(turnWorkflowId(agentId, agentTurnId));
  try {
    const description = await handle.describe();
    if (description.status.name === 'RUNNING') return runningFacts(description);
    // The result is that of the described run: of a workflow that was reset, another run would be waited for.
    const closed = temporal.workflow.getHandle(description.workflowId, description.runId, { followRuns: false });
    const failure = description.status.name === 'FAILED' ? await failureOf(closed) : undefined;
    return { kind: 'closed', termination: terminationOfClosed(description.status.name, failure) };
  } catch (error) {
    if (error instanceof WorkflowNotFoundError) return { kind: 'missing' };
    throw error;
  }
}

function runningFacts({ raw }: WorkflowExecutionDescription): WorkflowFacts {
  const task = raw.pendingWorkflowTask;
  return {
    kind: 'running',
    pendingActivities: raw.pendingActivities?.length ?? 0,
    task: task
      ? {
          attempt: task.attempt ?? 1,
          started: task.state === WORKFLOW_TASK_STARTED,
          scheduledAt: Number(task.scheduledTime?.seconds ?? 0) * 1_000,
        }
      : null,
  };
}

async function failureOf(handle: { result(): Promise<unknown> }): Promise<Error | undefined> {
  try {
    await handle.result();
    return undefined;
  } catch (error) {
    if (error instanceof WorkflowFailedError) return error.cause;
    throw error;
  }
}

/** The error that a failure began with: the failure of an activity says only that it failed, and its cause says of what. */
const innermost = (failure: Error | undefined): Error | undefined =>
  failure?.cause instanceof Error ? innermost(failure.cause) : failure;

/**
 * How a turn has ended whose workflow closed without committing its end, as the store is to record it (T7). `failure` is the workflow's own
 * error where its status is FAILED.
 */
function terminationOfClosed(status: WorkflowExecutionStatusName, failure: Error | undefined): Termination {
  switch (status) {
    case 'TERMINATED':
      return { status: 'failed', errorCode: 'terminated', reason: 'the workflow was terminated from outside' };
    case 'CANCELLED':
      return { status: 'failed', errorCode: 'terminated', reason: 'the workflow was cancelled from outside' };
    case 'TIMED_OUT':
      return { status: 'timeout', errorCode: 'turn_timeout', reason: 'the workflow timed out' };
    case 'FAILED': {
      const violation = failure instanceof ApplicationFailure && failure.type === 'protocol_violation';
      const reason = clip(innermost(failure)?.message ?? 'the workflow failed', REASON_BYTES);
      return { status: 'failed', errorCode: violation ? 'protocol_violation' : 'internal_error', reason };
    }
    default:
      return { status: 'failed', errorCode: 'internal_error', reason: 'the turn ended without recording its end' };
  }
}
