/** Pieces of work that outlive a turn, and whether one can be gone on with (A7). */
import type { ActiveWait, WaitKind } from './waits.ts';

/** What is known of the plan of a work item: `needs_input` asks a person. */
export const PLAN_STATUSES = ['draft', 'ready', 'needs_input'] as const;
/** How far the plan of a work item is. */
export type PlanStatus = (typeof PLAN_STATUSES)[number];

/** One line of a work item's list. */
export interface Todo {
  readonly text: string;
  readonly state: 'pending' | 'in_progress' | 'completed';
}

/** A piece of work of an agent. Times are in epoch ms by the store's clock. */
export interface WorkItem {
  readonly workItemId: string;
  /** Rises with every change, from 1. */
  readonly revision: number;
  readonly objective: string;
  readonly state: 'open' | 'completed';
  readonly planStatus: PlanStatus;
  readonly todoList: readonly Todo[];
  /** Ids of work items of the same agent that must be completed first. */
  readonly blockedBy: readonly string[];
  /** When the agent is to come back to it although nothing else happened; null for never. */
  readonly recheckAt: number | null;
  /** What came of it; null while it is open, and where nothing was said. */
  readonly resultSummary: string | null;
  readonly createdAt: number;
  readonly updatedAt: number;
}

/** Whether a work item can be gone on with, and what it waits for otherwise. */
export type WorkItemSchedulingState =
  | 'runnable'
  | 'waiting_operator'
  | 'waiting_task'
  | 'waiting_external'
  | 'waiting_timer'
  | 'waiting_system'
  | 'blocked'
  | 'completed';

/** A work item and what follows from the others. */
export interface ScheduledWorkItem extends WorkItem {
  readonly schedulingState: WorkItemSchedulingState;
  /** Whether it is the one that the agent has picked. */
  readonly current: boolean;
  /** The wait by which it waits; null when it waits for none. */
  readonly waitId: string | null;
}

/** The kinds of waits, those first that say most about an item that has several. */
const WAIT_ORDER: readonly WaitKind[] = ['task', 'operator', 'timer', 'external', 'system'];

/**
 * The items in the order in which they are gone on with, each with its state. Of what holds an item that says most which somebody else can end: a
 * wait for a turn, a person or something outside, then a plan that needs a person; a time, or an item that blocks, comes after them.
 */
export function scheduled(
  items: readonly WorkItem[],
  waits: readonly ActiveWait[],
  currentId: string | null,
): readonly ScheduledWorkItem[] {
  const open = new Set(items.filter(({ state }) => state === 'open').map(({ workItemId }) => workItemId));
  return [...items].sort(inOrder).map((item) => {
    const own = waits.filter(({ workItemId }) => workItemId === item.workItemId);
    const wait = WAIT_ORDER.flatMap((kind) => own.filter((each) => each.kind === kind))[0] ?? null;
    const isBlocked = item.blockedBy.some((id) => open.has(id));
    const schedulingState = stateOf(item, wait, isBlocked);
    return {
      ...item,
      schedulingState,
      current: item.workItemId === currentId,
      waitId: wait && schedulingState === `waiting_${wait.kind}` ? wait.waitId : null,
    };
  });
}

function stateOf(item: WorkItem, wait: ActiveWait | null, isBlocked: boolean): WorkItemSchedulingState {
  if (item.state === 'completed') return 'completed';
  if (wait && !BY_ITSELF.has(wait.kind)) return `waiting_${wait.kind}`;
  if (item.planStatus === 'needs_input') return 'waiting_operator';
  if (wait) return `waiting_${wait.kind}`;
  return isBlocked ? 'blocked' : 'runnable';
}

/** Waits that end without anybody. */
const BY_ITSELF: ReadonlySet<WaitKind> = new Set(['timer', 'system']);

/** The oldest first. */
const inOrder = (a: WorkItem, b: WorkItem): number =>
  a.createdAt - b.createdAt || (a.workItemId < b.workItemId ? -1 : 1);

/** The items that an agent can go on with: the current one first, then the oldest. */
export function runnableItems(items: readonly ScheduledWorkItem[]): readonly ScheduledWorkItem[] {
  const runnable = items.filter(({ schedulingState }) => schedulingState === 'runnable');
  return [...runnable.filter(({ current }) => current), ...runnable.filter(({ current }) => !current)];
}

/** The item that an agent goes on with first; undefined when none can be gone on with. */
export const runnableItem = (items: readonly ScheduledWorkItem[]): ScheduledWorkItem | undefined =>
  runnableItems(items)[0];

/** The ids of a circle that the item would close if it were blocked by those; null when there is none. */
export function circleOf(
  items: readonly Pick<WorkItem, 'workItemId' | 'blockedBy'>[],
  itemId: string,
  blockedBy: readonly string[],
): readonly string[] | null {
  const blockers = new Map(items.map((item) => [item.workItemId, item.blockedBy]));
  const seen = new Set<string>();
  const stack: (readonly string[])[] = blockedBy.map((id) => [itemId, id]);
  for (let path = stack.pop(); path; path = stack.pop()) {
    const last = path.at(-1) ?? '';
    if (last === itemId) return path;
    if (seen.has(last)) continue;
    seen.add(last);
    for (const next of blockers.get(last) ?? []) stack.push([...path, next]);
  }
  return null;
}
