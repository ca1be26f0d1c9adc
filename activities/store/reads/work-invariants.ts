/** The promise about what an agent has between its turns, as queries: each finds the rows that break one part of it (A6–A9, A12). */
import { type RawBuilder, sql } from 'kysely';

/** A query over agents for what breaks the promise; `within` restricts a column to the range that is checked. */
export type AgentsQuery<Row> = (within: (column: string) => RawBuilder<unknown>) => RawBuilder<Row>;

const TIMES = sql.raw(`(select w.agent_id, 'wait ' || w.wait_id as what, w.due_at from waits w where w.status = 'active'
  union all select t.agent_id, 'timer ' || t.timer_id, t.due_at from timers t where t.next_at is not null
  union all select i.agent_id, 'work item ' || i.work_item_id, i.due_at from work_items i
    where i.state = 'open' and i.recheck_at is not null)`);

/** The queries by the names of their checks. */
export const workChecks = <Row>(): Readonly<Record<string, AgentsQuery<Row>>> => ({
  time_never_comes: (within) => sql<Row>`
    select x.agent_id, null as agent_turn_id, x.what || ' is never due' as detail from ${TIMES} x
    join agents a on a.agent_id = x.agent_id
    where ${within('x.agent_id')} and x.due_at is null and a.lifecycle = 'started'`,
  time_of_stopped_agent: (within) => sql<Row>`
    select x.agent_id, null as agent_turn_id, x.what || ' is due, and its agent is stopped' as detail from ${TIMES} x
    join agents a on a.agent_id = x.agent_id
    where ${within('x.agent_id')} and x.due_at is not null and a.lifecycle = 'stopped'`,
  work_not_read: (within) => sql<Row>`
    select h.agent_id, null as agent_turn_id, 'has work, a wait, a timer or a trigger that its turns do not see' as detail
    from agent_state_head h where ${within('h.agent_id')} and h.has_work = 0 and (
      exists (select 1 from work_items i where i.agent_id = h.agent_id)
      or exists (select 1 from waits w where w.agent_id = h.agent_id)
      or exists (select 1 from timers t where t.agent_id = h.agent_id)
      or exists (select 1 from triggers g where g.agent_id = h.agent_id))`,
  wakes_miscounted: (within) => sql<Row>`
    select h.agent_id, null as agent_turn_id, 'counts ' || h.came || ' things that have come, with ' || h.came_bytes || ' bytes, and has '
      || count(w.place) || ' with ' || coalesce(sum(case when w.kind in ('external_event', 'system_tick') then w.bytes end), 0) as detail
    from agent_state_head h left join wakes w on w.agent_id = h.agent_id and w.taken_by is null
    where ${within('h.agent_id')} group by h.agent_id, h.came, h.came_bytes
    having h.came <> count(w.place)
      or h.came_bytes <> coalesce(sum(case when w.kind in ('external_event', 'system_tick') then w.bytes end), 0)`,
  wait_of_closed_work: (within) => sql<Row>`
    select w.agent_id, null as agent_turn_id, 'wait ' || w.wait_id || ' is of work item ' || w.work_item_id || ', which is not open' as detail
    from waits w left join work_items i on i.work_item_id = w.work_item_id and i.agent_id = w.agent_id and i.state = 'open'
    where ${within('w.agent_id')} and w.status = 'active' and w.work_item_id is not null and i.work_item_id is null`,
  effect_of_ended_turn: (within) => sql<Row>`
    select t.agent_id, t.agent_turn_id, 'call ' || e.call_id || ' changed work, and nobody will apply it' as detail from work_effects e
    join turns t on t.agent_turn_id = e.agent_turn_id
    where ${within('t.agent_id')} and t.status in ('success', 'failed', 'partial', 'timeout', 'canceled')`,
});
