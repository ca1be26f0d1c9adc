/**
 * What runs when somebody starts a workflow of a type that is not served. Without it, the first task of such a workflow would fail and be
 * retried for ever.
 */
import { ApplicationFailure, workflowInfo } from '@temporalio/workflow';

/** The default workflow: fails `invalid_request`, naming the type that was asked for. */
export async function unknownType(): Promise<never> {
  const { workflowType, workflowId } = workflowInfo();
  const message = `${workflowId}: there is no workflow type ${workflowType} here; agents are started by enqueue`;
  throw ApplicationFailure.nonRetryable(message, 'invalid_request');
}
