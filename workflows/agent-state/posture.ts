/**
 * What an agent is to those who look at it: one word that says whether it works, has something to do, or waits, and for what (A2). It is
 * derived whenever it is asked for, and nothing is decided by it.
 */
import type { AgentStatus } from './status.ts';
import type { ActiveWait } from './waits.ts';
import { runnableItem, type ScheduledWorkItem, type WorkItemSchedulingState } from './work-items.ts';

/** The postures, in the order in which the first that fits is taken. */
export const POSTURES = [
  'archived',
  'active_turn',
  'has_queued_input',
  'has_runnable_work',
  'waiting_for_task',
  'waiting_for_external',
  'waiting_for_operator',
  'blocked',
  'idle',
  'unknown',
] as const;
/** What an agent is at. `unknown` stands only where nothing could be derived. */
export type AgentSchedulingPosture = (typeof POSTURES)[number];

/** What a posture is derived from. */
export interface PostureFacts {
  readonly status: AgentStatus;
  /** The open turn; null when there is none. */
  readonly activeAgentTurnId: string | null;
  /** Queued turns, and what came meanwhile and makes a turn of its own. */
  readonly queuedInput: number;
  readonly workItems: readonly ScheduledWorkItem[];
  /** All waits that have not ended, those of work items included. */
  readonly waits: readonly ActiveWait[];
}

/** A posture, why, and what it is about. */
export interface AgentPosture {
  readonly posture: AgentSchedulingPosture;
  /** A sentence for people. */
  readonly reason: string;
  readonly agentTurnId?: string;
  readonly workItemId?: string;
  readonly waitId?: string;
  /** The delegated turn that is waited for. */
  readonly taskId?: string;
}

/** The posture of an agent with these facts. */
export function derivePosture(facts: PostureFacts): AgentPosture {
  const { status, activeAgentTurnId, queuedInput, workItems, waits } = facts;
  if (status === 'stopped') return { posture: 'archived', reason: 'an operator has stopped the agent' };
  if (activeAgentTurnId !== null)
    return { posture: 'active_turn', reason: 'a turn is open', agentTurnId: activeAgentTurnId };
  if (queuedInput > 0) return { posture: 'has_queued_input', reason: `${queuedInput} of its inbox to be worked on` };
  const runnable = runnableItem(workItems);
  if (runnable)
    return {
      posture: 'has_runnable_work',
      reason: `can go on with: ${runnable.objective}`,
      workItemId: runnable.workItemId,
    };
  return (
    waitingIn('waiting_task', 'waiting_for_task', workItems, waits) ??
    waitingIn('waiting_external', 'waiting_for_external', workItems, waits) ??
    waitingIn('waiting_operator', 'waiting_for_operator', workItems, waits) ??
    blockedPosture(workItems, waits) ?? { posture: 'idle', reason: 'nothing to do, and nothing is waited for' }
  );
}

const KIND_OF: Readonly<Partial<Record<WorkItemSchedulingState, ActiveWait['kind']>>> = {
  waiting_task: 'task',
  waiting_external: 'external',
  waiting_operator: 'operator',
};

/** Of a work item that is in the state, or of the agent that waits so itself; null for neither. */
function waitingIn(
  state: WorkItemSchedulingState,
  posture: AgentSchedulingPosture,
  workItems: readonly ScheduledWorkItem[],
  waits: readonly ActiveWait[],
): AgentPosture | null {
  const item = workItems.find(({ schedulingState }) => schedulingState === state);
  const wait = item
    ? waits.find(({ waitId }) => waitId === item.waitId)
    : waits.find(({ kind, workItemId }) => workItemId === null && kind === KIND_OF[state]);
  if (!item && !wait) return null;
  return {
    posture,
    reason: wait?.reason ?? `needs input for: ${item?.objective}`,
    ...(item ? { workItemId: item.workItemId } : {}),
    ...(wait ? { waitId: wait.waitId } : {}),
    ...(wait?.kind === 'task' && wait.resource !== null ? { taskId: wait.resource } : {}),
  };
}

const BLOCKED: readonly WorkItemSchedulingState[] = ['blocked', 'waiting_timer', 'waiting_system'];

function blockedPosture(workItems: readonly ScheduledWorkItem[], waits: readonly ActiveWait[]): AgentPosture | null {
  const item = workItems.find(({ schedulingState }) => BLOCKED.includes(schedulingState));
  const wait = item
    ? waits.find(({ waitId }) => waitId === item.waitId)
    : waits.find(({ kind, workItemId }) => workItemId === null && (kind === 'timer' || kind === 'system'));
  if (!item && !wait) return null;
  return {
    posture: 'blocked',
    reason: wait?.reason ?? `blocked by other work: ${item?.objective}`,
    ...(item ? { workItemId: item.workItemId } : {}),
    ...(wait ? { waitId: wait.waitId } : {}),
  };
}
