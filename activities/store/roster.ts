/** The roster: what is known of an agent besides its turns. */

import type { AgentLifecycle } from '../../workflows/protocol/turn.ts';
import type { Trx } from './context.ts';

export const rosterEntry = (
  trx: Trx,
  agentId: string,
): Promise<{ profile: string | null; lifecycle: AgentLifecycle } | undefined> =>
  trx.selectFrom('agents').select(['profile', 'lifecycle']).where('agent_id', '=', agentId).executeTakeFirst();

/** Puts the agent on the roster; one that is there stays as it is. */
export async function enrol(
  trx: Trx,
  agentId: string,
  profile: string | null,
  parentAgentId: string | null,
  now: number,
): Promise<void> {
  await trx
    .insertInto('agents')
    .values({ agent_id: agentId, profile, parent_agent_id: parentAgentId, created_at: now })
    .onConflict((conflict) => conflict.column('agent_id').doNothing())
    .execute();
}
