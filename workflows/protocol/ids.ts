/**
 * Names that several sides must agree on: workflow ids, task queues, and what an id may look like.
 *
 * Card and call ids are UUIDv5 of what they stand for, so that a retry writes the same row (T29); see activities/ids.ts.
 */

/** Agent ids and every other id a user makes (design §7). Anything else is refused by name. */
export const USER_ID_PATTERN = /^[A-Za-z0-9][A-Za-z0-9._~-]{0,127}$/;
export const WORKER_TARGET_PATTERN = /^[a-z0-9_-]{1,64}$/;
export const TOOL_NAME_PATTERN = /^[a-zA-Z0-9_-]{1,64}$/;

export const CONTROL_QUEUE = 'agentturn';
export const DEFAULT_WORKER_TARGET = 'worker_generic';

export const isUserId = (value: unknown): value is string => typeof value === 'string' && USER_ID_PATTERN.test(value);

export const AGENT_WORKFLOW_ID = /^agents\/([^/]+)$/;
export const TURN_WORKFLOW_ID = /^agents\/([^/]+)\/turns\/([^/]+)$/;

export const agentWorkflowId = (agentId: string): string => `agents/${agentId}`;

export const turnWorkflowId = (agentId: string, agentTurnId: string): string =>
  `agents/${agentId}/turns/${agentTurnId}`;

/** The task queue of a worker target: turns and their activities run there (W2). */
export const targetQueue = (workerTarget: string): string => `${CONTROL_QUEUE}.${workerTarget}`;

/** Search attributes of a turn's workflow; `workers/` registers them, workflows may rely on them. */
export const SEARCH_ATTRIBUTES = {
  AgentId: 'Keyword',
  AgentTurnId: 'Keyword',
  TurnStatus: 'Keyword',
  TurnEpoch: 'Int',
  WorkerTarget: 'Keyword',
  Profile: 'Keyword',
} as const;
