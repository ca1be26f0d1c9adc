/**
 * The sweeper: rings mailboxes and turns whose doorbell got lost. It looks for turns queued, heads held, results unread and parents not
 * told, longer than `olderThanMs`.
 *
 * Invariant: it only rings, and tells what is told once. A bell too many does no harm, so any number of workers may sweep at once.
 */
import { type Client, WorkflowNotFoundError } from '@temporalio/client';
import { ringMailbox, ringTurn } from '../client/doorbell.ts';
import { agentWorkflowId } from '../workflows/protocol/ids.ts';
import type { DoorbellCandidate, Store } from '../workflows/protocol/store.ts';

export interface SweeperOptions {
  readonly store: Store;
  readonly temporal: Client;
  readonly everyMs?: number;
  readonly olderThanMs?: number;
  readonly onError: (error: unknown) => void;
}

const EVERY_MS = 30_000;
const PAGE = 100;

/** Returns a function that stops it and waits for the sweep under way. */
export function startSweeper(options: SweeperOptions): () => Promise<void> {
  const everyMs = options.everyMs ?? EVERY_MS;
  let sweeping: Promise<void> = Promise.resolve();
  let busy = false;
  const timer = setInterval(() => {
    if (busy) return;
    busy = true;
    sweeping = sweep(options)
      .catch(options.onError)
      .finally(() => {
        busy = false;
      });
  }, everyMs);
  return async () => {
    clearInterval(timer);
    await sweeping;
  };
}

async function sweep({ store, temporal, olderThanMs = EVERY_MS }: SweeperOptions): Promise<void> {
  for (const agentTurnId of await store.overdueReports(olderThanMs, PAGE)) {
    const report = await store.reportDelegation(agentTurnId);
    if (report) await ringTurn(temporal, report.agentId, report.agentTurnId, { callId: report.callId });
  }
  let cursor: string | null = null;
  for (;;) {
    const page: readonly DoorbellCandidate[] = await store.doorbellCandidates(olderThanMs, cursor, PAGE);
    const listed = await listedMailboxes(temporal, page.filter(isHeld));
    for (const candidate of page) {
      const { agentId, unreadTurnId } = candidate;
      if (unreadTurnId !== null) await ringTurn(temporal, agentId, unreadTurnId, { callId: '' });
      const workflowId = agentWorkflowId(agentId);
      if (isHeld(candidate) && (listed.has(workflowId) || (await isRunning(temporal, workflowId)))) continue;
      await ringMailbox(temporal, agentId);
    }
    cursor = page.at(-1)?.agentId ?? null;
    if (page.length < PAGE) return;
  }
}

/** A mailbox with an open turn looks into the store when that turn closes; only a mailbox that is gone needs waking. */
const isHeld = ({ headStatus }: DoorbellCandidate): boolean => headStatus !== 'idle';

/**
 * Which of the mailboxes run, by one look into the server's list: to ask for each would cost the server more than anything else that
 * thousands of waiting turns do. The list lags: a mailbox missing in it may run all the same, one that has just ended is found by a
 * later sweep.
 */
async function listedMailboxes(
  temporal: Client,
  candidates: readonly DoorbellCandidate[],
): Promise<ReadonlySet<string>> {
  const listed = new Set<string>();
  if (candidates.length === 0) return listed;
  // An agent's id has no character that would have to be quoted.
  const ids = candidates.map(({ agentId }) => `'${agentWorkflowId(agentId)}'`);
  const query = `ExecutionStatus = 'Running' and WorkflowId in (${ids.join(', ')})`;
  for await (const { workflowId } of temporal.workflow.list({ query, pageSize: PAGE })) listed.add(workflowId);
  return listed;
}

async function isRunning(temporal: Client, workflowId: string): Promise<boolean> {
  try {
    const { status } = await temporal.workflow.getHandle(workflowId).describe();
    return status.name === 'RUNNING';
  } catch (error) {
    if (error instanceof WorkflowNotFoundError) return false;
    throw error;
  }
}
