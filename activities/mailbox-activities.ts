/** What a mailbox needs of Temporal itself. */
import { Context } from '@temporalio/activity';
import { type Client, WorkflowNotFoundError } from '@temporalio/client';
import type { MailboxActivities } from '../workflows/ports.ts';
import { turnWorkflowId } from '../workflows/protocol/ids.ts';
import type { Store } from '../workflows/protocol/store.ts';
import { withHeartbeat } from './heartbeat.ts';
import { inspectTurn, terminate } from './inspect-turn.ts';
import type { Doorbell } from './tools/delegation.ts';

const POLL_MS = 250;

export interface MailboxDeps {
  readonly temporal: Client;
  readonly store: Store;
  readonly doorbell: Doorbell;
}

export const mailboxActivities = ({ temporal, store, doorbell }: MailboxDeps): MailboxActivities => ({
  inspectTurn: (input) => inspectTurn(temporal, store, input),

  async closeOrphans({ agentId }) {
    let closed = 0;
    const query = `WorkflowType = 'agentTurn' and ExecutionStatus = 'Running' and AgentId = '${agentId}'`;
    for await (const { workflowId } of temporal.workflow.list({ query })) {
      const head = await store.getAgent(agentId);
      if (head?.activeAgentTurnId && workflowId === turnWorkflowId(agentId, head.activeAgentTurnId)) continue;
      await terminate(temporal, workflowId, 'it is not the turn its agent runs');
      closed += 1;
    }
    return closed;
  },

  async reportToParent({ agentTurnId }) {
    const report = await store.reportDelegation(agentTurnId);
    if (report) await doorbell.turn(report.agentId, report.agentTurnId, report.callId);
    return report?.ack ?? null;
  },

  awaitTurnClosed: ({ workflowId, graceMs }) =>
    withHeartbeat(async () => {
      const handle = temporal.workflow.getHandle(workflowId);
      const deadline = Date.now() + graceMs;
      let terminated = false;
      for (;;) {
        try {
          const { status } = await handle.describe();
          if (status.name !== 'RUNNING') return 'closed';
          if (!terminated && Date.now() >= deadline) {
            await handle.terminate('its mailbox was replaced');
            terminated = true;
          }
        } catch (error) {
          if (error instanceof WorkflowNotFoundError) return terminated ? 'closed' : 'not_found';
          throw error;
        }
        await Context.current().sleep(POLL_MS);
      }
    }),
});
