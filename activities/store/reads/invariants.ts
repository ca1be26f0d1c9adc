/**
 * The promise, as queries: each finds the rows that break one part of it. They only read, and run on any installation, a live one included:
 * every fact below becomes true in one transaction, so a turn in flight never looks broken.
 *
 * Invariant: a query looks at a bounded range of turns, agents or boxes, and gives a bounded number of findings: what a check holds in
 * memory does not depend on the size of the store, nor on how much of it is broken.
 */
import { type RawBuilder, sql } from 'kysely';
import type { Violation } from '../../../workflows/contract/views.ts';
import { MESSAGE_TOKENS } from '../../../workflows/kernel/pressure.ts';
import { type StoreContext, scan } from '../context.ts';
import type { Db } from '../schema/rows.ts';
import { overdrawn } from '../turns/tree-budgets.ts';
import { chatChecks } from './chat-invariants.ts';
import { scheduleChecks } from './schedule-invariants.ts';
import { workChecks } from './work-invariants.ts';

/** A row that breaks the promise. */
interface Found {
  agent_id: string | null;
  agent_turn_id: string | null;
  detail: string;
}

/** Restricts a column to the range that is checked. */
export type Within = (column: string) => RawBuilder<unknown>;

/** One part of the promise. */
interface Check {
  /** What the check goes over. */
  readonly over: Exclude<keyof typeof RANGES, 'trees'>;
  /** The statement that finds what breaks it. */
  readonly find: (within: Within) => RawBuilder<Found>;
}

/** What checks go over, in ranges of so many ids. */
const RANGES = {
  turns: { table: 'turns', column: 'agent_turn_id', size: 10_000 },
  /** Turns with all that they delegated. */
  trees: { table: 'turns', column: 'agent_turn_id', size: 1_000 },
  agents: { table: 'agent_state_head', column: 'agent_id', size: 1_000 },
  boxes: { table: 'boxes', column: 'box_id', size: 5_000 },
} as const;

const overTurns = (find: Check['find']): Check => ({ over: 'turns', find });
const overAgents = (find: Check['find']): Check => ({ over: 'agents', find });
const overBoxes = (find: Check['find']): Check => ({ over: 'boxes', find });

const TERMINAL = sql.raw(`('success', 'failed', 'partial', 'timeout', 'canceled')`);

