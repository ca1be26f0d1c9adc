/**
 * What a turn changes of its agent's work and waits (A7, A8). An effect counts for the turn itself as soon as it has its call, and for all
 * others with the commit of the turn: both apply it by the one function here.
 */
import { CodedError } from '../protocol/failures.ts';
import { type ActiveTimer, MOST_TIMERS, SHORTEST_EVERY_MS } from './timers.ts';
import { type ActiveTrigger, MOST_TRIGGERS } from './triggers.ts';
import { type ActiveWait, DEFAULT_DEADLINE_MS, type WaitKind } from './waits.ts';
import { circleOf, type PlanStatus, type Todo, type WorkItem } from './work-items.ts';

/** What may be said of a work item when it is made or changed; what is left out stays as it is. */
export interface WorkItemChange {
  readonly objective?: string;
  readonly planStatus?: PlanStatus;
  readonly todoList?: readonly Todo[];
  readonly blockedBy?: readonly string[];
  /** In how many ms the agent is to come back to it by itself; null for never. */
  readonly recheckAfterMs?: number | null;
}

/** A change of an agent's work. */
export type WorkEffect =
  | { readonly type: 'create'; readonly workItemId: string; readonly change: WorkItemChange & { objective: string } }
  | { readonly type: 'update'; readonly workItemId: string; readonly change: WorkItemChange }
  | { readonly type: 'pick'; readonly workItemId: string }
  | { readonly type: 'complete'; readonly workItemId: string; readonly resultSummary: string | null }
  | {
      readonly type: 'wait';
      readonly waitId: string;
      readonly kind: WaitKind;
      /** The work item that waits; null when the agent does. */
      readonly workItemId: string | null;
      readonly resource: string | null;
      readonly reason: string;
      readonly recheckAfterMs: number | null;
      readonly deadlineMs: number | null;
    }
  | {
      readonly type: 'set_timer';
      readonly timerId: string;
      readonly reason: string;
      readonly afterMs: number;
      /** Null for a timer that fires once. */
      readonly everyMs: number | null;
    }
  | { readonly type: 'cancel_timer'; readonly timerId: string }
  | {
      readonly type: 'create_trigger';
      readonly triggerId: string;
      readonly name: string;
      /** By which its token is known. */
      readonly tokenHash: string;
    };

/** An agent's open work, what it waits for, and what may wake it. */
export interface AgentWork {
  /** All that are open, and those that were completed by what has been applied. */
  readonly items: readonly WorkItem[];
  readonly waits: readonly ActiveWait[];
  readonly timers: readonly ActiveTimer[];
  readonly triggers: readonly ActiveTrigger[];
  /** The item that the agent has picked; null for none. */
  readonly currentId: string | null;
}

/** The work of an agent that has none, and for which nothing was ever set up. */
export const NO_WORK: AgentWork = { items: [], waits: [], timers: [], triggers: [], currentId: null };

/** The most work items that an agent may have open. */
export const MOST_OPEN_WORK_ITEMS = 1_000;

/** The work after an effect at that time, epoch ms. Errors: `invalid_request` for an effect that does not fit, with what would. */
export function withEffect(work: AgentWork, effect: WorkEffect, nowMs: number): AgentWork {
  switch (effect.type) {
    case 'create':
      return created(work, effect, nowMs);
    case 'update':
      return updated(work, effect, nowMs);
    case 'pick':
      openItem(work, effect.workItemId);
      return { ...work, currentId: effect.workItemId };
    case 'complete': {
      const item = openItem(work, effect.workItemId);
      const done = { ...item, state: 'completed', resultSummary: effect.resultSummary, recheckAt: null } as const;
      return {
        ...work,
        items: replaced(work.items, touched(done, nowMs)),
        waits: work.waits.filter(({ workItemId }) => workItemId !== item.workItemId),
        currentId: work.currentId === item.workItemId ? null : work.currentId,
      };
    }
    case 'wait':
      return waiting(work, effect, nowMs);
    case 'set_timer':
      return withTimer(work, effect, nowMs);
    case 'cancel_timer': {
      openTimer(work, effect.timerId);
      return { ...work, timers: work.timers.filter(({ timerId }) => timerId !== effect.timerId) };
    }
    case 'create_trigger': {
      if (work.triggers.length >= MOST_TRIGGERS)
        throw refused(`there are ${MOST_TRIGGERS} triggers, which is the most: use one that is there`);
      const { triggerId, name } = effect;
      return { ...work, triggers: [...work.triggers, { triggerId, name }] };
    }
  }
}

function withTimer(work: AgentWork, effect: Extract<WorkEffect, { type: 'set_timer' }>, nowMs: number): AgentWork {
  const { timerId, reason, afterMs, everyMs } = effect;
  if (work.timers.length >= MOST_TIMERS)
    throw refused(`there are ${MOST_TIMERS} timers, which is the most: cancel some of them first`);
  if (everyMs !== null && everyMs < SHORTEST_EVERY_MS)
    throw refused(`a timer fires at most every ${SHORTEST_EVERY_MS / 1_000} s`);
  const timer: ActiveTimer = { timerId, reason, nextAt: nowMs + afterMs, everyMs, createdAt: nowMs };
  return { ...work, timers: [...work.timers, timer] };
}

