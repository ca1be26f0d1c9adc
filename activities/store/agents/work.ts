/** The open work and the waits of an agent: reading them, and writing what has changed of them (A7, A8). */
import { sql } from 'kysely';
import type { AgentWork } from '../../../workflows/agent-state/effects.ts';
import type { ActiveTimer } from '../../../workflows/agent-state/timers.ts';
import type { ActiveWait, WaitStatus } from '../../../workflows/agent-state/waits.ts';
import type { WorkItem } from '../../../workflows/agent-state/work-items.ts';
import type { AgentLifecycle } from '../../../workflows/protocol/turn.ts';
import { type Reader, type Tx, together } from '../context.ts';
import { appendEvent } from '../log/events.ts';
import { insertRows } from '../prepared.ts';
import type { TimerRow, WaitRow, WorkItemRow } from '../schema/agent-rows.ts';
import { decodedOr, encoded } from '../schema/json.ts';
import { constant, type Db, type HeadRow } from '../schema/rows.ts';

/** What is read of an agent's head for its work. */
interface WorkHead {
  readonly agent_id: string;
  readonly current_work_item_id: string | null;
}

/** What an agent has open, the oldest first. */
export async function openWork({ db }: Reader, head: WorkHead): Promise<AgentWork> {
  const { agent_id: agentId, current_work_item_id: currentId } = head;
  const [items, waits, timers, triggers] = await together(
    db,
    selectOpenItems(db, agentId),
    selectActiveWaits(db, agentId),
    selectActiveTimers(db, agentId),
    selectActiveTriggers(db, agentId),
  );
  return {
    items: items.map(workItemOf),
    waits: waits.map(waitOf),
    timers: timers.flatMap(timerOf),
    triggers: triggers.map(({ trigger_id: triggerId, name }) => ({ triggerId, name })),
    currentId,
  };
}

/** Of an agent's open work, what its posture follows from. */
export type WorkOf = Pick<AgentWork, 'items' | 'waits'>;

/** The open items and waits of each of these few agents, the oldest first. */
export async function openWorkOf(db: Db, agentIds: readonly string[]): Promise<ReadonlyMap<string, WorkOf>> {
  const found = new Map<string, WorkOf>();
  for (const agentId of agentIds) {
    const [items, waits] = await together(db, selectOpenItems(db, agentId), selectActiveWaits(db, agentId));
    found.set(agentId, { items: items.map(workItemOf), waits: waits.map(waitOf) });
  }
  return found;
}

/** The open items and waits of a page of agents, the oldest first. They come in the order of their ids, and are read from the first to the last one. */
export async function openWorkBetween(
  db: Db,
  agents: readonly Pick<HeadRow, 'agent_id'>[],
): Promise<ReadonlyMap<string, WorkOf>> {
  const [first, last] = [agents[0]?.agent_id, agents.at(-1)?.agent_id];
  if (first === undefined || last === undefined) return new Map();
  const found = new Map(
    agents.map(({ agent_id }) => [agent_id, { items: [] as WorkItem[], waits: [] as ActiveWait[] }]),
  );
  const [items, waits] = await together(
    db,
    db
      .selectFrom('work_items')
      .selectAll()
      .where('agent_id', '>=', first)
      .where('agent_id', '<=', last)
      .where('state', '=', constant('open'))
      .orderBy('agent_id')
      .orderBy('created_at')
      .orderBy('work_item_id'),
    db
      .selectFrom('waits')
      .selectAll()
      .where('agent_id', '>=', first)
      .where('agent_id', '<=', last)
      .where('status', '=', constant('active'))
      .orderBy('agent_id')
      .orderBy('created_at')
      .orderBy('wait_id'),
  );
  for (const row of items) found.get(row.agent_id)?.items.push(workItemOf(row));
  for (const row of waits) found.get(row.agent_id)?.waits.push(waitOf(row));
  return found;
}

const selectOpenItems = (db: Db, agentId: string) =>
  db
    .selectFrom('work_items')
    .selectAll()
    .where('agent_id', '=', agentId)
    .where('state', '=', constant('open'))
    .orderBy('created_at')
    .orderBy('work_item_id');

/** A query for the active waits of an agent. */
export const selectActiveWaits = (db: Db, agentId: string) =>
  db
    .selectFrom('waits')
    .selectAll()
    .where('agent_id', '=', agentId)
    .where('status', '=', constant('active'))
    .orderBy('created_at')
    .orderBy('wait_id');