const CHECKS: Readonly<Record<string, Check>> = {
  turn_without_task_event: overTurns(
    (within) => sql<Found>`
    select t.agent_id, t.agent_turn_id, 'ended ' || t.status as detail from turns t
    where ${within('t.agent_turn_id')} and t.status in ${TERMINAL}
      and not exists (select 1 from events e where e.agent_turn_id = t.agent_turn_id and e.type = 'task')`,
  ),
  several_task_events: overTurns(
    (within) => sql<Found>`
    select max(e.agent_id) as agent_id, e.agent_turn_id, count(*) || ' task events' as detail from events e
    where ${within('e.agent_turn_id')} and e.type = 'task' group by e.agent_turn_id having count(*) > 1`,
  ),
  task_event_of_open_turn: overTurns(
    (within) => sql<Found>`
    select t.agent_id, t.agent_turn_id, 'has a task event but is ' || t.status as detail from turns t
    join events e on e.agent_turn_id = t.agent_turn_id and e.type = 'task' where ${within('t.agent_turn_id')} and t.status not in ${TERMINAL}`,
  ),
  deliverable_missing: overTurns(
    (within) => sql<Found>`
    select t.agent_id, t.agent_turn_id, coalesce(t.deliverable_card_id, 'none') as detail from turns t
    left join cards c on c.card_id = t.deliverable_card_id
    where ${within('t.agent_turn_id')} and t.status in ${TERMINAL} and (c.type is null or c.type <> 'task.deliverable' or c.agent_turn_id <> t.agent_turn_id)`,
  ),
  deliverable_not_in_box: overTurns(
    (within) => sql<Found>`
    select t.agent_id, t.agent_turn_id, 'box ' || coalesce(t.output_box_id, 'none') as detail from turns t
    where ${within('t.agent_turn_id')} and t.status in ${TERMINAL} and not exists (
      select 1 from box_cards b where b.box_id = t.output_box_id and b.card_id = t.deliverable_card_id)`,
  ),
  overlapping_turns: overAgents(
    (within) => sql<Found>`
    select agent_id, agent_turn_id, 'the turn of the next epoch was leased before this one ended' as detail from (
      select agent_id, agent_turn_id, ended_at, leased_at,
        lead(leased_at) over (partition by agent_id order by turn_epoch) as next_leased_at
      from turns where ${within('agent_id')} and turn_epoch is not null) t
    where next_leased_at is not null and (ended_at is null or ended_at > next_leased_at)`,
  ),
  epoch_not_rising: overAgents(
    (within) => sql<Found>`
    select max(t.agent_id) as agent_id, max(t.agent_turn_id) as agent_turn_id, 'epoch ' || t.turn_epoch || ' was leased twice' as detail
    from turns t where ${within('t.agent_id')} and t.turn_epoch is not null group by t.agent_id, t.turn_epoch having count(*) > 1
    union all
    select h.agent_id, h.active_agent_turn_id, 'the head is at epoch ' || h.turn_epoch || ', a turn beyond it' as detail
    from agent_state_head h where ${within('h.agent_id')} and exists (select 1 from turns t where t.agent_id = h.agent_id and t.turn_epoch > h.turn_epoch)`,
  ),
  head_at_closed_turn: overAgents(
    (within) => sql<Found>`
    select h.agent_id, h.active_agent_turn_id as agent_turn_id, 'the head is ' || h.status as detail from agent_state_head h
    left join turns t on t.agent_turn_id = h.active_agent_turn_id
    where ${within('h.agent_id')} and h.status <> 'idle' and (t.agent_turn_id is null or t.status in ${TERMINAL} or t.status = 'queued')`,
  ),
  idle_head_with_active_turn: overAgents(
    (within) => sql<Found>`
    select t.agent_id, t.agent_turn_id, 'is ' || t.status || ' but is not what the head points at' as detail from turns t
    join agent_state_head h on h.agent_id = t.agent_id
    where ${within('h.agent_id')} and t.status in ('dispatched', 'running', 'suspended')
      and (h.status = 'idle' or h.active_agent_turn_id is null or h.active_agent_turn_id <> t.agent_turn_id)`,
  ),
  agent_status_wrong: overAgents(
    (within) => sql<Found>`
    select h.agent_id, h.active_agent_turn_id as agent_turn_id,
      'is ' || h.agent_status || ', ' || a.lifecycle || ', and its head is ' || h.status as detail
    from agent_state_head h join agents a on a.agent_id = h.agent_id
    where ${within('h.agent_id')} and ((h.status <> 'idle') <> (h.agent_status = 'awake_running')
      or (a.lifecycle = 'stopped') <> (h.agent_status = 'stopped'))`,
  ),
  waiting_count_wrong: overAgents(
    (within) => sql<Found>`
    select h.agent_id, h.active_agent_turn_id as agent_turn_id, 'the head counts ' || h.waiting_tool_count as detail
    from agent_state_head h where ${within('h.agent_id')} and h.waiting_tool_count <> (
      select count(*) from turn_waiting w where w.agent_turn_id = h.active_agent_turn_id and w.status = 'waiting')`,
  ),
  resume_deadline_wrong: overAgents(
    (within) => sql<Found>`
    select h.agent_id, h.active_agent_turn_id as agent_turn_id, 'the head is to resume at ' || coalesce(h.resume_deadline, 0) as detail
    from agent_state_head h where ${within('h.agent_id')} and h.status = 'suspended' and h.resume_deadline <> (
      select min(w.deadline) from turn_waiting w where w.agent_turn_id = h.active_agent_turn_id and w.status = 'waiting')`,
  ),
  suspended_without_waiting: overAgents(
    (within) => sql<Found>`
    select h.agent_id, h.active_agent_turn_id as agent_turn_id, 'the head is ' || h.status || ' and counts ' || h.waiting_tool_count as detail
    from agent_state_head h where ${within('h.agent_id')} and (h.status = 'suspended') <> (h.waiting_tool_count > 0)`,
  ),
  waiting_after_end: overTurns(
    (within) => sql<Found>`
    select t.agent_id, t.agent_turn_id, 'call ' || w.call_id || ' still waits' as detail from turn_waiting w
    join turns t on t.agent_turn_id = w.agent_turn_id where ${within('w.agent_turn_id')} and w.status = 'waiting' and t.status in ${TERMINAL}`,
  ),
  edge_without_partner: overTurns(
    (within) => sql<Found>`
    select t.agent_id, t.agent_turn_id, 'no enqueue edge' as detail from turns t where ${within('t.agent_turn_id')} and not exists (
      select 1 from execution_edges e where e.target_agent_turn_id = t.agent_turn_id and e.primitive = 'enqueue')
    union all
    select t.agent_id, t.agent_turn_id, 'no report edge' as detail from turns t where ${within('t.agent_turn_id')} and t.status in ${TERMINAL} and not exists (
      select 1 from execution_edges e
      where e.source_agent_turn_id = t.agent_turn_id and e.primitive = 'report' and e.phase = 'response')`,
  ),
  write_after_terminal: overTurns(
    (within) => sql<Found>`
    select e.agent_id, e.agent_turn_id, 'event ' || e.seq || ' (' || e.type || ') after the task event' as detail from events e
    join events task on task.agent_turn_id = e.agent_turn_id and task.type = 'task'
    where ${within('e.agent_turn_id')} and e.seq > task.seq and e.type in ('state', 'step', 'task')`,
  ),
  claim_without_outcome: overTurns(
    (within) => sql<Found>`
    select t.agent_id, t.agent_turn_id, 'call ' || d.call_id || ' was started and has no result' as detail from dispatch_claims d
    join turns t on t.agent_turn_id = d.agent_turn_id
    where ${within('d.agent_turn_id')} and t.status in ('success', 'partial') and not exists (
      select 1 from cards c where c.agent_turn_id = d.agent_turn_id and c.call_id = d.call_id and c.type = 'tool.result')`,
  ),
  settlement_lost: overTurns(
    (within) => sql<Found>`
    select t.agent_id, t.agent_turn_id, 'has ended ' || t.status || ' and its report to turn ' || t.parent_agent_turn_id || ' is pending' as detail
    from turns t where ${within('t.agent_turn_id')} and t.status in ${TERMINAL} and t.settlement = 'pending'
    union all
    select t.agent_id, t.agent_turn_id, 'its report was ' || t.settlement || ', and no edge tells of it' as detail from turns t
    where ${within('t.agent_turn_id')} and t.settlement not in ('pending', 'due') and exists (
      select 1 from turn_waiting w where w.agent_turn_id = t.parent_agent_turn_id and w.call_id = t.parent_call_id)
      and not exists (
      select 1 from execution_edges e
      where e.source_agent_turn_id = t.agent_turn_id and e.primitive = 'join' and e.phase = 'response')`,
  ),
  join_without_child: overTurns(
    (within) => sql<Found>`
    select t.agent_id, t.agent_turn_id, 'call ' || w.call_id || ' waits for a turn that is not there' as detail from turn_waiting w
    join turns t on t.agent_turn_id = w.agent_turn_id
    where ${within('w.agent_turn_id')} and w.kind = 'join' and w.status = 'waiting' and not exists (
      select 1 from turns child where child.parent_agent_turn_id = w.agent_turn_id and child.parent_call_id = w.call_id
        and child.settlement in ('pending', 'due'))`,
  ),
  deferral_of_closed_call: overTurns(
    (within) => sql<Found>`
    select t.agent_id, t.agent_turn_id, 'call ' || d.call_id || ' has a report that is never tried again' as detail
    from deferred_reports d join turns t on t.agent_turn_id = d.agent_turn_id where ${within('d.agent_turn_id')} and t.status in ${TERMINAL}`,
  ),
  question_not_waiting: overTurns(
    (within) => sql<Found>`
    select a.agent_id, a.agent_turn_id, 'question ' || a.call_id || ' waits for an answer that the turn does not wait for' as detail
    from approvals a where ${within('a.agent_turn_id')} and a.status = 'waiting' and not exists (
      select 1 from turn_waiting w where w.agent_turn_id = a.agent_turn_id and w.call_id = a.call_id
        and w.kind = 'approval' and w.status = 'waiting')`,
  ),
  call_without_approval: overTurns(
    (within) => sql<Found>`
    select a.agent_id, a.agent_turn_id, 'call ' || a.call_id || ' was started, and its question is ' || a.status as detail
    from approvals a join dispatch_claims c on c.agent_turn_id = a.agent_turn_id and c.call_id = a.call_id
    where ${within('a.agent_turn_id')} and a.status <> 'approved'`,
  ),
  steer_lost: overTurns(
    (within) => sql<Found>`
    select t.agent_id, t.agent_turn_id, 'steer ' || s.seq || ' was not shown and is no turn' as detail from turn_inbox s
    join turns t on t.agent_turn_id = s.agent_turn_id where ${within('s.agent_turn_id')} and s.kind = 'steer' and s.status = 'pending' and t.status in ${TERMINAL}
    union all
    select t.agent_id, t.agent_turn_id, 'steer ' || s.seq || ' is not in box ' || coalesce(t.output_box_id, 'none') as detail from turn_inbox s
    join turns t on t.agent_turn_id = s.agent_turn_id where ${within('s.agent_turn_id')} and s.kind = 'steer' and s.status = 'consumed' and not exists (
      select 1 from box_cards b where b.box_id = t.output_box_id and b.card_id = s.ref)`,
  ),
  shared_output_box: overAgents(
    (within) => sql<Found>`
    select h.agent_id, null as agent_turn_id, 'box ' || h.output_box_id || ' belongs to ' || coalesce(b.owner_agent_id, 'nobody') as detail
    from agent_state_head h join boxes b on b.box_id = h.output_box_id
    where ${within('h.agent_id')} and (b.owner_agent_id is null or b.owner_agent_id <> h.agent_id)`,
  ),
  event_gap: overAgents(
    (within) => sql<Found>`
    select e.agent_id, null as agent_turn_id, max(e.seq) - count(*) || ' events are missing' as detail from events e
    where ${within('e.agent_id')} group by e.agent_id having max(e.seq) <> count(*)`,
  ),
  box_gap: overBoxes(
    (within) => sql<Found>`
    select max(x.owner_agent_id) as agent_id, null as agent_turn_id, 'box ' || b.box_id || ' has gaps' as detail from box_cards b
    join boxes x on x.box_id = b.box_id where ${within('b.box_id')} group by b.box_id having max(b.seq) <> count(*)`,
  ),
  memory_wrong: overBoxes(
    (within) => sql<Found>`
    select b.owner_agent_id as agent_id, null as agent_turn_id, 'box ' || b.box_id || ' is remembered with another size than its cards have' as detail
    from boxes b
    where ${within('b.box_id')}
      and not exists (select 1 from agent_state_head h where h.agent_id = b.owner_agent_id and h.status <> 'idle')
      and coalesce((select sum(u.tokens) from box_units u where u.box_id = b.box_id), 0) <> coalesce((
        select sum(${sql.lit(MESSAGE_TOKENS)} + c.token_count) from box_cards p join cards c on c.card_id = p.card_id
        where p.box_id = b.box_id and p.hidden_reason is null and c.type not in ('tool.call', 'tool.output')), 0)`,
  ),
  ...Object.fromEntries(
    Object.entries({ ...scheduleChecks<Found>(), ...workChecks<Found>(), ...chatChecks<Found>() }).map(
      ([name, find]) => [name, overAgents(find)],
    ),
  ),
};

