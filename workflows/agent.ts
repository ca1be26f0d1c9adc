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
import { InlineRequests } from './messages/inline-requests.ts';
import { MessageIds } from './messages/message-ids.ts';
import { enqueueSignal } from './messages/messages.ts';
import { AGENT_WORKFLOW_ID, isUserId } from './protocol/ids.ts';

/** One that was started without a signal waits so long for the first. */
const FIRST_REQUEST_MS = 10_000;
/**
 * One that got several waits so long for the next: what is sent to a run that is about to close, the server refuses for the moment, and
 * senders that are refused again and again get slow.
 */
const NEXT_REQUEST_MS = 500;
/** Then it closes: senders that do not pause are made to, before they send faster than the store takes. */
const MOST_REQUESTS = 200;
const MOST_BYTES = 4 * 1024 * 1024;

export async function agent(): Promise<void> {
  const agentId = ownAgentId();
  const ids = new MessageIds();
  const requests = new InlineRequests(agentId, ids);
  setHandler(enqueueSignal, (body) => requests.push(body));
  if (!requests.isWaiting) await condition(() => requests.isWaiting, FIRST_REQUEST_MS);
  do {
    while (requests.isWaiting) await requests.acceptSome();
  } while (isBurst(ids.taken) && (await condition(() => requests.isWaiting, NEXT_REQUEST_MS)));
}

const isBurst = (requests: number): boolean =>
  requests > 1 && requests < MOST_REQUESTS && workflowInfo().historySize < MOST_BYTES;

function ownAgentId(): string {
  const { workflowId } = workflowInfo();
  const [, agentId] = AGENT_WORKFLOW_ID.exec(workflowId) ?? [];
  if (isUserId(agentId)) return agentId;
  throw ApplicationFailure.nonRetryable(`expected the workflow id agents/ID, got ${workflowId}`, 'invalid_request');
}