/** A query for the timers of an agent that will fire. */
export const selectActiveTimers = (db: Db, agentId: string) =>
  db
    .selectFrom('timers')
    .selectAll()
    .where('agent_id', '=', agentId)
    .where('next_at', 'is not', null)
    .orderBy('created_at')
    .orderBy('timer_id');

const selectActiveTriggers = (db: Db, agentId: string) =>
  db
    .selectFrom('triggers')
    .select(['trigger_id', 'name'])
    .where('agent_id', '=', agentId)
    .where('revoked_at', 'is', null)
    .orderBy('created_at')
    .orderBy('trigger_id');

/** A timer as the rows have it; none for one that will not fire. */
export const timerOf = ({ timer_id, reason, next_at, every_ms, created_at }: TimerRow): ActiveTimer[] =>
  next_at === null ? [] : [{ timerId: timer_id, reason, nextAt: next_at, everyMs: every_ms, createdAt: created_at }];

/** A work item as the rows have it. */
export const workItemOf = (row: WorkItemRow): WorkItem => ({
  workItemId: row.work_item_id,
  revision: row.revision,
  objective: row.objective,
  state: row.state,
  planStatus: row.plan_status,
  todoList: decodedOr(row.todo_list, []),
  blockedBy: decodedOr(row.blocked_by, []),
  recheckAt: row.recheck_at,
  resultSummary: row.result_summary,
  createdAt: row.created_at,
  updatedAt: row.updated_at,
});

/** A wait as the rows have it. */
export const waitOf = (row: WaitRow): ActiveWait => ({
  waitId: row.wait_id,
  kind: row.kind,
  workItemId: row.work_item_id,
  resource: row.resource,
  reason: row.reason,
  recheckAt: row.recheck_at,
  deadline: row.deadline,
  createdAt: row.created_at,
});

/** Writes what a turn has changed: new and changed items, new waits and timers, and those that are gone. */
export async function writeWork(
  tx: Tx,
  turn: { readonly agent_id: string; readonly agent_turn_id: string },
  before: AgentWork,
  after: AgentWork,
): Promise<void> {
  const known = new Map(before.items.map((item) => [item.workItemId, item]));
  for (const item of after.items) {
    const was = known.get(item.workItemId);
    if (was === item) continue;
    if (was) await updateItem(tx, item, was);
    else
      await tx.db
        .insertInto('work_items')
        .values(itemRow(turn.agent_id, item, tx.now))
        .execute();
  }
  await writeTimers(tx, turn.agent_id, before, after);
  const kept = new Set(after.waits.map(({ waitId }) => waitId));
  const gone = before.waits.filter(({ waitId }) => !kept.has(waitId));
  await endWaits(tx, turn.agent_id, gone, 'cancelled', turn.agent_turn_id);
  const old = new Set(before.waits.map(({ waitId }) => waitId));
  const added = after.waits.filter(({ waitId }) => !old.has(waitId));
  await insertRows(
    tx.db,
    'waits',
    added.map((wait) => waitRow(turn, wait, tx.now)),
  );
}

async function writeTimers({ db, now }: Tx, agentId: string, before: AgentWork, after: AgentWork): Promise<void> {
  const kept = new Set(after.timers.map(({ timerId }) => timerId));
  for (const { timerId } of before.timers.filter((timer) => !kept.has(timer.timerId))) {
    const change = { next_at: null, due_at: null, cancelled_at: now };
    await db.updateTable('timers').set(change).where('timer_id', '=', timerId).execute();
  }
  const old = new Set(before.timers.map(({ timerId }) => timerId));
  for (const timer of after.timers.filter(({ timerId }) => !old.has(timerId)))
    await db.insertInto('timers').values(timerRow(agentId, timer)).execute();
}

const timerRow = (agentId: string, { timerId, reason, nextAt, everyMs, createdAt }: ActiveTimer): TimerRow => ({
  timer_id: timerId,
  agent_id: agentId,
  reason,
  next_at: nextAt,
  every_ms: everyMs,
  due_at: nextAt,
  set_at: createdAt,
  fired: 0,
  cancelled_at: null,
  created_at: createdAt,
});

