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
    for (const candidate of page) {
      const { agentId, unreadTurnId } = candidate;
      if (unreadTurnId !== null) await ringTurn(temporal, agentId, unreadTurnId, { callId: '' });
      if (await needsBell(temporal, candidate)) await ringMailbox(temporal, agentId);
    }
    cursor = page.at(-1)?.agentId ?? null;
    if (page.length < PAGE) return;
  }
}

/** A mailbox with an open turn looks into the store when that turn closes; only a mailbox that is gone needs waking. */
async function needsBell(temporal: Client, { agentId, headStatus }: DoorbellCandidate): Promise<boolean> {
  if (headStatus === 'idle') return true;
  try {
    const { status } = await temporal.workflow.getHandle(agentWorkflowId(agentId)).describe();
    return status.name !== 'RUNNING';
  } catch (error) {
    if (error instanceof WorkflowNotFoundError) return true;
    throw error;
  }
}
