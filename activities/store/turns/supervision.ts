/**
 * What the supervisor asks of the store (T12, T23, T29). Everything it reads is found by index, so that a pass costs by what is due and
 * not by how many agents and turns there are.
 */

import { type RawBuilder, sql } from 'kysely';
import { hasFailed } from '../../../workflows/agent-state/closure.ts';
import type { CheckedTurn, DueTurn, NextCheck, SupervisorLease } from '../../../workflows/contract/supervision.ts';
import { CodedError } from '../../../workflows/protocol/failures.ts';
import type { Timeouts } from '../../../workflows/protocol/profile.ts';
import type { HeadStatus } from '../../../workflows/protocol/turn.ts';
import { FIRST_CHECK_MS, LATEST_CHECK_MS } from '../../../workflows/supervision/check.ts';
import { LONGEST_RETRY_PAUSE_MS } from '../../../workflows/waiting/decisions.ts';
import { aheadBy, MOST_SKEW_MS } from '../ahead.ts';
import { type Reader, read, type StoreContext, write } from '../context.ts';
import { appendState } from '../log/events.ts';
import { constant, type HeadRow } from '../schema/rows.ts';
import type { TurnRow } from '../schema/turn-row.ts';
import { lockHead } from './head.ts';
import { profileByHash } from './profiles.ts';
import { holdLease, leasedUntil, releaseLease } from './service-leases.ts';

/** The name of the supervisor's lease, and of the line in which its writers stand. */
const SUPERVISOR = 'supervisor';

/** The line of those who make turns of many agents due at once. */
const MADE_DUE = 'due';

/** A retry of a report that is due for so long is one that its turn has missed (T18). */
const MISSED_RETRY_MS = 5_000;

/** No retry is missed later than this from now; one that would be was planned by a clock that was ahead. */
const LATEST_RETRY_MS = LONGEST_RETRY_PAUSE_MS + MISSED_RETRY_MS + MOST_SKEW_MS;

const OPEN = ['dispatched', 'running', 'suspended'] as const;

/** Takes or renews the lease of the active supervisor; null while another holder has it. */
export async function holdSupervisorLease(
  ctx: StoreContext,
  holder: string,
  ttlMs: number,
): Promise<SupervisorLease | null> {
  const row = await holdLease(ctx, SUPERVISOR, holder, ttlMs);
  return row ? { since: Number(row.since), listedUntil: row.listed_until } : null;
}

/** Writes down up to when closed workflows have been listed, while `holder` has the lease. */
export async function noteListed(ctx: StoreContext, holder: string, listedUntil: number): Promise<void> {
  await write(ctx, SUPERVISOR, ({ db }) =>
    db
      .updateTable('svc_leases')
      .set({ listed_until: listedUntil })
      .where('service', '=', SUPERVISOR)
      .where('holder', '=', holder)
      .execute(),
  );
}

/** Ends the lease of `holder` at once. */
export const releaseSupervisorLease = (ctx: StoreContext, holder: string): Promise<void> =>
  releaseLease(ctx, SUPERVISOR, holder);

/** Until when a supervisor is, or was, active; null when none ever was. */
export const supervisedUntil = (ctx: StoreContext): Promise<number | null> => leasedUntil(ctx, SUPERVISOR);

/** What a check needs to know of a turn, as one statement reads it. */
type DueRow = Pick<
  TurnRow,
  | 'agent_id'
  | 'agent_turn_id'
  | 'turn_epoch'
  | 'status'
  | 'worker_target'
  | 'profile_hash'
  | 'check_every'
  | 'leased_at'
  | 'accepted_at'
  | 'ends_by'
  | 'no_workers_since'
  | 'workers_since'
  | 'woken_at'
  | 'settlement'
  | 'on_parent_end'
> & {
  check_at: number;
  head_status: HeadStatus;
  head_updated_at: HeadRow['updated_at'];
  active_agent_turn_id: string | null;
  resume_deadline: number | null;
  lifecycle: string | null;
  parent_status: string | null;
  unread: number | null;
  next_retry_at: number | null;
};

/** The statement behind `dueTurns`; exported for the test that looks at its plan. */
export const dueQuery = (now: number, limit: number): RawBuilder<DueRow> =>
  turnsToCheck(sql`t.check_at <= ${now}`, limit);

