/**
 * The acceptor of an agent, for foreign clients. A `signal-with-start` of `enqueue` starts it; it puts what came into the store, starts the
 * workflows of what was leased, and completes. No workflow runs for an idle agent.
 *
 * Invariants
 * 1. It never fails on a request, and its input does not matter: several clients share a run, and none may spoil it for the others. What
 *    cannot be accepted leaves an event that says why.
 * 2. It ends without awaiting anything after the check that nothing is pending: a signal that comes with the closing command makes the
 *    server run the task again.
 */
import { ApplicationFailure, condition, setHandler, workflowInfo } from '@temporalio/workflow';
import { InlineRequests } from './messages/inline-requests.ts';
import { MessageIds } from './messages/message-ids.ts';
import { enqueueSignal } from './messages/messages.ts';
import { AGENT_WORKFLOW_ID, isUserId } from './protocol/ids.ts';

/** How long an acceptor that was started without a signal waits for its first request. */
const FIRST_REQUEST_MS = 10_000;
/**
 * How long an acceptor that got several requests waits for the next one. The server refuses, for the moment, what is sent to a run that is
 * about to close, and senders that are refused again and again get slow.
 */
const NEXT_REQUEST_MS = 500;
/**
 * After how many requests a run closes though more may come: senders that never pause are made to, before they send faster than the store
 * takes.
 */
const MOST_REQUESTS = 200;
/** The size of the history, in bytes, at which a run closes though more requests may come. */
const MOST_BYTES = 4 * 1024 * 1024;

/** The workflow `agent`: accepts requests for the agent that its workflow id names. Fails `invalid_request` under any other workflow id. */
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

/** Whether more requests are to be expected soon, in a run that has room for them. */
const isBurst = (requests: number): boolean =>
  requests > 1 && requests < MOST_REQUESTS && workflowInfo().historySize < MOST_BYTES;

function ownAgentId(): string {
  const { workflowId } = workflowInfo();
  const [, agentId] = AGENT_WORKFLOW_ID.exec(workflowId) ?? [];
  if (isUserId(agentId)) return agentId;
  throw ApplicationFailure.nonRetryable(`expected the workflow id agents/ID, got ${workflowId}`, 'invalid_request');
}
