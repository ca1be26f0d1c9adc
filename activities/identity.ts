/**
 * Which workflow may use a lease.
 *
 * Invariant: a lease names the workflow that holds it. An activity that carries a lease and was asked for by another workflow, one that
 * somebody started with a copy of the input, say, does nothing (T1, T5).
 */
import { Context } from '@temporalio/activity';
import { CodedError } from '../workflows/protocol/failures.ts';
import { turnWorkflowId } from '../workflows/protocol/ids.ts';
import type { Fence } from '../workflows/protocol/turn.ts';

const hasFence = (input: unknown): input is Fence =>
  typeof input === 'object' && input !== null && 'turnEpoch' in input && 'agentTurnId' in input;

/** The activities, each of which throws `protocol_violation` when its input carries the lease of another workflow's turn. */
export function ofItsOwnTurn<T extends object>(activities: T): T {
  const wrapped = Object.entries(activities).map(([name, run]) => [
    name,
    async (input: unknown) => {
      if (hasFence(input)) checkHolder(input);
      return run(input);
    },
  ]);
  return Object.fromEntries(wrapped) as T;
}

function checkHolder({ agentId, agentTurnId }: Fence): void {
  const workflowId = Context.current().info.workflowExecution?.workflowId ?? '';
  const holder = turnWorkflowId(agentId, agentTurnId);
  if (workflowId === holder) return;
  throw new CodedError(
    'protocol_violation',
    `the lease of turn ${agentTurnId} is held by workflow ${holder}, not by ${workflowId}`,
  );
}
