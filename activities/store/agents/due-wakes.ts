/** Times that have come for agents: deadlines and rechecks of waits, rechecks of work items, timers (A7–A9). */
import { nextFiring } from '../../../workflows/agent-state/timers.ts';
import { DEFAULT_DEADLINE_MS } from '../../../workflows/agent-state/waits.ts';
import type { Came, DueWake } from '../../../workflows/contract/agent-work.ts';
import type { Handover } from '../../../workflows/contract/lease.ts';
import { read, type StoreContext, type Tx, write } from '../context.ts';
import type { WaitRow } from '../schema/agent-rows.ts';
import { constant } from '../schema/rows.ts';
import { lockHead } from '../turns/head.ts';
import { taskEnd } from './task-ends.ts';
import { comes } from './wakes.ts';
import { endWaits, waitDueAt, waitOf } from './work.ts';

/** The tables with times that come, by what they are of. */
const TABLES = {
  wait: { table: 'waits', id: 'wait_id' },
  work_item: { table: 'work_items', id: 'work_item_id' },
  timer: { table: 'timers', id: 'timer_id' },
} as const satisfies Record<DueWake['of'], unknown>;

/** Reads the times that have come, those first that have been due for longest. */
export const dueWakes = (ctx: StoreContext, limit: number): Promise<readonly DueWake[]> =>
  read(ctx, async ({ db }) => {
    const now = ctx.now();
    const waits = db.selectFrom('waits').select(['agent_id', 'due_at', 'wait_id as id']);
    const items = db.selectFrom('work_items').select(['agent_id', 'due_at', 'work_item_id as id']);
    const timers = db.selectFrom('timers').select(['agent_id', 'due_at', 'timer_id as id']);
    const due = [
      ...(await waits.where('due_at', '<=', now).orderBy('due_at').limit(limit).execute()).map(as('wait', now)),
      ...(await items.where('due_at', '<=', now).orderBy('due_at').limit(limit).execute()).map(as('work_item', now)),
      ...(await timers.where('due_at', '<=', now).orderBy('due_at').limit(limit).execute()).map(as('timer', now)),
    ];
    return due.sort((a, b) => a.dueAt - b.dueAt).slice(0, limit);
  });

const as =
  (of: DueWake['of'], now: number) =>
  ({ agent_id, due_at, id }: { agent_id: string; due_at: number | null; id: string }): DueWake => ({
    agentId: agent_id,
    of,
    id,
    dueAt: due_at ?? now,
  });

/** Makes a time that could not be acted on due again, unless it has been acted on. */
export async function putOffWake(ctx: StoreContext, { agentId, of, id, dueAt }: DueWake, until: number): Promise<void> {
  const { table, id: column } = TABLES[of];
  await write(ctx, agentId, async ({ db }) => {
    await db
      .updateTable(table as 'waits')
      .set({ due_at: until })
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
    .select(['objective', 'plan_status'])
    .where('work_item_id', '=', id)
    .where('due_at', '=', dueAt)
    .executeTakeFirst();
  // One that needs a person is come back to until it does not.
  const next = item?.plan_status === 'needs_input' ? now + DEFAULT_DEADLINE_MS : null;
  if (item) {
    const change = { due_at: next, recheck_at: next };
    await db.updateTable('work_items').set(change).where('work_item_id', '=', id).execute();
  }
  return item ? timeHasCome(id, `it is time to check work item ${id}: ${item.objective}`) : null;
}

async function fireTimer({ db, now }: Tx, { id, dueAt }: DueWake): Promise<Came | null> {
  const timer = await db
    .selectFrom('timers')
    .selectAll()
    .where('timer_id', '=', id)
    .where('due_at', '=', dueAt)
    .executeTakeFirst();
  if (!timer || timer.next_at === null) return null;
  const next = nextFiring({ nextAt: timer.next_at, everyMs: timer.every_ms }, now);
  const change = { next_at: next, due_at: next, fired: timer.fired + 1 };
  await db.updateTable('timers').set(change).where('timer_id', '=', id).execute();
  const { due: _, ...came } = timeHasCome(id, `timer ${id} has fired: ${timer.reason}`);
  return came;
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
  const wait = waitOf(row);
  const ended = await taskEnd(tx, row.agent_id, row);
  if (ended) {
    // It is over when the turn begins that it makes; until then it keeps its time.
    await putOff(tx, row, { due_at: waitDueAt(wait, tx.now) });
    return ended;
  }
  if (row.deadline <= tx.now) {
    await endWaits(tx, row.agent_id, [wait], 'expired', 'deadline');
    return timeHasCome(id, `the deadline has passed of what you waited for: ${row.reason}`);
  }
  const isRecheck = row.recheck_at !== null && row.recheck_at <= tx.now;
  const rest = isRecheck ? { ...wait, recheckAt: null } : wait;
  await putOff(tx, row, { recheck_at: rest.recheckAt, due_at: waitDueAt(rest, tx.now) });
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
const putOff = ({ db }: Tx, { wait_id, due_at }: WaitRow, change: Partial<Pick<WaitRow, 'recheck_at' | 'due_at'>>) =>
  db.updateTable('waits').set(change).where('wait_id', '=', wait_id).where('due_at', '=', due_at).execute();
