/** The roster: what is known of an agent besides its turns. */

import type { AgentLifecycle } from '../../../workflows/protocol/turn.ts';
import type { Trx } from '../context.ts';

export interface RosterEntry {
  readonly profile: string | null;
  readonly lifecycle: AgentLifecycle;
  /** The agent that made it by delegation. */
  readonly parent_agent_id: string | null;
}

export const selectRosterEntry = (trx: Trx, agentId: string) =>
  trx.selectFrom('agents').select(['profile', 'lifecycle', 'parent_agent_id']).where('agent_id', '=', agentId);

export const rosterEntry = (trx: Trx, agentId: string): Promise<RosterEntry | undefined> =>
  selectRosterEntry(trx, agentId).executeTakeFirst();

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
