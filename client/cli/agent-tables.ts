/** What an agent has between its turns, as rows of tables. */
import type { ActiveTimer } from '../../workflows/agent-state/timers.ts';
import type { ScheduledWorkItem } from '../../workflows/agent-state/work-items.ts';
import type { ChildSummary } from '../../workflows/contract/agent-summary.ts';
import type { TriggerView, WaitView } from '../../workflows/contract/agent-work.ts';
import { duration, shortened, time } from './format.ts';

const REASON_CHARACTERS = 80;

type Rows = readonly (readonly string[])[];

const timeOr = (at: number | null): string => (at === null ? '-' : time(at));

/** Work items with what each waits for. */
export const workItemRows = (items: readonly ScheduledWorkItem[]): Rows => [
  ['WORK ITEM', 'STATE', 'PLAN', 'TODO', 'REVISION', 'RECHECK', 'OBJECTIVE'],
  ...items.map((item) => [
    item.workItemId,
    `${item.schedulingState}${item.current ? ', current' : ''}`,
    item.planStatus,
    `${item.todoList.filter(({ state }) => state === 'completed').length}/${item.todoList.length}`,
    String(item.revision),
    timeOr(item.recheckAt),
    shortened(item.objective, REASON_CHARACTERS),
  ]),
];

/** Waits with their deadlines. */
export const waitRows = (waits: readonly WaitView[]): Rows => [
  ['WAIT', 'FOR', 'STATUS', 'UNTIL', 'RECHECK', 'WORK ITEM', 'WHY'],
  ...waits.map((wait) => [
    wait.waitId,
    wait.resource === null ? wait.kind : `${wait.kind} ${wait.resource}`,
    wait.endedBy === null ? wait.status : `${wait.status} by ${wait.endedBy}`,
    time(wait.deadline),
    timeOr(wait.recheckAt),
    wait.workItemId ?? '-',
    shortened(wait.reason, REASON_CHARACTERS),
  ]),
];

/** Timers with the time at which each fires next. */
export const timerRows = (timers: readonly ActiveTimer[]): Rows => [
  ['TIMER', 'NEXT', 'EVERY', 'WHY'],
  ...timers.map(({ timerId, nextAt, everyMs, reason }) => [
    timerId,
    time(nextAt),
    everyMs === null ? 'once' : duration(everyMs),
    shortened(reason, REASON_CHARACTERS),
  ]),
];

/** Triggers, which tell nobody their tokens. */
export const triggerRows = (triggers: readonly TriggerView[]): Rows => [
  ['TRIGGER', 'HITS', 'LAST HIT', 'MADE', 'REVOKED', 'NAME'],
  ...triggers.map(({ triggerId, name, hits, lastHitAt, createdAt, revokedAt }) => [
    triggerId,
    String(hits),
    timeOr(lastHitAt),
    time(createdAt),
    timeOr(revokedAt),
    name,
  ]),
];

/** Delegated turns, and the agents that do them. */
export const childRows = (children: readonly ChildSummary[]): Rows => [
  ['CHILD', 'STATUS', 'TURN', 'TURN IS'],
  ...children.map(({ agentId, agentStatus, agentTurnId, status }) => [agentId, agentStatus, agentTurnId, status]),
];
