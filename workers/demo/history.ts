/** How much history a turn left in Temporal. */
import type { Client } from '@temporalio/client';
import { turnWorkflowId } from '../../workflows/protocol/ids.ts';

/** The size of a workflow's history. */
export interface HistorySize {
  readonly workflowId: string;
  readonly events: number;
  /** The size in bytes; null when the server does not say. */
  readonly bytes: number | null;
}

/** The size of a turn's history, once its workflow has closed. Throws the errors of the server. */
export async function historySize(temporal: Client, agentId: string, agentTurnId: string): Promise<HistorySize> {
  const workflowId = turnWorkflowId(agentId, agentTurnId);
  const handle = temporal.workflow.getHandle(workflowId);
  // The task event comes before the last events of the workflow, so its end is awaited.
  await handle.result().catch(() => {});
  const { historyLength, historySize: bytes } = await handle.describe();
  return { workflowId, events: historyLength, bytes: bytes ?? null };
}
