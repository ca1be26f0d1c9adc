import type { Client } from '@temporalio/client';
import { agentWorkflowId, CONTROL_QUEUE } from '../../workflows/protocol/ids.ts';

/** A request as a client sends it that knows only Temporal; `args` are the workflow's input, which does not matter. */
export const signalAcceptor = ({ workflow }: Client, agentId: string, body: unknown, args: unknown[] = []) =>
  workflow.signalWithStart('agent', {
    workflowId: agentWorkflowId(agentId),
    taskQueue: CONTROL_QUEUE,
    args,
    signal: 'enqueue',
    signalArgs: [body],
  });
