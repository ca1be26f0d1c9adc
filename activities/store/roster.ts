/** The roster: what is known of an agent besides its turns. */

import type { AgentLifecycle } from '../../workflows/protocol/turn.ts';
import type { Trx } from './context.ts';

export const rosterEntry = (
  trx: Trx,
  agentId: string,
): Promise<{ profile: string | null; lifecycle: AgentLifecycle } | undefined> =>
  trx.selectFrom('agents').select(['profile', 'lifecycle']).where('agent_id', '=', agentId).executeTakeFirst();