/** The check whose sums go down whole trees: they are added up here, not by the database. */
const OVERDRAWN = 'given_more_than_it_has';

/** The names of all checks. */
export const CHECK_NAMES: readonly string[] = [...Object.keys(CHECKS), OVERDRAWN];

/** Findings that are held in memory at a time. */
const PAGE = 1_000;

/** Yields what breaks the promise, page by page, each with at least one finding. */
export async function* violationPages(ctx: StoreContext): AsyncGenerator<readonly Violation[], void> {
  for (const [check, { over, find }] of Object.entries(CHECKS)) {
    for await (const within of ranges(ctx, over)) {
      for (let offset = 0; ; offset += PAGE) {
        const page = sql<Found>`select * from (${find(within)}) as found
          order by agent_id, agent_turn_id, detail limit ${PAGE} offset ${offset}`;
        const { rows } = await scan(ctx, (db) => page.execute(db));
        const found = rows.map((row) => ({
          check,
          agentId: row.agent_id,
          agentTurnId: row.agent_turn_id,
          detail: row.detail,
        }));
        if (found.length > 0) yield found;
        if (found.length < PAGE) break;
      }
    }
  }
  for await (const within of ranges(ctx, 'trees')) {
    const found = (await scan(ctx, (db) => overdrawn({ db }, within))).map(({ turn, held }) => ({
      check: OVERDRAWN,
      agentId: turn.agent_id,
      agentTurnId: turn.agent_turn_id,
      detail: `its delegated turns hold or have spent ${held} tokens of ${turn.given_tokens}`,
    }));
    if (found.length > 0) yield found;
  }
}