function openTimer({ timers }: AgentWork, id: string): ActiveTimer {
  const timer = timers.find(({ timerId }) => timerId === id);
  if (timer) return timer;
  throw refused(
    `there is no timer ${id.slice(0, SHOWN_CHARS)}; there are: ${shownIds(timers.map((each) => each.timerId))}`,
  );
}

const shownIds = (ids: readonly string[]): string => ids.slice(0, SHOWN_IDS).join(', ') || 'none';

function created(
  work: AgentWork,
  { workItemId, change }: Extract<WorkEffect, { type: 'create' }>,
  nowMs: number,
): AgentWork {
  const open = work.items.filter(({ state }) => state === 'open').length;
  if (open >= MOST_OPEN_WORK_ITEMS)
    throw refused(`there are ${open} open work items, which is the most: complete some of them first`);
  const { objective, planStatus = 'ready', todoList = [], blockedBy = [], recheckAfterMs = null } = change;
  checkBlockers(work, workItemId, blockedBy);
  const recheckAt = recheckOf(planStatus, recheckAfterMs === null ? null : nowMs + recheckAfterMs, nowMs);
  // Those that are made together keep their order.
  const createdAt = work.items.reduce((last, each) => Math.max(last, each.createdAt + 1), nowMs);
  const item: WorkItem = {
    ...{ workItemId, revision: 1, objective, state: 'open', planStatus, todoList, blockedBy, recheckAt },
    ...{ resultSummary: null, createdAt, updatedAt: nowMs },
  };
  return { ...work, items: [...work.items, item] };
}

/** When an item is come back to: one that needs a person is not forgotten. */
const recheckOf = (planStatus: PlanStatus, recheckAt: number | null, nowMs: number): number | null =>
  planStatus === 'needs_input' && recheckAt === null ? nowMs + DEFAULT_DEADLINE_MS : recheckAt;

function updated(
  work: AgentWork,
  { workItemId, change }: Extract<WorkEffect, { type: 'update' }>,
  nowMs: number,
): AgentWork {
  const item = openItem(work, workItemId);
  const { recheckAfterMs, blockedBy, ...rest } = change;
  if (blockedBy) checkBlockers(work, workItemId, blockedBy);
  const given = recheckAfterMs === null ? null : nowMs + (recheckAfterMs ?? 0);
  const recheck = recheckAfterMs === undefined ? item.recheckAt : given;
  const after: WorkItem = {
    ...item,
    ...rest,
    ...(blockedBy ? { blockedBy } : {}),
    recheckAt: recheckOf(rest.planStatus ?? item.planStatus, recheck, nowMs),
  };
  return { ...work, items: replaced(work.items, touched(after, nowMs)) };
}

/** A wait takes the place of those that the same work item, or the agent itself, had before. */
function waiting(work: AgentWork, effect: Extract<WorkEffect, { type: 'wait' }>, nowMs: number): AgentWork {
  const { waitId, kind, workItemId, resource, reason, recheckAfterMs, deadlineMs } = effect;
  if (workItemId !== null) openItem(work, workItemId);
  if (resource !== null) checkResource(work, kind, resource);
  const recheckAt = recheckAfterMs === null ? null : nowMs + recheckAfterMs;
  const deadline = nowMs + (deadlineMs ?? Math.max(DEFAULT_DEADLINE_MS, recheckAfterMs ?? 0));
  const wait: ActiveWait = { waitId, kind, workItemId, resource, reason, recheckAt, deadline, createdAt: nowMs };
  return { ...work, waits: [...work.waits.filter((each) => each.workItemId !== workItemId), wait] };
}

/** What is waited for by its id must be there; whether a turn is, only the store can say. */
function checkResource(work: AgentWork, kind: WaitKind, resource: string): void {
  if (kind === 'timer') openTimer(work, resource);
  if (kind !== 'external' || work.triggers.some(({ triggerId }) => triggerId === resource)) return;
  const ids = shownIds(work.triggers.map(({ triggerId }) => triggerId));
  throw refused(`there is no trigger ${resource.slice(0, SHOWN_CHARS)}; there are: ${ids}`);
}

function openItem({ items }: AgentWork, id: string): WorkItem {
  const item = items.find(({ workItemId }) => workItemId === id);
  if (item?.state === 'open') return item;
  const open = items.filter(({ state }) => state === 'open').map(({ workItemId }) => workItemId);
  throw refused(`there is no open work item ${id.slice(0, SHOWN_CHARS)}; open are: ${shownIds(open)}`);
}

/** Ids of open items, and characters of an unknown one, that an error repeats. */
const SHOWN_IDS = 20;
const SHOWN_CHARS = 100;

function checkBlockers(work: AgentWork, id: string, blockedBy: readonly string[]): void {
  for (const blocker of blockedBy) if (blocker !== id) openItem(work, blocker);
  const circle = circleOf(work.items, id, blockedBy);
  if (circle) throw refused(`${circle.join(' would wait for ')}: leave one of them out of blocked_by`);
}

const replaced = (items: readonly WorkItem[], item: WorkItem): readonly WorkItem[] =>
  items.map((each) => (each.workItemId === item.workItemId ? item : each));

const touched = (item: WorkItem, nowMs: number): WorkItem => ({
  ...item,
  revision: item.revision + 1,
  updatedAt: nowMs,
});

const refused = (message: string): CodedError => new CodedError('invalid_request', message);
