/** How much history a turn left in Temporal. */
import type { Client } from '@temporalio/client';
import { turnWorkflowId } from '../../workflows/protocol/ids.ts';

export interface HistorySize {
  readonly workflowId: string;
  readonly events: number;
  readonly bytes: number | null;
}

export async function historySize(temporal: Client, agentId: string, agentTurnId: string): Promise<HistorySize> {
  const workflowId = turnWorkflowId(agentId, agentTurnId);
  const handle = temporal.workflow.getHandle(workflowId);
  // The task event comes before the workflow's last words.
  await handle.result().catch(() => {});
  const { historyLength, historySize: bytes } = await handle.describe();
  return { workflowId, events: historyLength, bytes: bytes ?? null };
}