/** Findings where the caller names no number: enough to see that something is wrong. */
const FINDINGS = 1_000;

/** Reads what breaks the promise, at most `limit` findings. */
export async function violations(ctx: StoreContext, limit = FINDINGS): Promise<readonly Violation[]> {
  const found: Violation[] = [];
  for await (const page of violationPages(ctx)) {
    for (const violation of page) if (found.length < limit) found.push(violation);
    if (found.length >= limit) break;
  }
  return found;
}

/** The ranges of a table. Together they leave nothing out: the first has no beginning, and the last no end. */
async function* ranges(ctx: StoreContext, over: keyof typeof RANGES): AsyncGenerator<Within, void> {
  const { column, table, size } = RANGES[over];
  const endAfter = async (db: Db, after: string | null) => {
    const from = after === null ? sql`` : sql`where ${sql.ref(column)} > ${after}`;
    const { rows } = await sql<{ id: string }>`select ${sql.ref(column)} as id from ${sql.table(table)} ${from}
      order by ${sql.ref(column)} limit 1 offset ${size - 1}`.execute(db);
    return rows[0]?.id ?? null;
  };
  for (let after: string | null = null; ; ) {
    const begin: string | null = after;
    const end: string | null = await scan(ctx, (db) => endAfter(db, begin));
    yield (id) => {
      const above = begin === null ? sql`1 = 1` : sql`${sql.ref(id)} > ${begin}`;
      return end === null ? above : sql`${above} and ${sql.ref(id)} <= ${end}`;
    };
    if (end === null) return;
    after = end;
  }
}
