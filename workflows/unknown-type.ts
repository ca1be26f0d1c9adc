/** What runs when somebody starts a workflow of a type that is not here: without it, its first task would fail and be retried for ever. */
import { ApplicationFailure, workflowInfo } from '@temporalio/workflow';

export async function unknownType(): Promise<never> {
  const { workflowType, workflowId } = workflowInfo();
  const message = `${workflowId}: there is no workflow type ${workflowType} here; agents are started by enqueue`;
  throw ApplicationFailure.nonRetryable(message, 'invalid_request');
}
