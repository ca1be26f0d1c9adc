/**
 * Names on which client, store, workflows and workers must agree: workflow ids, task queues, and what an id may look like. Cards and calls
 * have UUIDv5 ids made from what they stand for, so that a retry writes the same row (T29); `activities/ids.ts` makes them.
 */

/** What an agent id, and every other id that a user makes, looks like (design §7). Anything else is refused by name. */
export const USER_ID_PATTERN = /^[A-Za-z0-9][A-Za-z0-9._~-]{0,127}$/;
/** What the name of a worker target looks like; it becomes part of the name of a task queue. */
export const WORKER_TARGET_PATTERN = /^[a-z0-9_-]{1,64}$/;
/** What the name of a tool or of a skill looks like; providers of models accept no other names. */
export const TOOL_NAME_PATTERN = /^[a-zA-Z0-9_-]{1,64}$/;

/** The task queue of acceptors and of the scheduled supervisor; the queues of worker targets begin with it. */
export const CONTROL_QUEUE = 'agentturn';
/** The worker target of a profile that names none. */
export const DEFAULT_WORKER_TARGET = 'worker_generic';

/** Whether a value is an id as `USER_ID_PATTERN` describes it. */
export const isUserId = (value: unknown): value is string => typeof value === 'string' && USER_ID_PATTERN.test(value);

/** The id of the agent of a chat session: one agent for each chat that an agent is talked to in (C2). */
export const sessionAgentId = (agentId: string, chatId: string): string => `${agentId}~${chatId}`;

/** The workflow id of an agent's acceptor; its group is the agent id. */
export const AGENT_WORKFLOW_ID = /^agents\/([^/]+)$/;
/** The workflow id of a turn; its groups are the agent id and the turn id. */
export const TURN_WORKFLOW_ID = /^agents\/([^/]+)\/turns\/([^/]+)$/;

/** The workflow id of the agent's acceptor. */
export const agentWorkflowId = (agentId: string): string => `agents/${agentId}`;

/** The workflow id of a turn, which its lease names as the one holder (T1). */
export const turnWorkflowId = (agentId: string, agentTurnId: string): string =>
  `agents/${agentId}/turns/${agentTurnId}`;

/** The task queue of a worker target, on which turns and their activities run (W2). */
export const targetQueue = (workerTarget: string): string => `${CONTROL_QUEUE}.${workerTarget}`;

/** The worker target of a task queue that `targetQueue` named. */
export const targetOfQueue = (taskQueue: string): string => taskQueue.slice(CONTROL_QUEUE.length + 1);

/**
 * The search attributes of a turn's workflow with their types. Workers check at their start that the namespace has them. No more than lists are
 * made by: each is written several times for a turn, and two of them cost 4 % of its processor time. The worker target is Temporal's own
 * `TaskQueue`.
 */
export const SEARCH_ATTRIBUTES = {
  AgentId: 'Keyword',
  AgentTurnId: 'Keyword',
  TurnStatus: 'Keyword',
  Profile: 'Keyword',
} as const;
