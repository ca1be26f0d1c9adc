/** Lists of what an agent has between its turns, for readers. */
import { type RawBuilder, type SqlBool, sql } from 'kysely';
import type { ActiveTimer } from '../../../workflows/agent-state/timers.ts';
import { type ScheduledWorkItem, scheduled } from '../../../workflows/agent-state/work-items.ts';
import type { WaitView, WorkPage } from '../../../workflows/contract/agent-work.ts';
import { type Reader, read, type StoreContext, write } from '../context.ts';
import type { WaitRow } from '../schema/agent-rows.ts';
import { constant } from '../schema/rows.ts';
import { lockHead } from '../turns/head.ts';
import { openWork, selectActiveTimers, timerOf, workItemOf } from './work.ts';

const PAGE = 100;

/** Restricts a list that is ordered by age and id to what stands behind the entry with that id. */
export const behind = (table: 'work_items' | 'waits' | 'triggers', id: string, after: string): RawBuilder<SqlBool> =>
  sql<SqlBool>`(created_at, ${sql.ref(id)}) > (select created_at, ${sql.ref(id)} from ${sql.table(table)} where ${sql.ref(id)} = ${after})`;

/** Lists work items of an agent, the oldest first. */
export const listWorkItems = (
  ctx: StoreContext,
  agentId: string,
  { open = false, after, limit = PAGE }: WorkPage = {},
): Promise<readonly ScheduledWorkItem[]> =>
  read(ctx, async (reader) => {
    const { db } = reader;
    let query = db.selectFrom('work_items').selectAll().where('agent_id', '=', agentId);
    if (open) query = query.where('state', '=', constant('open'));
    if (after !== undefined) query = query.where(behind('work_items', 'work_item_id', after));
    const rows = await query.orderBy('created_at').orderBy('work_item_id').limit(limit).execute();
    const states = await openStates(reader, agentId);
    return rows.map((row) => {
      const item = workItemOf(row);
      return states.get(item.workItemId) ?? { ...item, schedulingState: 'completed', current: false, waitId: null };
    });
  });

/** The open items with what follows from the others, by their ids. */
async function openStates(reader: Reader, agentId: string): Promise<ReadonlyMap<string, ScheduledWorkItem>> {
  const head = await reader.db
    .selectFrom('agent_state_head')
    .select(['agent_id', 'current_work_item_id'])
    .where('agent_id', '=', agentId)
    .executeTakeFirst();
  if (!head) return new Map();
  const { items, waits, currentId } = await openWork(reader, head);
  return new Map(scheduled(items, waits, currentId).map((item) => [item.workItemId, item]));
}

/** Lists waits of an agent, the oldest first. */
export const listWaits = (
  ctx: StoreContext,
  agentId: string,
  { open = false, after, limit = PAGE }: WorkPage = {},
): Promise<readonly WaitView[]> =>
  read(ctx, async ({ db }) => {
    let query = db.selectFrom('waits').selectAll().where('agent_id', '=', agentId);
    if (open) query = query.where('status', '=', constant('active'));
    if (after !== undefined) query = query.where(behind('waits', 'wait_id', after));
    const rows = await query.orderBy('created_at').orderBy('wait_id').limit(limit).execute();
    return rows.map(waitView);
  });

/** A wait as readers see it. */
export const waitView = (row: WaitRow): WaitView => ({
  waitId: row.wait_id,
  kind: row.kind,
  workItemId: row.work_item_id,
  resource: row.resource,
  reason: row.reason,
  status: row.status,
  recheckAt: row.recheck_at,
  deadline: row.deadline,
  agentTurnId: row.agent_turn_id,
  createdAt: row.created_at,
  endedAt: row.ended_at,
  endedBy: row.ended_by,
});

/** Lists the timers of an agent that will fire, the oldest first. */
export const listTimers = (ctx: StoreContext, agentId: string): Promise<readonly ActiveTimer[]> =>
  read(ctx, async ({ db }) => (await selectActiveTimers(db, agentId).execute()).flatMap(timerOf));

/** Cancels a timer that will fire. */
export const cancelTimer = (ctx: StoreContext, agentId: string, timerId: string): Promise<boolean> =>
  write(ctx, agentId, async (tx) => {
    const { db, now } = tx;
    await lockHead(tx, agentId);
    const row = await db
      .updateTable('timers')
      .set({ next_at: null, due_at: null, cancelled_at: now })
      .where('timer_id', '=', timerId)
      .where('agent_id', '=', agentId)
      .where('next_at', 'is not', null)
      .returning('timer_id')
      .executeTakeFirst();
    return row !== undefined;
  });
