/** The input of a turn's workflow, which anybody may have started. */
import { ApplicationFailure, workflowInfo } from '@temporalio/workflow';
import type { Lease } from '../contract/lease.ts';
import { isLease } from '../messages/messages.ts';
import { turnWorkflowId } from '../protocol/ids.ts';
import { clip } from '../protocol/sizes.ts';

/**
 * The shape, and whether the lease names this workflow: one that somebody started with a copy of another turn's input is refused (T1).
 * Whether the lease holds, the store says at the first activity.
 */
export function ownLease(lease: unknown): Lease {
  if (!isLease(lease)) {
    const message = `expected the lease that a turn is started with, got ${clip(JSON.stringify(lease) ?? 'nothing', 200)}`;
    throw ApplicationFailure.nonRetryable(message, 'invalid_request');
  }
  const holder = turnWorkflowId(lease.agentId, lease.agentTurnId);
  const { workflowId } = workflowInfo();
  if (workflowId === holder) return lease;
  const message = `the lease in the input is held by workflow ${holder}, not by ${workflowId}`;
  throw ApplicationFailure.nonRetryable(message, 'protocol_violation');
}
