/** The roster: what is known of an agent besides its turns. */
import type { AgentLifecycle } from '../../../workflows/protocol/turn.ts';
import type { Reader, Tx } from '../context.ts';

/** What the roster says of an agent. */
export interface RosterEntry {
  /** The profile of its turns where a request names none; null: the one that is named like the agent. */
  readonly profile: string | null;
  readonly lifecycle: AgentLifecycle;
  /** The agent that made it by delegation; null for one that a request from outside made. */
  readonly parent_agent_id: string | null;
}

/** A query for the roster entry of an agent. */
export const selectRosterEntry = ({ db }: Reader, agentId: string) =>
  db.selectFrom('agents').select(['profile', 'lifecycle', 'parent_agent_id']).where('agent_id', '=', agentId);

/** The roster entry of an agent; undefined for one that never accepted a turn. */
export const rosterEntry = (reader: Reader, agentId: string): Promise<RosterEntry | undefined> =>
  selectRosterEntry(reader, agentId).executeTakeFirst();

/** An agent that a turn is accepted for. */
export interface NewAgent {
  readonly agentId: string;
  readonly profile: string | null;
  /** The agent that makes it by delegation; null for a request from outside. */
  readonly parentAgentId: string | null;
}

/** Puts the agent on the roster; one that is there stays as it is. */
export async function enrol(tx: Tx, { agentId, profile, parentAgentId }: NewAgent): Promise<void> {
  await tx.db
    .insertInto('agents')
    .values({ agent_id: agentId, profile, parent_agent_id: parentAgentId, created_at: tx.now })
    .onConflict((conflict) => conflict.column('agent_id').doNothing())
    .execute();
}