const turnsToCheck = (when: RawBuilder<unknown>, limit: number): RawBuilder<DueRow> => sql<DueRow>`
  select t.agent_id, t.agent_turn_id, t.turn_epoch, t.status, t.worker_target, t.profile_hash, t.check_at, t.check_every,
    t.leased_at, t.accepted_at, t.ends_by, t.no_workers_since, t.workers_since, t.woken_at, t.settlement, t.on_parent_end,
    h.status as head_status, h.updated_at as head_updated_at, h.active_agent_turn_id, h.resume_deadline,
    a.lifecycle, p.status as parent_status,
    (select 1 from turn_waiting w where w.agent_turn_id = t.agent_turn_id and w.status = 'received' limit 1) as unread,
    (select min(d.next_retry_at) from deferred_reports d where d.agent_turn_id = t.agent_turn_id) as next_retry_at
  from turns t
  join agent_state_head h on h.agent_id = t.agent_id
  left join agents a on a.agent_id = t.agent_id
  left join turns p on p.agent_turn_id = t.parent_agent_turn_id
  where ${when}
  order by t.check_at
  limit ${limit}`;

/**
 * Reads the turns whose check is due, those first that have been due for longest; then those whose check lies further ahead than any is
 * planned, because the clock was ahead.
 */
export async function dueTurns(ctx: StoreContext, limit: number): Promise<readonly DueTurn[]> {
  const now = ctx.now();
  const early = await waitingEarly(ctx, now, limit);
  await makeDue(ctx, [...early]);
  const rows = await read(ctx, async ({ db }) => {
    const due = (await dueQuery(now, limit).execute(db)).rows;
    if (due.length === limit) return due;
    const ahead = turnsToCheck(sql`t.check_at > ${now + LATEST_CHECK_MS}`, limit - due.length);
    return [...due, ...(await ahead.execute(db)).rows];
  });
  const moved = rows.filter((row) => row.head_updated_at > now + MOST_SKEW_MS).map((row) => row.agent_id);
  if (moved.length > 0) await setBack(ctx, moved);
  const turns = await read(ctx, (reader) => Promise.all(rows.map((row) => dueTurn(reader, row, now))));
  for (const [index, { agentTurnId, endsBy }] of turns.entries())
    if (endsBy !== null && endsBy !== rows[index]?.ends_by) await endBy(ctx, agentTurnId, endsBy);
  return turns.map((turn) => (early.has(turn.agentTurnId) ? { ...turn, waitsAhead: true } : turn));
}

/** Turns with calls that wait since a time which is still to come. */
const waitingEarly = (ctx: StoreContext, now: number, limit: number): Promise<ReadonlySet<string>> =>
  read(ctx, async ({ db }) => {
    const rows = await db
      .selectFrom('turn_waiting')
      .select('agent_turn_id')
      .where('status', '=', constant('waiting'))
      .where('created_at', '>', now + MOST_SKEW_MS)
      .orderBy('created_at')
      .limit(limit)
      .execute();
    return new Set(rows.map((row) => row.agent_turn_id));
  });

/** A turn whose time would be up later than its profile says was leased while a clock was ahead: its time is counted from now. */
const endBy = (ctx: StoreContext, agentTurnId: string, endsBy: number): Promise<unknown> =>
  write(ctx, MADE_DUE, ({ db }) =>
    db
      .updateTable('turns')
      .set({ ends_by: endsBy })
      .where('agent_turn_id', '=', agentTurnId)
      .where('ends_by', '>', endsBy)
      .execute(),
  );

/** Progress that was made by a clock which was ahead was made by now: else its turn could not be overdue before that clock was right. */
const setBack = (ctx: StoreContext, agentIds: readonly string[]): Promise<unknown> =>
  write(ctx, MADE_DUE, ({ db, now }) =>
    db
      .updateTable('agent_state_head')
      .set({ updated_at: now })
      .where((eb) => eb('agent_id', '=', eb.fn.any(eb.val(agentIds))))
      .where('updated_at', '>', now + MOST_SKEW_MS)
      .execute(),
  );

