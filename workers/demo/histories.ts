/** How much history a turn and its agent left in Temporal. */
import { setTimeout as sleep } from 'node:timers/promises';
import type { Client } from '@temporalio/client';
import { agentWorkflowId, turnWorkflowId } from '../../workflows/protocol/ids.ts';

export interface HistorySize {
  readonly workflowId: string;
  readonly events: number;
  readonly bytes: number | null;
}

const AT_REST_MS = 3_000;
const POLL_MS = 50;

export async function historySizes(
  temporal: Client,
  agentId: string,
  agentTurnId: string,
): Promise<{ readonly turn: HistorySize; readonly agent: HistorySize }> {
  const turnId = turnWorkflowId(agentId, agentTurnId);
  // The task event comes before the workflow's last words.
  await temporal.workflow
    .getHandle(turnId)
    .result()
    .catch(() => {});
  const turn = await sizeOf(temporal, turnId);
  return { turn, agent: await restingAgent(temporal, agentWorkflowId(agentId)) };
}

async function sizeOf(temporal: Client, workflowId: string): Promise<HistorySize> {
  const { historyLength, historySize } = await temporal.workflow.getHandle(workflowId).describe();
  return { workflowId, events: historyLength, bytes: historySize ?? null };
}

/** The mailbox settles its turn a moment after the turn has closed; it is at rest when its history stops growing. */
async function restingAgent(temporal: Client, workflowId: string): Promise<HistorySize> {
  const deadline = Date.now() + AT_REST_MS;
  for (;;) {
    const { searchAttributes } = await temporal.workflow.getHandle(workflowId).describe();
    const isIdle = searchAttributes.AgentStatus?.[0] === 'awake_idle';
    if (isIdle || Date.now() > deadline) return sizeOf(temporal, workflowId);
    await sleep(POLL_MS);
  }
}
