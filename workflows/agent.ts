/**
 * The acceptor of an agent, for foreign clients: `signal-with-start` of `enqueue` starts it, it puts what came into the store, starts the
 * workflows of what was leased, and completes. No workflow runs for an idle agent.
 *
 * Invariants
 * 1. It never fails on a request, and its input does not matter: several clients share a run, and none may spoil it for the others. What
 *    cannot be accepted leaves an event that says why.
 * 2. It ends in the same breath as the check that nothing is pending: a signal that comes with the command makes the server ask again.
 */
import { ApplicationFailure, condition, setHandler, workflowInfo } from '@temporalio/workflow';
import { MessageIds } from './message-ids.ts';
import { enqueueSignal, shallow } from './messages.ts';
import { type AcceptInlineInput, storeActivities } from './ports.ts';
import { AGENT_WORKFLOW_ID, isUserId } from './protocol/ids.ts';

/** One that was started without a signal waits so long for the first. */
const FIRST_REQUEST_MS = 10_000;

export async function agent(): Promise<void> {
  const agentId = ownAgentId();
  const ids = new MessageIds();
  const requests: AcceptInlineInput[] = [];
  setHandler(enqueueSignal, (body) => {
    requests.push({ agentId, messageId: ids.next(), body: shallow(body ?? null) });
  });
  if (requests.length === 0) await condition(() => requests.length > 0, FIRST_REQUEST_MS);
  for (let request = requests.shift(); request; request = requests.shift()) await storeActivities.acceptInline(request);
}

function ownAgentId(): string {
  const { workflowId } = workflowInfo();
  const [, agentId] = AGENT_WORKFLOW_ID.exec(workflowId) ?? [];
  if (isUserId(agentId)) return agentId;
  throw ApplicationFailure.nonRetryable(`expected the workflow id agents/ID, got ${workflowId}`, 'invalid_request');
}
