/** Times that have come for agents: deadlines and rechecks of waits, rechecks of work items, timers (A7–A9). */
import { sql } from 'kysely';
import { nextFiring } from '../../../workflows/agent-state/timers.ts';
import { type ActiveWait, DEFAULT_DEADLINE_MS } from '../../../workflows/agent-state/waits.ts';
import type { Came, DueWake } from '../../../workflows/contract/agent-work.ts';
import type { Handover } from '../../../workflows/contract/lease.ts';
import { aheadBy, MOST_SKEW_MS } from '../ahead.ts';
import { read, type StoreContext, type Tx, write } from '../context.ts';
import type { TimerRow, WaitRow } from '../schema/agent-rows.ts';
import { constant, type Db } from '../schema/rows.ts';
import { lockHead } from '../turns/head.ts';
import { taskEnd } from './task-ends.ts';
import { comes } from './wakes.ts';
import { endWaits, TASK_CHECK_MS, waitDueAt, waitOf } from './work.ts';

/** The tables with times that come, by what they are of. */
const TABLES = {
  wait: { table: 'waits', id: 'wait_id' },
  work_item: { table: 'work_items', id: 'work_item_id' },
  timer: { table: 'timers', id: 'timer_id' },
} as const satisfies Record<DueWake['of'], unknown>;

/**
 * Reads the times that have come, those first that have been due for longest; behind them those that were counted by a clock which was
 * ahead, and are to be counted from now.
 */
export const dueWakes = (ctx: StoreContext, limit: number): Promise<readonly DueWake[]> =>
  read(ctx, async ({ db }) => {
    const now = ctx.now();
    const due: DueWake[] = [];
    for (const kind of ['wait', 'work_item', 'timer'] as const) {
      const times = timesOf(db, kind).limit(limit);
      const come = await times.where('due_at', '<=', now).orderBy('due_at').execute();
      const ahead = await times
        .where('set_at', '>', now + MOST_SKEW_MS)
        .orderBy('set_at')
        .execute();
      for (const { agent_id: agentId, due_at, id } of [...come, ...ahead.filter((row) => (row.due_at ?? 0) > now)])
        due.push({ agentId, of: kind, id, dueAt: due_at ?? now });
    }
    return due.sort((a, b) => a.dueAt - b.dueAt).slice(0, limit);
  });

/** A query for the times of a kind that come at all. */
function timesOf(db: Db, of: DueWake['of']) {
  const { table, id } = TABLES[of];
  return db
    .selectFrom(table as 'waits')
    .select(['agent_id', 'due_at', sql.ref<string>(id).as('id')])
    .where('due_at', 'is not', null);
}

/** Makes a time that could not be acted on due again, unless it has been acted on. */
export async function putOffWake(ctx: StoreContext, { agentId, of, id, dueAt }: DueWake, until: number): Promise<void> {
  const { table, id: column } = TABLES[of];
  await write(ctx, agentId, async ({ db, now }) => {
    await db
      .updateTable(table as 'waits')
      .set({ due_at: until, set_at: now })
      .where(column as 'wait_id', '=', id)
      .where('due_at', '=', dueAt)
      .execute();
  });
}

/** Acts on a time that has come; null when it is not due any more. */
export const fireWake = (ctx: StoreContext, due: DueWake): Promise<Handover | null> =>
  write(ctx, due.agentId, async (tx) => {
    const head = await lockHead(tx, due.agentId);
    const came = await FIRE[due.of](tx, due);
    return came && (await comes(tx, head, came)).handover;
  });

const FIRE: Readonly<Record<DueWake['of'], (tx: Tx, due: DueWake) => Promise<Came | null>>> = {
  wait: fireWait,
  work_item: fireRecheck,
  timer: fireTimer,
};

async function fireRecheck({ db, now }: Tx, { id, dueAt }: DueWake): Promise<Came | null> {
  const item = await db
    .selectFrom('work_items')
    .select(['objective', 'plan_status', 'recheck_at', 'set_at'])
    .where('work_item_id', '=', id)
    .where('due_at', '=', dueAt)
    .executeTakeFirst();
  if (!item) return null;
  const checkAt = (item.recheck_at ?? now) - aheadBy(item.set_at, now);
  const isEarly = checkAt > now;
  // One that needs a person is come back to until it does not.
  const again = item.plan_status === 'needs_input' ? now + DEFAULT_DEADLINE_MS : null;
  const next = isEarly ? checkAt : again;
  const change = { due_at: next, recheck_at: next, set_at: now };
  await db.updateTable('work_items').set(change).where('work_item_id', '=', id).execute();
  return isEarly ? null : timeHasCome(id, `it is time to check work item ${id}: ${item.objective}`);
}

