/** That somebody looks at every turn again, as queries: each finds turns that would wait for ever (T12, T29). */
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
});
