/**
 * The acceptor of an agent, for foreign clients: `signal-with-start` of `enqueue` starts it, it puts what came into the store, starts the
 * workflows of what was leased, and completes. No workflow runs for an idle agent.
 *
 * Invariants
 * 1. It never fails on a request: what cannot be accepted leaves an event that says why.
 * 2. It ends in the same breath as the check that nothing is pending: a signal that comes with the command makes the server ask again.
 */
import { ApplicationFailure, condition, setHandler, uuid4, workflowInfo } from '@temporalio/workflow';
import { type AgentInput, enqueueSignal, isAgentInput, shallow } from './messages.ts';
import { storeActivities } from './ports.ts';
import { agentWorkflowId, isUserId } from './protocol/ids.ts';
import { clip } from './protocol/limits.ts';

/** One that was started without a signal waits so long for the first. */
const FIRST_REQUEST_MS = 10_000;

export async function agent(input: AgentInput): Promise<void> {
  const { agentId } = checked(input);
  const requests: unknown[] = [];
  setHandler(enqueueSignal, (body) => void requests.push(shallow(body ?? null)));
  if (requests.length === 0) await condition(() => requests.length > 0, FIRST_REQUEST_MS);
  for (let body = requests.shift(); body !== undefined; body = requests.shift())
    await storeActivities.acceptInline({ agentId, agentTurnId: uuid4(), body });
}

function checked(input: unknown): AgentInput {
  const { workflowId } = workflowInfo();
  if (isAgentInput(input) && isUserId(input.agentId) && workflowId === agentWorkflowId(input.agentId)) return input;
  const expected = 'expected input {"agentId": ID} in a workflow with id agents/ID';
  const came = clip(JSON.stringify(input) ?? 'nothing', 200);
  throw ApplicationFailure.nonRetryable(`${expected}, got ${came} in ${workflowId}`, 'invalid_request');
}
