/** Temporal signals that wake a mailbox or a turn. They carry ids only; the store holds what they are about. */
import { type Client, isGrpcServiceError, WorkflowNotFoundError } from '@temporalio/client';
import { defineSearchAttributeKey, SearchAttributeType, type SignalDefinition } from '@temporalio/common';
import type { agent } from '../workflows/agent.ts';
import { enqueueSignal, limitsSignal, stopSignal, toolResultSignal } from '../workflows/messages.ts';
import { CodedError } from '../workflows/protocol/failures.ts';
import { agentWorkflowId, CONTROL_QUEUE, turnWorkflowId } from '../workflows/protocol/ids.ts';

const AGENT_ID = defineSearchAttributeKey('AgentId', SearchAttributeType.KEYWORD);
const AGENT_STATUS = defineSearchAttributeKey('AgentStatus', SearchAttributeType.KEYWORD);

/** Starts the mailbox if need be. Errors: `temporal_unreachable`; what the store accepted stays accepted. */
export async function ringMailbox(temporal: Client, agentId: string, agentTurnId?: string): Promise<void> {
  await reaching(() =>
    temporal.workflow.signalWithStart<typeof agent, [unknown]>('agent', {
      workflowId: agentWorkflowId(agentId),
      taskQueue: CONTROL_QUEUE,
      args: [{ agentId }],
      signal: enqueueSignal,
      signalArgs: [agentTurnId === undefined ? null : { agentTurnId }],
      staticSummary: `mailbox of agent ${agentId}`,
      typedSearchAttributes: [
        { key: AGENT_ID, value: agentId },
        // A mailbox that is started for a turn runs it at once: saying so here saves it an upsert.
        { key: AGENT_STATUS, value: agentTurnId === undefined ? 'booting' : 'awake_running' },
      ],
    }),
  );
}

/** Tells a turn that one of its calls has a result. */
export const ringTurn = (
  temporal: Client,
  agentId: string,
  agentTurnId: string,
  body: { callId: string },
): Promise<void> => signalTurn(temporal, turnWorkflowId(agentId, agentTurnId), toolResultSignal, body);

/** Tells a turn that it has new budgets. */
export const ringLimits = (temporal: Client, agentId: string, agentTurnId: string): Promise<void> =>
  signalTurn(temporal, turnWorkflowId(agentId, agentTurnId), limitsSignal, {});

/** Makes a turn that the store has ended let go of what it still runs. */
export const ringStop = (temporal: Client, agentId: string, agentTurnId: string): Promise<void> =>
  signalTurn(temporal, turnWorkflowId(agentId, agentTurnId), stopSignal, {});

/** A turn that is closed needs no bell. */
const signalTurn = (
  temporal: Client,
  workflowId: string,
  signal: SignalDefinition<[unknown]>,
  body: unknown,
): Promise<void> =>
  reaching(async () => {
    try {
      await temporal.workflow.getHandle(workflowId).signal(signal, body);
    } catch (error) {
      if (!(error instanceof WorkflowNotFoundError)) throw error;
    }
  });

async function reaching(call: () => Promise<unknown>): Promise<void> {
  try {
    await call();
  } catch (error) {
    const reason = isGrpcServiceError(error) ? error.details : String(error);
    throw new CodedError(
      'temporal_unreachable',
      `the request is in the store, but Temporal did not take its signal (${reason}); it runs when Temporal is back, and repeating it with the same idempotency key is safe`,
      { cause: error },
    );
  }
}
