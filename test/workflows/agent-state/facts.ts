/** Facts about agents for tests of what is derived from them. */
import type { ClosureFacts } from '../../../workflows/agent-state/closure.ts';
import type { PostureFacts } from '../../../workflows/agent-state/posture.ts';
import type { ActiveWait, WaitKind } from '../../../workflows/agent-state/waits.ts';
import { type ScheduledWorkItem, scheduled, type WorkItem } from '../../../workflows/agent-state/work-items.ts';

/** A work item that can be gone on with. */
export const item = (workItemId: string, more: Partial<WorkItem> = {}): WorkItem => ({
  workItemId,
  revision: 1,
  objective: `the work of ${workItemId}`,
  state: 'open',
  planStatus: 'ready',
  todoList: [],
  blockedBy: [],
  recheckAt: null,
  resultSummary: null,
  createdAt: 1,
  updatedAt: 1,
  ...more,
});

/** A wait of a work item, or of the agent where none is named. */
export const wait = (kind: WaitKind, workItemId: string | null = null, more: Partial<ActiveWait> = {}): ActiveWait => ({
  waitId: `wait-${kind}-${workItemId ?? 'agent'}`,
  kind,
  workItemId,
  resource: null,
  reason: `waits for ${kind}`,
  recheckAt: null,
  deadline: 1_000,
  createdAt: 1,
  ...more,
});

/** What an agent has, and which of its items is the current one. */
export interface Has {
  readonly items?: readonly WorkItem[];
  readonly waits?: readonly ActiveWait[];
  readonly currentId?: string | null;
}

const ofItems = ({ items = [], waits = [], currentId = null }: Has): readonly ScheduledWorkItem[] =>
  scheduled(items, waits, currentId);

/** Facts of an agent that rests. */
export const postureFacts = (has: Has, more: Partial<PostureFacts> = {}): PostureFacts => ({
  status: 'asleep',
  activeAgentTurnId: null,
  queuedInput: 0,
  workItems: ofItems(has),
  waits: has.waits ?? [],
  ...more,
});

/** Facts of an agent whose last turn succeeded. */
export const closureFacts = (has: Has, more: Partial<ClosureFacts> = {}): ClosureFacts => ({
  status: 'awake_running',
  runtimeError: null,
  lastEnd: { agentTurnId: 'turn-1', status: 'success', errorCode: null },
  workItems: ofItems(has),
  waits: has.waits ?? [],
  openTasks: 0,
  ...more,
});