/** The turn as the supervisor sees it. */
async function dueTurn(reader: Reader, row: DueRow, now: number): Promise<DueTurn> {
  const isActive = row.active_agent_turn_id === row.agent_turn_id;
  const progressAt = row.head_updated_at > now + MOST_SKEW_MS ? now : row.head_updated_at;
  const retryAt = row.next_retry_at === null ? null : row.next_retry_at + MISSED_RETRY_MS;
  const timeouts = await timeoutsOf(reader, row.profile_hash);
  return {
    agentId: row.agent_id,
    agentTurnId: row.agent_turn_id,
    turnEpoch: row.turn_epoch,
    // The head is what the fence compares; the row of an open turn says the same.
    status: isActive && row.head_status !== 'idle' ? row.head_status : row.status,
    workerTarget: row.worker_target,
    checkAt: row.check_at,
    everyMs: row.check_every ?? FIRST_CHECK_MS,
    leasedAt: Math.min(row.leased_at ?? row.accepted_at, progressAt),
    progressAt,
    resumeDeadline: isActive ? row.resume_deadline : null,
    endsBy: row.ends_by === null ? null : row.ends_by - aheadBy(row.ends_by - (timeouts?.turnMs ?? row.ends_by), now),
    noWorkersSince: row.no_workers_since,
    // What has lasted since a time that is still to come has lasted since now: the check writes it down.
    workersSince: row.workers_since === null ? null : Math.min(row.workers_since, now),
    unread: row.unread !== null || (retryAt !== null && (retryAt <= now || retryAt > now + LATEST_RETRY_MS)),
    retryAt,
    wokenAt: row.woken_at,
    agentIsFree: row.head_status === 'idle' && row.lifecycle !== 'stopped',
    settlementDue: row.settlement === 'due',
    parentGone: row.on_parent_end === 'stop' && hasFailed(row.parent_status),
    waitsAhead: false,
    timeouts,
  };
}

/**
 * The timeouts of a profile. A row whose profile is not there, or cannot be read, must not keep others from being checked: null, and
 * nothing is overdue.
 */
async function timeoutsOf(reader: Reader, hash: string | null): Promise<Timeouts | null> {
  if (hash === null) return null;
  try {
    return (await profileByHash(reader, hash)).profile.timeouts;
  } catch (error) {
    const isOfRow =
      error instanceof CodedError && (error.code === 'profile_not_found' || error.code === 'store_corrupt');
    if (isOfRow) return null;
    throw error;
  }
}

/** Schedules the next check of a turn, unless the turn has changed its schedule itself. */
export async function scheduleCheck(ctx: StoreContext, turn: CheckedTurn, next: NextCheck): Promise<void> {
  // That a turn is without workers is an event, which needs the head; all other checks are planned without that lock.
  const announces = turn.noWorkersSince === null && next.noWorkersSince !== null;
  await write(ctx, turn.agentId, async (tx) => {
    const head = announces ? await lockHead(tx, turn.agentId) : null;
    const scheduled = await tx.db
      .updateTable('turns')
      .set({
        check_at: next.checkAt,
        check_every: next.everyMs,
        no_workers_since: next.noWorkersSince,
        workers_since: next.workersSince,
        woken_at: next.wokenAt,
      })
      .where('agent_turn_id', '=', turn.agentTurnId)
      .where('check_at', '=', turn.checkAt)
      .returning('agent_turn_id')
      .executeTakeFirst();
    if (scheduled && head?.active_agent_turn_id === turn.agentTurnId)
      appendState(tx, head, { activity: 'waiting_for_workers' });
  });
}

/** Makes open turns due at once; returns how many were not due yet. */
export async function makeDue(ctx: StoreContext, agentTurnIds: readonly string[]): Promise<number> {
  if (agentTurnIds.length === 0) return 0;
  return write(ctx, MADE_DUE, async ({ db, now }) => {
    const made = await db
      .updateTable('turns')
      .set({ check_at: now })
      .where((eb) => eb('agent_turn_id', '=', eb.fn.any(eb.val(agentTurnIds))))
      .where('status', 'in', OPEN)
      .where((eb) => eb.or([eb('check_at', 'is', null), eb('check_at', '>', now)]))
      .returning('agent_turn_id')
      .execute();
    return made.length;
  });
}

/** Spelled out, so that the partial index of open turns is used. */
const IS_OPEN = sql<boolean>`status in ('running', 'suspended')`;

/** Counts the turns that run or are suspended. */
export const countOpenTurns = (ctx: StoreContext): Promise<number> =>
  read(ctx, async ({ db }) => {
    const { count } = await db
      .selectFrom('turns')
      .select((eb) => eb.fn.countAll<number>().as('count'))
      .where(IS_OPEN)
      .executeTakeFirstOrThrow();
    return Number(count);
  });

/** Reads the ids of turns that run or are suspended, in their order. */
export const listOpenTurns = (ctx: StoreContext, afterId: string, limit: number): Promise<readonly string[]> =>
  read(ctx, async ({ db }) => {
    const rows = await db
      .selectFrom('turns')
      .select('agent_turn_id')
      .where(IS_OPEN)
      .where('agent_turn_id', '>', afterId)
      .orderBy('agent_turn_id')
      .limit(limit)
      .execute();
    return rows.map((row) => row.agent_turn_id);
  });
