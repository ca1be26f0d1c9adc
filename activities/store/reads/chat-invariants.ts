/** The promise about the messages of chats, as queries: each finds the rows that break one part of it (C2, C8). */
import { sql } from 'kysely';
import type { AgentsQuery } from './work-invariants.ts';

/** The queries by the names of their checks. */
export const chatChecks = <Row>(): Readonly<Record<string, AgentsQuery<Row>>> => ({
  message_without_turn: (within) => sql<Row>`
    select m.agent_id, m.agent_turn_id, 'message ' || m.seq || ' is in no turn of its session, and not rejected' as detail
    from chat_messages m left join turns t on t.agent_turn_id = m.agent_turn_id and t.agent_id = m.agent_id
    where ${within('m.agent_id')} and m.placement <> 'rejected' and t.agent_turn_id is null`,
  message_gap: (within) => sql<Row>`
    select s.agent_id, null as agent_turn_id,
      'counts ' || s.last_seq || ' messages, and has ' || count(m.seq) || ' up to ' || coalesce(max(m.seq), 0) as detail
    from chat_sessions s left join chat_messages m on m.agent_id = s.agent_id
    where ${within('s.agent_id')} group by s.agent_id, s.last_seq
    having count(m.seq) <> s.last_seq or coalesce(max(m.seq), 0) <> s.last_seq`,
  steered_message_lost: (within) => sql<Row>`
    select m.agent_id, m.agent_turn_id, 'message ' || m.seq || ' is to steer, and its turn ' ||
      case when i.status is null then 'has it not' else 'has ' || i.status || ' it' end as detail
    from chat_messages m left join turn_inbox i on i.agent_turn_id = m.agent_turn_id and i.kind = 'steer' and i.ref = m.card_id
    where ${within('m.agent_id')} and m.placement = 'steered' and (i.status is null or i.status in ('dropped', 'requeued'))`,
  chat_turn_without_messages: (within) => sql<Row>`
    select t.agent_id, t.agent_turn_id, 'is ' || t.status || ', and made of no message' as detail from turns t
    where ${within('t.agent_id')} and t.chat_id is not null and not exists (
      select 1 from chat_messages m where m.agent_turn_id = t.agent_turn_id and m.placement in ('turn', 'collected'))`,
  messages_reordered: (within) => sql<Row>`
    select agent_id, agent_turn_id, 'begins with message ' || first || ', and a turn before it with ' || before as detail from (
      select t.agent_id, t.agent_turn_id, min(m.seq) as first,
        lag(min(m.seq)) over (partition by t.agent_id order by t.turn_epoch) as before
      from turns t join chat_messages m on m.agent_turn_id = t.agent_turn_id and m.placement in ('turn', 'collected')
      where ${within('t.agent_id')} and t.turn_epoch is not null group by t.agent_id, t.agent_turn_id, t.turn_epoch) turns
    where before > first`,
});