const changeable = (item: WorkItem) => ({
  revision: item.revision,
  objective: item.objective,
  state: item.state,
  plan_status: item.planStatus,
  todo_list: encoded(item.todoList),
  blocked_by: encoded(item.blockedBy),
  recheck_at: item.recheckAt,
  due_at: item.recheckAt,
  result_summary: item.resultSummary,
  updated_at: item.updatedAt,
});

const itemRow = (agentId: string, item: WorkItem, now: number): WorkItemRow => ({
  work_item_id: item.workItemId,
  agent_id: agentId,
  ...changeable(item),
  set_at: now,
  continued_revision: 0,
  created_at: item.createdAt,
});

const updateItem = ({ db, now }: Tx, item: WorkItem, was: WorkItem) =>
  db
    .updateTable('work_items')
    .set({ ...changeable(item), ...(item.recheckAt === was.recheckAt ? {} : { set_at: now }) })
    .where('work_item_id', '=', item.workItemId)
    .execute();

/**
 * How soon a wait for a turn is looked at, and how seldom: the end of the turn makes it due, but may have been committed while the wait was. The
 * pause grows with the age of the wait.
 */
export const TASK_CHECK_MS = { least: 2_000, most: 5 * 60_000 };

/** When a wait is due next. */
export function waitDueAt({ kind, recheckAt, deadline, createdAt }: ActiveWait, now: number): number {
  const soonest = Math.min(recheckAt ?? deadline, deadline);
  if (kind !== 'task') return soonest;
  return Math.min(soonest, now + Math.min(TASK_CHECK_MS.most, Math.max(TASK_CHECK_MS.least, now - createdAt)));
}

const waitRow = (
  { agent_id, agent_turn_id }: { readonly agent_id: string; readonly agent_turn_id: string },
  wait: ActiveWait,
  now: number,
): WaitRow => ({
  wait_id: wait.waitId,
  agent_id,
  work_item_id: wait.workItemId,
  kind: wait.kind,
  resource: wait.resource,
  reason: wait.reason,
  status: 'active',
  recheck_at: wait.recheckAt,
  deadline: wait.deadline,
  due_at: waitDueAt(wait, now),
  set_at: now,
  agent_turn_id,
  created_at: wait.createdAt,
  ended_at: null,
  ended_by: null,
});

/** Ends active waits, with an event each. The caller holds the head of their agent. */
export async function endWaits(
  tx: Tx,
  agentId: string,
  waits: readonly ActiveWait[],
  status: Exclude<WaitStatus, 'active'>,
  by: string,
): Promise<void> {
  if (waits.length === 0) return;
  const ids = waits.map(({ waitId }) => waitId);
  await tx.db
    .updateTable('waits')
    .set({ status, due_at: null, ended_at: tx.at, ended_by: by })
    .where((eb) => eb('wait_id', '=', eb.fn.any(eb.val(ids))))
    // Not a constant: the index of all that are active, few as they may be now, is none to find these by.
    .where('status', '=', 'active')
    .execute();
  for (const { waitId, kind } of waits) {
    const payload = { waitId, kind, phase: status, by };
    appendEvent(tx, { agent_id: agentId, agent_turn_id: null }, { type: 'wait', payload });
  }
}

/** Puts the times of an agent aside while it is stopped, and sets them again: they are counted from when they were. */
export async function setDueTimes(tx: Tx, agentId: string, lifecycle: AgentLifecycle): Promise<void> {
  const isStopped = lifecycle === 'stopped';
  const { db } = tx;
  await db
    .updateTable('work_items')
    .set(isStopped ? { due_at: null } : ({ ref }) => ({ due_at: ref('recheck_at') }))
    .where('agent_id', '=', agentId)
    .where('state', '=', constant('open'))
    .execute();
  await db
    .updateTable('timers')
    .set(isStopped ? { due_at: null } : ({ ref }) => ({ due_at: ref('next_at') }))
    .where('agent_id', '=', agentId)
    .where('next_at', 'is not', null)
    .execute();
  // A turn that is waited for may have ended meanwhile.
  const soonest = sql<number>`case when kind = 'task' then ${tx.now} when recheck_at < deadline then recheck_at else deadline end`;
  const counted = sql<number>`case when kind = 'task' then ${tx.now} else set_at end`;
  await db
    .updateTable('waits')
    .set({ due_at: isStopped ? null : soonest, ...(isStopped ? {} : { set_at: counted }) })
    .where('agent_id', '=', agentId)
    .where('status', '=', constant('active'))
    .execute();
}