async function fireTimer({ db, now }: Tx, { id, dueAt }: DueWake): Promise<Came | null> {
  const timer = await db
    .selectFrom('timers')
    .selectAll()
    .where('timer_id', '=', id)
    .where('due_at', '=', dueAt)
    .executeTakeFirst();
  if (!timer || timer.next_at === null) return null;
  const nextAt = countedFiring({ ...timer, next_at: timer.next_at }, now);
  const isEarly = nextAt > now;
  const next = isEarly ? nextAt : nextFiring({ nextAt, everyMs: timer.every_ms }, now);
  const change = { next_at: next, due_at: next, set_at: now, fired: timer.fired + (isEarly ? 0 : 1) };
  await db.updateTable('timers').set(change).where('timer_id', '=', id).execute();
  if (isEarly) return null;
  const { due: _, ...came } = timeHasCome(id, `timer ${id} has fired: ${timer.reason}`);
  return came;
}

/** When a timer fires: where a clock was ahead when it was set, as long after now; where one was when it fired, next on its grid. */
function countedFiring(
  { next_at, every_ms, set_at, fired }: TimerRow & { readonly next_at: number },
  now: number,
): number {
  const ahead = aheadBy(set_at, now);
  if (ahead === 0 || every_ms === null || fired === 0) return next_at - ahead;
  return next_at - Math.floor((next_at - now) / every_ms) * every_ms;
}

async function fireWait(tx: Tx, { id, dueAt }: DueWake): Promise<Came | null> {
  const row = await tx.db
    .selectFrom('waits')
    .selectAll()
    .where('wait_id', '=', id)
    .where('status', '=', constant('active'))
    .where('due_at', '=', dueAt)
    .executeTakeFirst();
  if (!row) return null;
  const wait = countedWait(row, tx.now);
  const ended = await taskEnd(tx, row.agent_id, row);
  if (ended) {
    // It is over when the turn begins that it makes, which may be long after its deadline: until then it is not due in every pass.
    await putOff(tx, row, wait, tx.now + TASK_CHECK_MS.most);
    return ended;
  }
  if (wait.deadline <= tx.now) {
    await endWaits(tx, row.agent_id, [wait], 'expired', 'deadline');
    return timeHasCome(id, `the deadline has passed of what you waited for: ${row.reason}`);
  }
  const isRecheck = wait.recheckAt !== null && wait.recheckAt <= tx.now;
  await putOff(tx, row, isRecheck ? { ...wait, recheckAt: null } : wait);
  return isRecheck ? timeHasCome(id, `it is time to check what you wait for: ${row.reason}`) : null;
}

const timeHasCome = (source: string, reason: string): Came => ({
  kind: 'timer_fire',
  source,
  reason,
  count: 1,
  cardId: null,
  due: true,
});

/** Gives a wait another time, unless the end of the turn that it is for has given it one meanwhile. */
function putOff({ db, now }: Tx, { wait_id, due_at }: WaitRow, wait: ActiveWait, dueAt = waitDueAt(wait, now)) {
  const { recheckAt, deadline, createdAt } = wait;
  const counted = { recheck_at: recheckAt, deadline, created_at: createdAt };
  const change = { ...counted, due_at: dueAt, set_at: now };
  return db.updateTable('waits').set(change).where('wait_id', '=', wait_id).where('due_at', '=', due_at).execute();
}

/** A wait, with its times counted from now where a clock was ahead when it began. */
function countedWait(row: WaitRow, now: number): ActiveWait {
  const wait = waitOf(row);
  const ahead = aheadBy(wait.createdAt, now);
  const { recheckAt, deadline, createdAt } = wait;
  return {
    ...wait,
    recheckAt: recheckAt === null ? null : recheckAt - ahead,
    deadline: deadline - ahead,
    createdAt: createdAt - ahead,
  };
}
