/** What the gateway takes in paths and gives back of agents and of what they have between their turns. */
import { z } from '@hono/zod-openapi';
import { WAITING_REASONS } from '../../workflows/agent-state/closure.ts';
import { POSTURES } from '../../workflows/agent-state/posture.ts';
import { AGENT_STATUSES } from '../../workflows/agent-state/status.ts';
import { WAIT_KINDS } from '../../workflows/agent-state/waits.ts';
import { PLAN_STATUSES } from '../../workflows/agent-state/work-items.ts';
import { agentParams, behindId, lackedWorkers, status, storeTime, tenantSchema, usedTokens } from './schemas.ts';

/** The ids of an agent and of one of its timers in a path. */
export const timerParams = agentParams.extend({ timerId: behindId });
/** The ids of an agent and of one of its triggers in a path. */
export const triggerParams = agentParams.extend({ triggerId: behindId });
const posture = z.object({
  posture: z.enum(POSTURES),
  reason: z.string().openapi({ description: 'A sentence for people.' }),
  agentTurnId: z.string().optional(),
  workItemId: z.string().optional(),
  waitId: z.string().optional(),
  taskId: z.string().optional(),
});

const HEAD_STATUSES = ['idle', 'dispatched', 'running', 'suspended'] as const;

/** An agent in a list. */
export const agentSchema = z
  .object({
    agentId: z.string(),
    profile: z.string(),
    tenant: tenantSchema,
    lifecycle: z.enum(['started', 'stopped']),
    status: z.enum(HEAD_STATUSES),
    agentStatus: z.enum(AGENT_STATUSES),
    posture,
    turnEpoch: z.int(),
    activeAgentTurnId: z.string().nullable(),
    acceptedTurns: z.int(),
    queuedTurns: z.int(),
    waitingForWorkers: lackedWorkers.nullable(),
    outputBoxId: z.string().nullable(),
    waitingToolCount: z.int(),
    resumeDeadline: storeTime.nullable(),
    updatedAt: storeTime,
  })
  .openapi('Agent');

/** A piece of work of an agent. */
export const workItemSchema = z
  .object({
    workItemId: z.string(),
    revision: z.int(),
    objective: z.string(),
    state: z.enum(['open', 'completed']),
    planStatus: z.enum(PLAN_STATUSES),
    todoList: z.array(z.object({ text: z.string(), state: z.enum(['pending', 'in_progress', 'completed']) })),
    blockedBy: z.array(z.string()),
    recheckAt: storeTime.nullable(),
    resultSummary: z.string().nullable(),
    createdAt: storeTime,
    updatedAt: storeTime,
    schedulingState: z.enum([
      'runnable',
      ...WAIT_KINDS.map((kind) => `waiting_${kind}` as const),
      'blocked',
      'completed',
    ]),
    current: z.boolean(),
    waitId: z.string().nullable(),
  })
  .openapi('WorkItem');

/** What an agent waits for between its turns. */
export const waitSchema = z
  .object({
    waitId: z.string(),
    kind: z.enum(WAIT_KINDS),
    workItemId: z.string().nullable(),
    resource: z.string().nullable(),
    reason: z.string(),
    status: z.enum(['active', 'resolved', 'expired', 'cancelled']),
    recheckAt: storeTime.nullable(),
    deadline: storeTime,
    agentTurnId: z.string(),
    createdAt: storeTime,
    endedAt: storeTime.nullable(),
    endedBy: z.string().nullable(),
  })
  .openapi('Wait');

/** A time at which an agent is woken. */
export const timerSchema = z
  .object({
    timerId: z.string(),
    reason: z.string(),
    nextAt: storeTime,
    everyMs: z.int().nullable(),
    createdAt: storeTime,
  })
  .openapi('Timer');

/** A way in which something outside can wake an agent. */
export const triggerSchema = z
  .object({
    triggerId: z.string(),
    name: z.string(),
    hits: z.int(),
    lastHitAt: storeTime.nullable(),
    revokedAt: storeTime.nullable(),
    createdAt: storeTime,
  })
  .openapi('Trigger');

/** What has become of something that came for an agent. */
export const disposition = z.enum(['woken', 'kept', 'noted', 'duplicate']);

const turnLine = z.object({
  agentTurnId: z.string(),
  status,
  errorCode: z.string().nullable(),
  acceptedAt: storeTime,
  endedAt: storeTime.nullable(),
});

const closure = z.object({
  outcome: z.enum(['completed', 'continuable', 'failed', 'waiting']),
  waitingReason: z.enum(WAITING_REASONS).optional(),
  workItemId: z.string().optional(),
  runtimePosture: z.enum(['awake', 'sleeping']),
  evidence: z.array(z.string()),
});

const childSummary = z.object({
  agentId: z.string(),
  agentTurnId: z.string(),
  status,
  agentStatus: z.enum(AGENT_STATUSES),
});

/** What an agent is at. */
export const agentSummarySchema = z
  .object({
    version: z.literal(1),
    identity: z.object({
      agentId: z.string(),
      kind: z.enum(['named', 'child']),
      visibility: z.enum(['public', 'private']),
      ownership: z.enum(['self_owned', 'parent_supervised']),
      parentAgentId: z.string().nullable(),
      profile: z.string(),
      createdAt: storeTime,
    }),
    agent: z.object({
      status: z.enum(AGENT_STATUSES),
      pending: z.int(),
      turnIndex: z.int(),
      currentTurn: turnLine.pick({ agentTurnId: true, status: true }).nullable(),
      head: z.object({
        status: z.enum(HEAD_STATUSES),
        turnEpoch: z.int(),
        outputBoxId: z.string().nullable(),
        waitingToolCount: z.int(),
        resumeDeadline: storeTime.nullable(),
        waitingForWorkers: lackedWorkers.nullable(),
      }),
      currentWorkItemId: z.string().nullable(),
      autonomousTurns: z.int(),
      came: z.int(),
      eventSeq: z.int(),
    }),
    schedulingPosture: posture,
    lifecycle: z.object({ acceptsExternalMessages: z.boolean(), operatorHint: z.string().nullable() }),
    model: z.object({ name: z.string().nullable(), usage: usedTokens, cost: z.number().nullable() }),
    closure: closure.nullable(),
    execution: z.object({ workerTarget: z.string().nullable(), workflowId: z.string().nullable() }),
    activeChildren: z.array(childSummary),
    activeWaits: z.array(waitSchema),
    activeTimers: z.array(timerSchema),
    activeExternalTriggers: z.array(triggerSchema),
    workItems: z.array(workItemSchema),
    recentTurns: z.array(turnLine),
    updatedAt: storeTime,
    readAt: storeTime,
  })
  .openapi('AgentSummary');
