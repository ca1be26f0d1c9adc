/** That somebody looks at every turn again, and that time never runs backwards: as queries, each of which finds what breaks it (T12, T29). */
import { sql } from 'kysely';
import type { AgentsQuery } from './work-invariants.ts';

/** The queries by the names of their checks. */
export const scheduleChecks = <Row>(): Readonly<Record<string, AgentsQuery<Row>>> => ({
  turn_never_checked: (within) => sql<Row>`
    select t.agent_id, t.agent_turn_id, 'is ' || t.status || ', and no check of it is due at any time' as detail from turns t
    where ${within('t.agent_id')} and t.check_at is null
      and (t.status in ('dispatched', 'running', 'suspended') or (t.status = 'queued' and t.not_before is not null))`,
  queue_forgotten: (within) => sql<Row>`
    select h.agent_id, null as agent_turn_id, 'is free, and of the turns that wait for it none is due for a check' as detail
    from agent_state_head h join agents a on a.agent_id = h.agent_id
    where ${within('h.agent_id')} and h.status = 'idle' and a.lifecycle <> 'stopped'
      and exists (select 1 from turns t where t.agent_id = h.agent_id and t.status = 'queued')
      and not exists (select 1 from turns t where t.agent_id = h.agent_id and t.status = 'queued' and t.check_at is not null)`,
  event_before_its_time: (within) => sql<Row>`
    select e.agent_id, e.agent_turn_id,
        'event ' || e.seq || ' is ' || (b.created_at - e.created_at) || ' ms older than the one before it' as detail
    from events e join events b on b.agent_id = e.agent_id and b.seq = e.seq - 1
    where ${within('e.agent_id')} and e.created_at < b.created_at`,
  turn_before_its_time: (within) => sql<Row>`
    select t.agent_id, t.agent_turn_id,
        'accepted ' || t.accepted_at || ', leased ' || coalesce(t.leased_at, 0) || ', started ' || coalesce(t.started_at, 0) ||
        ', ended ' || coalesce(t.ended_at, 0) as detail
    from turns t
    where ${within('t.agent_id')} and (t.leased_at < t.accepted_at or t.started_at < t.leased_at
      or t.ended_at < coalesce(t.started_at, t.leased_at, t.accepted_at)
      or exists (select 1 from turns b where b.agent_id = t.agent_id and b.accept_seq = t.accept_seq - 1 and b.accepted_at > t.accepted_at))`,
});
