/** Who waits for whom: found in the calls that wait for delegated turns. */
import { sql } from 'kysely';
import type { Tx } from '../context.ts';

/**
 * Whether `target`, itself or through others, waits for `agentId`: then a wait the other way round would never end (T27). The caller
 * holds the lock of all waits, so no other half of a circle is being made meanwhile.
 */
export async function wouldWaitForItself(tx: Tx, agentId: string, target: string): Promise<boolean> {
  const { rows } = await sql<{ agent_id: string }>`
    with recursive reached (agent_id) as (
      select cast(${target} as text)
      union
      select child.agent_id from reached r
      join agent_state_head head on head.agent_id = r.agent_id
      join turn_waiting w on w.agent_turn_id = head.active_agent_turn_id and w.kind = 'join' and w.status = 'waiting'
      join turns child on child.parent_agent_turn_id = w.agent_turn_id and child.parent_call_id = w.call_id)
    select agent_id from reached where agent_id = ${agentId}`.execute(tx.db);
  return rows.length > 0;
}
